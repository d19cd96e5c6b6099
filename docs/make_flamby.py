"""FLamby's protocol with our methods, beside FLamby's numbers: ``MANYHEADS_DATA=... python docs/make_flamby.py``.

Reads the published results from heart/flamby_results and tcga_brca/flamby_results there. Writes results/flamby.json, and
the part of docs/hospitals.md that begins with the heading below. What is in results/flamby.json is not run again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from manyheads.core.machine import machine_facts
from manyheads.data.public.hub import fetch
from manyheads.experiments.flamby import POOLED, Benchmark, Cell, compared, heart_benchmark, published, tcga_benchmark

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "flamby.json", ROOT / "docs" / "hospitals.md"
HEADING = "## Beside FLamby's numbers"
SEEDS, MORE = range(42, 47), range(42, 82)
"""FLamby's five, and those that show how much FedAvg varies on TCGA-BRCA"""
TITLES = {"local": "alone", "pooled": "pooled", "fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD"}


def main() -> None:
    data = Path(os.environ["MANYHEADS_DATA"])
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine_facts()}
    with TemporaryDirectory() as folder:
        fetch("tcga-brca", Path(folder))
        makers: dict[str, tuple[Callable[[], Benchmark], str]] = {
            "heart": (heart_benchmark, "heart"),
            "tcga-brca": (lambda: tcga_benchmark(f"{folder}/tcga-brca"), "tcga_brca"),
        }
        for name, (make, place) in makers.items():
            if name not in done:
                bench = make()
                theirs = published(data / place / "flamby_results", bench.apart.client_names or ())
                cells = compared(theirs, [list(bench.run(seed)) for seed in SEEDS])
                done[name] = [asdict(cell) for cell in cells]
                save(done)
        if "more" not in done:
            bench = tcga_benchmark(f"{folder}/tcga-brca")
            done["more"] = [bench.shared("fedavg", seed) for seed in MORE]
            save(done)
    before = PAGE.read_text().partition(HEADING)[0]
    PAGE.write_text(before + section(done))


def save(done: dict) -> None:
    RESULTS.write_text(json.dumps(done, indent=1) + "\n")
    sys.stderr.write(f"{RESULTS}: {', '.join(done)}\n")


def table(rows: list[dict]) -> list[str]:
    """A row for each method: ours and, in brackets, FLamby's; a star where our mean is out of the range of its seeds."""
    cells = [Cell(r["method"], r["site"], tuple(r["published"]), tuple(r["ours"])) for r in rows]
    sites = list(dict.fromkeys(cell.site for cell in cells))
    by = {(cell.method, cell.site): cell for cell in cells}
    lines = [f"| | {' | '.join(s if s != POOLED else 'all tests' for s in sites)} |", "| --- |" + " ---: |" * len(sites)]
    for method, title in TITLES.items():
        own = [by.get((method, site)) for site in sites]
        lines.append(f"| {title} | {' | '.join(shown(cell) if cell else '' for cell in own)} |")
    return lines


def shown(cell: Cell) -> str:
    ours, theirs = (f"{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}" for v in (cell.ours, cell.published))
    return f"{ours}{'' if cell.within else ' *'} ({theirs})"


def section(done: dict) -> str:
    more = {site: np.array([run[site] for run in done["more"]]) for site in done["more"][0]}
    allowed = "; ".join(f"{site} {v.mean():.3f} ± {v.std(ddof=1):.3f}" for site, v in more.items() if site != POOLED)
    low, high = more[POOLED].min(), more[POOLED].max()
    text = TEXT.replace("HEART", "\n".join(table(done["heart"]))).replace("TCGA", "\n".join(table(done["tcga-brca"])))
    text = text.replace("ALL-SITES", allowed).replace("SEEDS", str(len(MORE)))
    text = text.replace("MEAN", f"{more[POOLED].mean():.3f} ± {more[POOLED].std(ddof=1):.3f}")
    return f"{HEADING}\n\n" + text.replace("RANGE", f"from {low:.2f} to {high:.2f}").replace(
        "FLIPPED", str(int((more[POOLED] < 0.6).sum()))
    )


TEXT = """PLACEHOLDER"""

if __name__ == "__main__":
    main()
