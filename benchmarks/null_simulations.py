"""How often intervals cover, and how often something is found: ``python benchmarks/null_simulations.py [--share 0.1]``.

With predictions drawn at random (outcomes.py), and with real models in cross-validation (learners.py). Every number is a
mean over repetitions with its Monte Carlo error. Writes results/null-simulations.json; null_tables.py makes the tables of
docs/statistics.md from it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from learners import FOLDS, Problem, crossed
from outcomes import Scenario, draw
from scipy import stats

from manyheads.experiments.differences import differences
from manyheads.metrics import METRICS
from manyheads.metrics.discoveries import discoveries
from manyheads.metrics.paired import Differences, Estimate, Kind, estimate, overall
from manyheads.metrics.power import needed

OUT = Path(__file__).parent.parent / "results" / "null-simulations.json"
DESIGNS = ((1, 2), (1, 3), (1, 5), (5, 1), (5, 2), (5, 3))
"""folds, seeds"""
SHIFTS = ((0.0, 0.0), (0.01, 0.0), (0.03, 0.0), (0.0, 0.01), (0.0, 0.03))
"""standard deviation of shifts of a run: at all sites alike, at each site by itself"""
Facts = dict[str, float | bool]
"""what is measured in one repetition"""


def summary(rows: list[Facts]) -> dict[str, list[float]]:
    """The mean of each fact over repetitions, and its Monte Carlo error."""
    found = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows], float)
        found[name] = [float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)]
    return found


def covers(found: Estimate, truth: float) -> bool:
    low, high = found.interval()
    return low <= truth <= high


def width(found: Estimate) -> float:
    low, high = found.interval()
    return high - low


def outcome(rng: np.random.Generator, s: Scenario) -> Facts:
    """One repetition with drawn predictions."""
    drawn = draw(rng, s)
    gains, levels = [estimate(d, "difference") for d in drawn.gains], [estimate(d, "share") for d in drawn.levels]
    mean, level = overall(drawn.gains, "difference"), overall(drawn.levels, "share")
    facts: Facts = {
        "mean covers": covers(mean, s.gain),
        "mean width": width(mean),
        "mean level covers": covers(level, s.level),
        "mean level width": width(level),
        "recommended": mean.interval()[0] > 0,
        "advised against": mean.interval()[1] < 0,
        "some site found": discoveries([each.p_value for each in gains]).any(),
    }
    for size in sorted(set(s.sizes)):
        own = [i for i, n in enumerate(s.sizes) if n == size]
        facts |= {
            f"{size} covers": np.mean([covers(gains[i], s.gain) for i in own]),
            f"{size} width": np.mean([width(gains[i]) for i in own]),
            f"{size} level covers": np.mean([covers(levels[i], s.level) for i in own]),
            f"{size} level width": np.mean([width(levels[i]) for i in own]),
            f"{size} found": np.mean([gains[i].p_value < 0.05 for i in own]),
        }
    return facts


def false_discoveries(rng: np.random.Generator, s: Scenario) -> Facts:
    """One repetition in which every second site gains 10 points, and the others nothing."""
    seed = int(rng.integers(2**31))
    gaining, idle = (draw(np.random.default_rng(seed), replace(s, gain=gain)).gains for gain in (0.1, 0.0))
    real = np.arange(len(idle)) % 2 == 0
    sites = [a if yes else b for a, b, yes in zip(gaining, idle, real, strict=True)]
    found = discoveries([estimate(each, "difference").p_value for each in sites])
    return {"false share": (found & ~real).sum() / max(found.sum(), 1), "found": found[real].mean()}


def learned(p: Problem, repetitions: int, seed: int) -> dict[str, list[float]]:
    """Coverage of cross-validation's intervals for the expected gain, with three intervals beside each other."""
    metric = METRICS[p.metric]()
    sign = 1 if metric.higher_is_better else -1
    kinds: dict[str, Kind] = {"gain": "measure", "level": "measure"}
    if p.metric != "rmse":
        kinds = {"gain": "difference", "level": "share"}
    tried = [crossed(np.random.default_rng([seed, r]), p) for r in range(repetitions)]
    true = [np.mean([t.fresh[i] for t in tried], axis=(0, 2)) for i in (0, 1)]  # [sites]
    rows = []
    for t in tried:
        facts: Facts = {}
        gains = list(differences(t.scores[0], t.scores[1], sign).values())
        levels = [s for s in t.scores[1] if s is not None]
        for what, sites, truth in (("gain", gains, sign * (true[0] - true[1])), ("level", levels, true[1])):
            for name, interval in INTERVALS.items():
                found = [interval([site], kinds[what]) for site in sites]
                mean = interval(sites, kinds[what])
                hits = [low <= real <= high for (low, high), real in zip(found, truth, strict=True)]
                facts |= {
                    f"{what}, {name}, covers": np.mean(hits),
                    f"{what}, {name}, width": np.mean([high - low for low, high in found]),
                    f"mean {what}, {name}, covers": mean[0] <= truth.mean() <= mean[1],
                }
        rows.append(facts)
    return {"true gain": [float(sign * (true[0] - true[1]).mean()), 0.0], **summary(rows)}


def _ours(sites: list[Differences], kind: Kind) -> tuple[float, float]:
    return overall(sites, kind).interval()


def _samples_alone(sites: list[Differences], kind: Kind) -> tuple[float, float]:
    """As if all test samples were predicted by one model that was given."""
    each = [site._replace(fold=np.zeros_like(site.fold), runs=None) for site in sites]
    return overall(each, kind).interval() if len(each) == 1 else _no_sites(overall(each, kind))


def _no_sites(found: Estimate) -> tuple[float, float]:
    return replace(found, runs=found.noise).interval()


