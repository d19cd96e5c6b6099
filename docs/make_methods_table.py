"""All methods on digits with three classes a client: ``python docs/make_methods_table.py``.

Each method's step size is chosen from the same four by its accuracy on the clients' validation samples, over three seeds;
with that step size the same three runs are measured on the test samples. Writes docs/methods-table.md and
results/digits-methods.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import manyheads as mh
from manyheads.core.machine import machine_facts
from manyheads.data import Classes, Digits, federate

ROOT = Path(__file__).parent.parent
CLIENTS, CLASSES, ROUNDS, SEEDS = 20, 3, 30, (0, 1, 2)
RATES = (0.01, 0.03, 0.1, 0.3)
L2GD_ROUNDS = 2100  # one iteration a round, of which a tenth are local steps: as many as 30 epochs have

METHODS: dict[str, Callable[[float], mh.Algorithm]] = {
    "local": lambda lr: mh.Local(sgd=mh.SGD(lr=lr)),
    "fedavg": lambda lr: mh.FedAvg(sgd=mh.SGD(lr=lr)),
    "dsgd": lambda lr: mh.DSGD(lr=lr),
    "local-sgd": lambda lr: mh.LocalSGD(lr=lr),
    "fedprox": lambda lr: mh.FedProx(sgd=mh.SGD(lr=lr)),
    "scaffold": lambda lr: mh.Scaffold(lr=lr, server_lr=1.0),
    "fedper": lambda lr: mh.FedPer(sgd=mh.SGD(lr=lr)),
    "fedrep": lambda lr: mh.FedRep(sgd=mh.SGD(lr=lr)),
    "lg-fedavg": lambda lr: mh.LGFedAvg(sgd=mh.SGD(lr=lr)),
    "perfedavg": lambda lr: mh.PerFedAvg(alpha=lr, beta=lr, batch=10, outer_batch=10, hessian_batch=10),
    "apfl": lambda lr: mh.APFL(lr=lr),
    "ditto": lambda lr: mh.Ditto(sgd=mh.SGD(lr=lr)),
    "l2gd": lambda lr: mh.L2GD(eta=lr * CLIENTS * 0.1),
    "fedmtl": lambda lr: mh.FedMTL(sgd=mh.SGD(lr=lr)),
}


def run(name: str, lr: float, seed: int, split: str) -> mh.Run:
    federation = federate(Digits().pool(seed), Classes(CLASSES), clients=CLIENTS, seed=seed).with_validation(0.2, seed)
    rounds = L2GD_ROUNDS if name == "l2gd" else ROUNDS
    evaluate = mh.Evaluate(split=split, every=rounds)
    tune = mh.FineTune(scope="head", epochs=10, lr=lr)
    return mh.simulate(METHODS[name](lr), "mlp", federation, rounds=rounds, seed=seed, evaluate=evaluate, finetune=tune)


def main() -> None:
    rows = []
    for name in track(METHODS, "methods", console=Console(stderr=True)):
        validated = {lr: np.mean([validate(name, lr, seed) for seed in SEEDS]) for lr in RATES}
        lr = max(validated, key=lambda r: validated[r])
        runs = [run(name, lr, seed, "test") for seed in SEEDS]
        last = [r.history[-1]["evaluation"] for r in runs]
        rows.append(
            {
                "method": name,
                "model": last[0]["model"],
                "lr": lr,
                "accuracy": [e["accuracy"] for e in last],
                "worst_decile": [e["accuracy_worst_decile"] for e in last],
                "spread_over_clients": [e["accuracy_std"] for e in last],
                "finetuned": [r.final[0]["accuracy"] for r in runs],
                "megabytes_up": runs[0].summary()["bytes_up"] / 1e6,
                "rounds": runs[0].rounds,
                "protocol": runs[0].protocol,
            }
        )
    facts = {
        "clients": CLIENTS,
        "classes_a_client": CLASSES,
        "seeds": SEEDS,
        "rates": RATES,
        "machine": machine_facts(),
    }
    (ROOT / "results").mkdir(exist_ok=True)
    (ROOT / "results" / "digits-methods.json").write_text(json.dumps({"rows": rows, **facts}, indent=1) + "\n")
    (ROOT / "docs" / "methods-table.md").write_text(_page(rows))


def validate(name: str, lr: float, seed: int) -> float:
    try:
        return run(name, lr, seed, "validation").accuracy or 0.0
    except mh.UserError:  # this step size diverges
        return 0.0


def _page(rows: list[dict]) -> str:
    head = f"""# All methods on digits

Made by `python docs/make_methods_table.py`. scikit-learn's digits, {CLIENTS} clients with exactly {CLASSES} classes each (55
training, 14 validation and 15 test samples a client), MLP 64-64-32-10, {ROUNDS} rounds, every client in every round.
The step size of each method is the best of {", ".join(map(str, RATES))} on the clients' *validation* samples (mean of the seeds); all else is
the method's default, but for SCAFFOLD's server step (1) and Per-FedAvg's batches (10) and outer step (= inner step).
Three seeds, each with its own partition and initial model: mean ± standard deviation over seeds.

Accuracy is the mean over clients of the accuracy on the client's own test samples after the last round, of the model
named in the second column. "Worst tenth": mean of the two clients that do worst. "Spread": standard deviation over
clients. "Fine-tuned": after 10 more epochs on the head. L2GD's round is one step or one move, so it ran {L2GD_ROUNDS}
rounds to make as many local steps as the others. FedRep's ten head epochs a round make it do eleven times the passes over
the data. `fedrep-linear` is for linear regression and not in the table.

These are small, easy problems (three digits to tell apart, 15 test samples a client): one client's one mistake is
0.3 points of the mean. Differences below about two points are noise here.

| method | model | step size | accuracy % | worst tenth % | spread % | fine-tuned % | MB sent up |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""
    lines = []
    for row in sorted(rows, key=lambda r: -np.mean(r["accuracy"])):
        cells = [_cell(row[k]) for k in ("accuracy", "worst_decile", "spread_over_clients", "finetuned")]
        lines.append(
            f"| {row['method']} | {row['model']} | {row['lr']} | {' | '.join(cells)} | {row['megabytes_up']:.1f} |"
        )
    return head + "\n".join(lines) + "\n"


def _cell(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}"


if __name__ == "__main__":
    main()
