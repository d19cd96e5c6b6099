"""Figures 1 to 3 of Deng et al. 2022 at a tiny size: what is measured, and how their claims are judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from manyheads.reproduce.deng2022.curves import Curves, Line
from manyheads.reproduce.deng2022.figure1 import Figure1
from manyheads.reproduce.deng2022.figure2 import Figure2
from manyheads.reproduce.deng2022.figure3 import Figure3
from manyheads.reproduce.experiment import Place
from manyheads.reproduce.training import trained

SHIFTS = (0.0, 0.002, 0.004)
"""by which made-up seeds differ"""


def test_loss_and_accuracy_are_those_of_the_averaged_model(tmp_path):
    tiny = Figure3(data="digits", clients=5, iterations=8, widths=(4, 6), depth=2, single=8, tau=2)
    place, part = Place(tmp_path), "heterogeneous: L 2, m 6"
    facts = tiny.measure(part, 0, place)
    run, federation = trained(tiny.config(part, 0), place)
    module, losses, right = run.client_module(0), [], []
    for client in range(5):
        train, test = (split.select([client]) for split in (federation.train, federation.test))
        x, y, x_test, y_test = map(torch.from_numpy, (train.x, train.y, test.x, test.y))
        with torch.no_grad():
            losses.append(float(torch.nn.functional.cross_entropy(module(x), y)))
            right.append(float((module(x_test).argmax(1) == y_test).float().mean()))
    assert facts["iterations"] == [2, 4, 6, 8]
    assert facts["loss"][-1] == pytest.approx(np.mean(losses), rel=1e-5)
    assert facts["test_accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    assert tiny.lines()["L 2, m 6"] == Line(width=6, depth=2, tau=2)


def made_up(figure: Curves, loss: Callable[[str, int], float], shift: float = 0.0) -> dict[str, dict[int, dict]]:
    """Facts of all parts: the last loss by panel and number of the line, the accuracy of the test 1 - loss."""
    found = {}
    for at, part in enumerate(figure.parts()):
        value = loss(part.partition(":")[0], at % len(figure.lines()))
        found[part] = {
            seed: {"iterations": [1, 2], "loss": [3.0, value + d + shift], "test_accuracy": 1 - value - d - shift}
            for seed, d in enumerate(SHIFTS)
        }
    return found


def verdicts(figure: Curves, loss: Callable[[str, int], float]) -> list[str]:
    return [claim.verdict for claim in figure.claims(made_up(figure, loss))]


def slope(panel: str) -> float:
    return 0.1 if panel == "heterogeneous" else 0.05


def test_figure1_claims():
    figure = Figure1()
    assert verdicts(figure, lambda panel, i: 0.9 - i * slope(panel)) == ["reproduced"] * 3
    assert verdicts(figure, lambda panel, i: 0.1 + i * slope(panel)) == ["not reproduced"] * 3
    assert verdicts(figure, lambda panel, i: 0.9 - i * (0.15 - slope(panel))) == [
        "reproduced", "reproduced", "not reproduced",
    ]  # fmt: skip


def test_figure2_claims():
    figure = Figure2()
    assert verdicts(figure, lambda panel, i: 0.1 + i * slope(panel)) == ["reproduced"] * 2
    assert verdicts(figure, lambda panel, i: 0.9 - i * slope(panel)) == ["not reproduced"] * 2
    assert verdicts(figure, lambda panel, i: 0.1 + i * (0.1 if panel == "homogeneous" else -0.1)) == [
        "partly", "not reproduced",
    ]  # fmt: skip
    assert figure.config("homogeneous: synchronous SGD", 0).rounds == figure.iterations == 1000
    assert figure.config("heterogeneous: tau 50", 0).rounds == 20


def test_figure3_claims():
    figure = Figure3()
    assert verdicts(figure, lambda _, i: (0.9, 0.3, 0.2, 0.19)[i]) == ["reproduced"] * 3
    assert verdicts(figure, lambda _, i: (0.1, 0.2, 0.3, 0.19)[i]) == ["not reproduced"] * 3
    assert verdicts(figure, lambda _, i: (0.9, 0.3, 0.25, 0.19)[i]) == ["reproduced", "reproduced", "not reproduced"]


def test_what_was_not_run_is_not_judged():
    figure = Figure1()
    found = {part: runs for part, runs in made_up(figure, lambda _, i: 0.5).items() if part.startswith("homogeneous")}
    assert [len(claim.checks) for claim in figure.claims(found)] == [4, 1, 0]
    assert figure.figure(found).to_dict()
