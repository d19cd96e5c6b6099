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
from typing import Literal

import numpy as np

from manyheads.core.machine import machine_facts
from manyheads.data.public.hub import fetch
from manyheads.experiments.flamby import POOLED, Benchmark, Cell, compared, heart_benchmark, published, tcga_benchmark

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "flamby.json", ROOT / "docs" / "hospitals.md"
HEADING = "## Beside FLamby's numbers"
SEEDS, MORE_SEEDS = range(42, 47), range(42, 82)
"""FLamby's five, and those that show how much methods vary on TCGA-BRCA"""
MORE: dict[str, tuple[str, Literal["client", "none"]]] = {
    "as they are": ("fedavg", "none"),
    "scaled": ("fedavg", "client"),
    "fedadam as they are": ("fedadam", "none"),
    "fedadam scaled": ("fedadam", "client"),
}
"""the method, and how its features are scaled then"""
TITLES = {
    "local": "alone",
    "pooled": "pooled",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedadagrad": "FedAdagrad",
}


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
            bench, had = make(), {cell["method"] for cell in done.get(name, ())}
            if had < TITLES.keys():
                theirs = published(data / place / "flamby_results", bench.apart.client_names or ())
                cells = compared(theirs, [list(bench.run(seed, but=had)) for seed in SEEDS])
                done[name] = [*done.get(name, ()), *(asdict(cell) for cell in cells)]
                save(done)
        for name, (method, scaling) in MORE.items():
            if name not in done:
                bench = tcga_benchmark(f"{folder}/tcga-brca", scaling)
                done[name] = [bench.shared(method, seed) for seed in MORE_SEEDS]
                save(done)
    before, _, rest = PAGE.read_text().partition(HEADING)
    PAGE.write_text(before + section(done) + "\n" + rest[rest.index("\n## ") + 1 :])


def save(done: dict) -> None:
    RESULTS.write_text(json.dumps(done, indent=1) + "\n")
    sys.stderr.write(f"{RESULTS}: {', '.join(done)}\n")


def table(rows: list[dict]) -> list[str]:
    """A row for each method: ours and, in brackets, FLamby's; a star where our mean is out of the range of its seeds."""
    cells = [Cell(r["method"], r["site"], tuple(r["published"]), tuple(r["ours"])) for r in rows]
    sites = list(dict.fromkeys(cell.site for cell in cells))
    by = {(cell.method, cell.site): cell for cell in cells}
    lines = [
        f"| | {' | '.join(s if s != POOLED else 'all tests' for s in sites)} |",
        "| --- |" + " ---: |" * len(sites),
    ]
    for method, title in TITLES.items():
        own = [by.get((method, site)) for site in sites]
        lines.append(f"| {title} | {' | '.join(shown(cell) if cell else '' for cell in own)} |")
    return lines


def shown(cell: Cell) -> str:
    ours, theirs = (f"{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}" for v in (cell.ours, cell.published))
    return f"{ours}{'' if cell.within else ' *'} ({theirs})"


def section(done: dict) -> str:
    plain, scaled, adam, adam_scaled = (
        {site: np.array([run[site] for run in done[name]]) for site in done[name][0]} for name in MORE
    )
    cells = [Cell(r["method"], r["site"], tuple(r["published"]), tuple(r["ours"])) for r in done["tcga-brca"]]
    whole = {cell.method: f"{np.mean(cell.ours):.3f}" for cell in cells if cell.site == POOLED}
    farthest = max(cells, key=lambda cell: np.nan_to_num(abs(cell.apart)))
    spread = lambda v: f"{v.mean():.3f} ± {v.std(ddof=1):.3f}"  # noqa: E731
    facts = {
        "HEART": "\n".join(table(done["heart"])),
        "TCGA": "\n".join(table(done["tcga-brca"])),
        "CELLS": str(len(cells)),
        "STARS": str(sum(not cell.within for cell in cells)),
        "FARTHEST": f"{TITLES[farthest.method]} in {farthest.site}",
        "APART": f"{abs(farthest.apart):.1f}",
        "ADAMS": f"{spread(adam[POOLED])}, from {adam[POOLED].min():.2f} to {adam[POOLED].max():.2f},",
        "ADAMSCALED": spread(adam_scaled[POOLED]),
        "ADAM": whole["fedadam"],
        "ADAGRAD": whole["fedadagrad"],
        "AVG": whole["fedavg"],
        "SEEDS": str(len(MORE_SEEDS)),
        "PLAIN": f"{spread(plain[POOLED])}, from {plain[POOLED].min():.2f} to {plain[POOLED].max():.2f}",
        "FLIPPED": str(int((plain[POOLED] < 0.6).sum())),
        "SITES": ", ".join(f"{site} {spread(v)}" for site, v in plain.items() if site != POOLED),
        "SCALED": spread(scaled[POOLED]),
        "BETTER": ", ".join(f"{site} {spread(v)}" for site, v in scaled.items() if site != POOLED),
    }
    text = TEXT
    for name, value in facts.items():
        text = text.replace(f"<{name}>", value)
    return f"{HEADING}\n\n{text}\n"


