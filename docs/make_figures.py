"""Draw the pictures of the documentation from real runs: ``python docs/make_figures.py``.

``python docs/make_figures.py FOLDER`` takes a picture of the first screen of a comparison's report instead.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import altair as alt

from manyheads import SGD, FedAvg, FedRep, Local, simulate
from manyheads.data import Classes, Digits, federate
from manyheads.report import write_report

IMAGES = Path(__file__).parent / "img"


def digits() -> alt.Chart:
    """Accuracy over rounds on digits with three classes a client, three seeds."""
    rows = []
    for seed in range(3):
        federation = federate(Digits().pool(seed), Classes(3), clients=20, seed=seed)
        for name, algorithm in {
            "FedAvg: one model for all": FedAvg(sgd=SGD(lr=0.05)),
            "FedRep: shared body, own head": FedRep(sgd=SGD(lr=0.05)),
            "local only": Local(sgd=SGD(lr=0.05)),
        }.items():
            run = simulate(algorithm, "mlp", federation, rounds=30, seed=seed)
            rows += [
                {"round": r, "accuracy": a, "method": name, "seed": seed} for r, a in run.history.column("accuracy")
            ]
    data = alt.Data(values=rows)
    base = alt.Chart(data).encode(
        x=alt.X("round:Q", title="communication round"),
        color=alt.Color("method:N", title=None, legend=alt.Legend(orient="bottom", labelLimit=300)),
    )
    y = alt.Y(
        "mean(accuracy):Q", title="accuracy on own test samples, mean over clients", scale=alt.Scale(domain=[0, 1])
    )
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("min(accuracy):Q"), y2="max(accuracy):Q")
    title = "digits, 3 classes a client, 20 clients (3 seeds: mean and range)"
    return (band + base.mark_line().encode(y=y)).properties(width=520, height=260, title=title)


def first_screen(report: Path) -> None:
    """Take a picture of the first screen of a report, with Chromium."""
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,800"]
        taken = [f"--user-data-dir={profile}", f"--screenshot={IMAGES / 'report.png'}", "--virtual-time-budget=20000"]
        subprocess.run(["chromium", *flags, *taken, report.resolve().as_uri()], check=True)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    if sys.argv[1:]:
        first_screen(write_report(Path(sys.argv[1])))
    else:
        digits().save(IMAGES / "digits.svg")
