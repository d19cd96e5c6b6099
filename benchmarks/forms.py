"""What each hand-written form of a computation is worth: ``python benchmarks/forms.py [--only WORKLOAD] [--turns N]``.

Each form is switched off, and nothing else, by a patch of the library. All variants of a workload share one run on one
thread and take turns round by round, so that what else happens on the machine hits all alike; the processor time of a
round counts. The ratio is without the form over with it, in the same turn. A form that gains less than a fifth on every
workload does not stay. Writes benchmarks/results/forms.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from workloads import WORKLOADS, Workload, classified

from manyheads import FedAvg, Model
from manyheads.core.machine import machine_facts
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.core.tasks import Task
from manyheads.core.trees import Tree
from manyheads.engines import chain, cheapest, client_data, derivatives, looped
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.descent import Descent
from manyheads.models import Net

RESULT = Path(__file__).parent / "results" / "forms.json"
WORTH_IT = 1.2
CHAINS = ("mlp-fedavg", "mlp-fedrep", "relu-wide", "relu-deep")
DERIVATIVES = ("perfedavg-exact", "perfedavg-fo")
IMAGES = ("cnn-fedavg", "cnn-fedrep", "cnn6-fedavg")


@dataclass(frozen=True)
class Form:
    """A form of a computation, how to do without it, and the workloads in which it takes part."""

    name: str
    words: str
    without: Callable[[], AbstractContextManager[Any]]
    workloads: tuple[str, ...]


class Done(Exception):
    """Enough turns."""


# -- how to do without ----------------------------------------------------------------------------------------------------


@contextmanager
def replaced(value: Any, *places: tuple[Any, str]) -> Iterator[None]:
    """The same value under several names."""
    patches = [mock.patch.object(owner, name, value) for owner, name in places]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


def without_layer(kind: str) -> AbstractContextManager[Any]:
    work = cheapest.work
    return replaced(lambda *a, **k: {form: w for form, w in work(*a, **k).items() if form != kind}, (cheapest, "work"))


def by_autograd(task: Task, labels: Tensor, weight: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and its gradient with respect to the outputs."""
    with torch.enable_grad():
        leaf = out.detach().requires_grad_()
        each = task.losses(leaf.flatten(0, 1), labels.flatten(0, 1)).view(weight.shape)
        loss = (each * weight).sum(dim=1)
        (slope,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), slope


def by_gradient(self: Descent, place: int, left: Tensor, right: Tensor) -> None:
    self.move(place, torch.bmm(left, right))


def by_vmap(self: Net, params: Any, x: Tensor) -> Tensor:
    own = {k.removeprefix(self.prefix): v for k, v in params.items()}
    return vmap(lambda p, v: functional_call(self.module, p, (v,)))(own, x)


FORMS = (
    Form(
        "chain",
        "steps of chains of linear layers by hand, instead of by autograd",
        lambda: replaced(lambda *_: None, (LocalCohort, "_chain")),
        CHAINS,
    ),
    Form(
        "derivatives",
        "gradients and Hessian-vector products of chains by hand, instead of by autograd",
        lambda: replaced(lambda *_: None, (LocalCohort, "_chain")),
        DERIVATIVES,
    ),
    Form(
        "dual",
        "the first layer as multiples of the client's samples (`Dual`)",
        lambda: without_layer("dual"),
        ("mlp-fedrep", "mlp-ditto", "mlp-scaffold"),
    ),
    Form(
        "product",
        "the gradient is added to the weight by the product that makes it, never formed",
        lambda: replaced(by_gradient, (Descent, "move_by_product")),
        (*CHAINS, "mlp-ditto", "mlp-scaffold"),
    ),
    Form(
        "loss",
        "the gradient of the loss in closed form, instead of by autograd",
        lambda: replaced(by_autograd, (chain, "loss_and_slope"), (derivatives, "loss_and_slope")),
        (*CHAINS, *DERIVATIVES),
    ),
    Form(
        "multiples",
        "a multiple of a tree is added in one pass",
        lambda: replaced(lambda t, s: t.map(lambda v: v * s), (Tree, "__mul__"), (Tree, "__rmul__")),
        (*DERIVATIVES, "linear-40", "linear-1000"),
    ),
    Form(
        "channels last",
        "images and the weights of convolutions with their channels last",
        lambda: replaced(lambda v: v, (looped, "channels_last"), (client_data, "channels_last")),
        IMAGES,
    ),
    Form(
        "slices",
        "images in slices of 64 where no gradient is needed, instead of 1024",
        lambda: replaced(client_data.SLICE, (client_data, "IMAGE_SLICE")),
        ("cnn-fedrep",),
    ),
    Form(
        "features",
        "a frozen body's features computed once for the head",
        lambda: replaced(lambda *_: False, (LocalCohort, "_features_last")),
        ("mlp-fedrep", "cnn-fedrep"),
    ),
    Form(
        "stacked",
        "chains of many clients by `baddbmm`, instead of `vmap`",
        lambda: replaced(by_vmap, (Net, "stacked")),
        ("evaluate-1000", "gelu-fedavg"),
    ),
)