TEXT = """FLamby (Ogier du Terrail et al., NeurIPS 2022) published benchmarks of these hospitals and of six regions of TCGA-BRCA. Here
are its protocol, its models and its settings with our methods, five seeds each: `python docs/make_flamby.py`, with
`MANYHEADS_DATA` pointing to the data and to FLamby's result files. In every cell: our mean and standard deviation over five
seeds and, in brackets, FLamby's; a star where our mean is not within the range of FLamby's five values. A seed gives the same
initial model there and here; the order of batches differs.

These are FLamby's numbers, made by FLamby's choices: rows with a missing value are left out, every hospital is standardised by
its own patients, "alone" is 50 passes of an untuned model. What we would do with the same patients is above.

### Heart disease: accuracy, logistic regression

<HEART>

Every cell agrees. The two stars are one patient each, in one of five seeds (77.5 % of 89 patients in place of 76.4 %; 66.7 % of
45 in place of 64.4 %). What it took to get there:

- **Data.** The columns `slope`, `ca` and `thal` are dropped, then rows with a missing value (303, 261, 46 and 130 patients stay);
  `cp` and `restecg` become one column for each code but the lowest: 13 features. The split is scikit-learn's, seed 43,
  stratified unless a label has fewer than three patients (Switzerland).
- **"All tests" is not the sum of the four.** FLamby standardises the pooled samples by the statistics of all, and each hospital
  by its own. So the pooled model is trained on one kind of input and tested at each hospital on another, and the federated models
  the other way round. That alone separates 0.75 from 0.71, the mean over patients of FedAvg's four columns.
- **Model.** One weight a feature and a sigmoid. Two outputs with a softmax are the same function, but take steps of twice the
  size; the log odds of the first class are therefore held at 0, which makes loss and gradient those of FLamby.
- **Methods.** Local and pooled training by Adam (`Local(optimizer="adam")`, one round of 50 epochs). FedAvg, FedProx and SCAFFOLD
  take 100 steps of plain SGD a round, batches of 4, 15 rounds, hospitals weighted by their training samples
  (`--weighting samples`, which is not SCAFFOLD's own). FLamby's SCAFFOLD keeps the difference of the control variates; it is
  the same method, step for step. FedAdam, FedYogi and FedAdagrad are FedAvg with a [server optimizer](optimizers.md): local
  and server steps 0.01 and 0.01, 0.003162 and 0.01, 0.003162 and 0.316228; decays 0.9 and 0.999, tau 1e-8.
- **Order of batches.** With FLamby's own draws in place of ours (torch's data loaders and seeds, in a plain loop over our data and
  model), the accuracy of local training and FedAvg is FLamby's to the last digit (a test does that for one seed).

FedAvg, FedProx and SCAFFOLD agree with each other to a patient, because with a step size of 0.001 none of them gets far
from the initial model in 1,500 steps: most of the spread over seeds is that of the initial weights. The adaptive ones get
further, by their server's steps.

### TCGA-BRCA: C-index, linear Cox model

<TCGA>

Alone and pooled agree. The federated cells are compatible (of <CELLS> cells <STARS> are starred, and the largest difference of
means, <FARTHEST>, is <APART> standard errors), but five seeds say little here, FLamby's or ours:

- **Adaptive servers are where FLamby has them**: FedAdam and FedYogi <ADAM> on all tests (FLamby 0.842), FedAdagrad <ADAGRAD>
  (0.834), FedAvg <AVG> (0.735). Local and server steps are 0.01 and 0.1 (FedAdagrad 1), decays 0.9 and 0.999, tau 1e-8. Each
  weight gets a step of the server's size whatever its unit; that the local step is a tenth of FedAvg's is not the reason, since
  SCAFFOLD's is too. Their stars are Canada's, where one of five seeds is below 1. Over <SEEDS> seeds FedAdam reaches <ADAMS> on all tests.

- **The training does not settle.** Ages are in years (26 to 90) beside zeros and ones, the step size is 0.1, and a batch of 8 has
  one event on average. A single step moves the weight of age by up to some tenths (0.1 times a difference of decades, over
  8), and from one round to the next the C-index jumps between 0.3 and 0.8. Over <SEEDS> seeds FedAvg reaches <PLAIN>, on
  all tests; in <FLIPPED> of them it ends below 0.6, as one of FLamby's five does (0.42). By region it is then where
  FLamby's five are, and no star is left: <SITES>.
- **Scaled features settle it.** With the same protocol and each region's features scaled by its own training patients, as
  `tcga-brca` does unless told otherwise, FedAvg reaches <SCALED> over the same seeds (<BETTER>): as
  good as the adaptive methods that FLamby reports (FedAdam, FedYogi: 0.842), and better than its pooled training (0.704). FedAdam
  with scaled features, and the step sizes that FLamby found for the others, reaches <ADAMSCALED>.
- **Tests are small.** They hold 14, 4, 8, 3, 2 and 1 events. Canada's C-index can only be 0, 1/3, 2/3 or 1.
- **Order of batches.** With FLamby's own draws in a plain loop, pooled training and training alone in the four American regions
  give FLamby's numbers, but for a pair or two. In Europe and Canada, with 7 and 2 training events, they also depend on how
  the loss is written: two forms that are equal in exact arithmetic end at 2/3 and at 1 in Canada. The federated numbers
  could not be had to the digit by any order of draws that was tried.
- **Ties.** FLamby takes tied times as they come, ours are treated by Efron's method; in batches of 8 ties are rare."""

if __name__ == "__main__":
    main()