def _nadeau_bengio(sites: list[Differences], kind: Kind) -> tuple[float, float]:
    """Student's t with the corrected variance of Nadeau and Bengio 2003, from the values of the folds."""
    found = overall(sites, kind)
    ratio = 1 / FOLDS + 1 / (FOLDS - 1)
    half = stats.t.ppf(0.975, FOLDS - 1) * (found.runs.variance * FOLDS * ratio) ** 0.5
    return found.value - half, found.value + half


INTERVALS: dict[str, Callable[[list[Differences], Kind], tuple[float, float]]] = {
    "ours": _ours,
    "samples alone": _samples_alone,
    "Nadeau-Bengio": _nadeau_bengio,
}


def repeated(
    one: Callable[[np.random.Generator, Scenario], Facts], s: Scenario, repetitions: int, seed: int
) -> dict[str, list[float]]:
    return summary([one(np.random.default_rng([seed, r]), s) for r in range(repetitions)])


def planned(s: Scenario, more: str, repetitions: int, seed: int) -> dict[str, list[float]]:
    """Draw pilots; take the median of what they say is needed; draw that, and see how often the gain is found."""
    pilots = [estimate(draw(np.random.default_rng([seed, r]), s).gains[0], "difference") for r in range(200)]
    said = np.array([getattr(needed(pilot, gain=s.gain), more) or np.inf for pilot in pilots])
    enough = float(np.median(said))
    result = {"needed": [enough, 0.0], "attainable": [float(np.isfinite(said).mean()), 0.0]}
    result["found by pilots"] = [float(np.mean([pilot.p_value < 0.05 for pilot in pilots])), 0.0]
    if not np.isfinite(enough):
        return result
    larger = replace(s, sizes=(round(enough * s.sizes[0]),)) if more == "samples" else replace(s, seeds=round(enough))
    rows = [
        estimate(draw(np.random.default_rng([seed + 1, r]), larger).gains[0], "difference") for r in range(repetitions)
    ]
    return result | summary([{"found": row.p_value < 0.05} for row in rows])


def tasks() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any], int]]:
    """Section, function, its first arguments, what is varied, repetitions."""
    for (folds, seeds), (common, own), methods in product(DESIGNS, SHIFTS, (1, 9)):
        s = Scenario(folds=folds, seeds=seeds, common=common, own=own, methods=methods)
        yield "null", repeated, (outcome, s), asdict(s), 2000
    for (folds, seeds), (common, own), metric in product(DESIGNS, SHIFTS, ("balanced_accuracy", "auc")):
        s = Scenario(metric, folds, seeds, common, own)
        yield "null", repeated, (outcome, s), asdict(s), 1000
    for (folds, seeds), alike in product(DESIGNS, (0.6, 0.98)):
        s = Scenario(folds=folds, seeds=seeds, own=0.01, alike=alike)
        yield "null", repeated, (outcome, s), asdict(s), 1000
    for (folds, seeds), own in product(DESIGNS, (0.0, 0.03)):
        s = Scenario(folds=folds, seeds=seeds, own=own)
        yield "mixed", repeated, (false_discoveries, s), asdict(s), 1000
    for (folds, seeds), gain in product(DESIGNS, (0.02, 0.05, 0.1)):
        s = Scenario(folds=folds, seeds=seeds, own=0.01, gain=gain)
        yield "planted", repeated, (outcome, s), asdict(s), 1000
    for (folds, seeds), gain in product(((1, 3), (1, 5), (5, 1), (5, 3)), (0.02, 0.05, 0.1)):
        s = Scenario(folds=folds, seeds=seeds, gain=gain, sizes=(100,))
        yield "samples needed", planned, (s, "samples"), asdict(s), 1000
    for gain, own in product((0.02, 0.05), (0.01, 0.03)):
        s = Scenario(folds=1, seeds=3, own=own, gain=gain, sizes=(2000,))
        yield "seeds needed", planned, (s, "seeds"), asdict(s), 1000
    alone = {name: (name, False) for name in ("logistic", "tree", "majority", "ridge")}
    for samples, signal in product((30, 100, 300), (0.0, 1.0)):
        for metric, first, second in (
            ("accuracy", ("logistic", True), alone["logistic"]),
            ("accuracy", alone["logistic"], alone["tree"]),
            ("accuracy", alone["logistic"], alone["majority"]),
            ("auc", ("logistic", True), alone["logistic"]),
            ("rmse", ("ridge", True), alone["ridge"]),
        ):
            p = Problem(metric, samples, signal, first, second)
            yield "learners", learned, (p,), asdict(p), 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--section", help="only this one; the others are kept as they are in the file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    chosen = [task for task in tasks() if args.section in (None, task[0])]
    sections: dict[str, list[dict[str, Any]]] = {}
    if args.section:
        sections = json.loads(args.out.read_text(encoding="utf-8"))["sections"] | {args.section: []}
    with ProcessPoolExecutor(args.workers) as pool:
        done = [
            pool.submit(task[1], *task[2], max(round(args.share * task[4]), 10), seed)
            for seed, task in enumerate(chosen)
        ]
        for (section, _, _, varied, repetitions), result in zip(chosen, done, strict=True):
            found = {name: [round(x, 5) for x in pair] for name, pair in result.result().items()}
            row = {"varied": varied, "repetitions": max(round(args.share * repetitions), 10), "found": found}
            sections.setdefault(section, []).append(row)
            print(section, varied, flush=True)
    machine = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    text = json.dumps({"error": "each value has its Monte Carlo error", "sections": sections, "machine": machine})
    args.out.write_text(text.replace('{"varied"', '\n{"varied"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