NEEDED = {
    "multiples": "no form of a layer: formulas are written as in the papers, at no cost",
    "slices": "bounds the memory of a pass",
    "loss": "Hessian-vector products need it",
}
"""forms that stay for another reason"""
REMOVED = {
    "trail": "a layer as its first weight and the steps since then",
    "shared": "one product of all clients with a matrix that they share, told apart by hand",
    "transposed": "the trail's first weight kept transposed",
    "take": "rows of samples by `index_select`, instead of `x[rows]`",
    "in place": "a batch of all samples is not copied",
    "foreach": "all parameters in one call of the optimizer (`torch._foreach_add_`)",
}
"""forms that were measured and are gone; what was measured stays in the results"""


# -- timing ---------------------------------------------------------------------------------------------------------------


def gelu() -> Model:
    """A small chain whose activation has no derivative by hand."""
    with torch_seeded(0, Purpose.MODEL):
        layers = nn.Linear(100, 64), nn.GELU(), nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10)
        return Model(nn.Sequential(*layers), head="4")


SHORT = {
    name: replace(workload, rounds=min(workload.rounds, 10 if name.startswith("linear") else 1))
    for name, workload in WORKLOADS.items()
}
"""the workloads, made short so that variants can take turns often: images of two clients, who take turns anyway"""
for _name in IMAGES:
    SHORT[_name] = replace(SHORT[_name], federation=lambda: classified(2, 100, (3, 32, 32)))
SHORT["cnn6-fedavg"] = replace(SHORT["cnn6-fedavg"], algorithm=FedAvg(steps=10, batch=10))
SHORT["relu-wide"] = replace(SHORT["relu-wide"], federation=lambda: classified(16, 500, (784,)))
SHORT["gelu-fedavg"] = Workload(
    "gelu-fedavg",
    "FedAvg, MLP 100-64-32-10 with GELU, 100 clients x 50 samples, batch 10, one epoch",
    FedAvg(epochs=1, batch=10),
    gelu,
    lambda: classified(100, 50, (100,)),
    0,
)


def timed(workload: Workload, forms: list[Form], turns: int) -> list[dict[str, float]]:
    """Of each turn, the processor time of a round with all forms (""), and without each of them."""
    variants = ["", *(form.name for form in forms)]
    without = {form.name: form.without for form in forms}
    found: list[dict[str, float]] = []
    switched: AbstractContextManager[Any] = nullcontext()
    plan: list[str] = []
    spent, left, variant = 0.0, 0, ""

    def next_variant() -> None:
        nonlocal switched, spent, left, variant
        if not plan:
            if len(found) > turns:
                raise Done
            shift = len(found) % len(variants)
            plan.extend(variants[shift:] + variants[:shift])
            found.append({})
        variant = plan.pop(0)
        switched = without[variant]() if variant else nullcontext()
        switched.__enter__()
        left = workload.rounds
        spent = time.process_time()

    def on_round(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            return
        if found:
            found[-1][variant] = (time.process_time() - spent) / workload.rounds
            switched.__exit__(None, None, None)
        next_variant()

    try:
        workload.run(1, on_round)
    except Done:
        return found[1:]  # the first turn warms up
    raise AssertionError


def ratios(turns: list[dict[str, float]], name: str) -> list[float]:
    return [turn[name] / turn[""] for turn in turns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(SHORT), default=list(SHORT), help="workloads")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    for name in options.only:
        forms = [form for form in FORMS if name in form.workloads]
        if not forms:
            continue
        turns = timed(SHORT[name], forms, options.turns)
        before = rows.get(name, {}).get("without", {})
        rows[name] = {
            "words": SHORT[name].words,
            "seconds": [turn[""] for turn in turns],
            "without": {gone: before[gone] for gone in REMOVED if gone in before}
            | {form.name: ratios(turns, form.name) for form in forms},
            "load": os.getloadavg()[0],
        }
        for form in forms:
            low, middle, high = statistics.quantiles(rows[name]["without"][form.name], n=4)
            print(f"{name:16} without {form.name:14} {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
        save(rows)


def save(rows: dict[str, Any]) -> None:
    ordered = {name: rows[name] for name in SHORT if name in rows}
    words = {form.name: form.words for form in FORMS}
    RESULT.write_text(
        json.dumps(
            {"rows": ordered, "forms": words, "needed": NEEDED, "removed": REMOVED, "machine": machine_facts()},
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
