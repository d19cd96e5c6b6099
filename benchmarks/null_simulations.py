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
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from learners import Problem, crossed
from outcomes import Scenario, differences, draw
from scipy import stats

from manyheads.metrics import METRICS
from manyheads.metrics.discoveries import discoveries
from manyheads.metrics.paired import NOTHING, Differences, Estimate, Kind, Moments, estimate, overall
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
    sign = 1 if METRICS[p.metric].higher_is_better else -1
    kinds: tuple[Kind, Kind] = ("measure", "measure") if p.metric == "rmse" else ("difference", "share")
    tried = [crossed(np.random.default_rng([seed, r]), p) for r in range(repetitions)]
    first, second = (np.mean([t.fresh[i] for t in tried], axis=(0, 2)) for i in (0, 1))  # [sites]
    gains = [differences(*t.scores, sign) for t in tried]
    levels = [[score for score in t.scores[1] if score is not None] for t in tried]
    result = {"true gain": [float(sign * (first - second).mean()), 0.0]}
    for what, found, truth, kind in (
        ("gain", gains, sign * (first - second), kinds[0]),
        ("level", levels, second, kinds[1]),
    ):
        rows = summary([_intervals(sites, truth, kind) for sites in found])
        result |= {f"{what}, {name}": pair for name, pair in rows.items()}
        result[f"{what}, deviation over that of samples"] = _ratio(found, kind)
    return result


def _intervals(sites: list[Differences], truth: np.ndarray, kind: Kind) -> Facts:
    """How often each kind of interval covers, over the sites and for their mean, and how wide it is."""
    facts: Facts = {}
    for name, interval in INTERVALS.items():
        own, mean = [interval([site], kind) for site in sites], interval(sites, kind)
        facts |= {
            f"{name}, covers": np.mean([low <= real <= high for (low, high), real in zip(own, truth, strict=True)]),
            f"{name}, width": np.mean([high - low for low, high in own]),
            f"{name}, covers mean": mean[0] <= truth.mean() <= mean[1],
        }
    return facts


def _ratio(found: list[list[Differences]], kind: Kind) -> list[float]:
    """The standard deviation over repetitions, over that which the variance of the samples alone gives."""
    values = np.array([[site.values.mean() for site in sites] for sites in found])
    variances = np.array([[_unfolded([site], kind).common.variance for site in sites] for sites in found])
    ratio = float((values.var(axis=0, ddof=1).mean() / variances.mean()) ** 0.5)
    return [ratio, ratio / (2 * values.size) ** 0.5]


def _overall(sites: list[Differences], kind: Kind) -> Estimate:
    return overall([Moments.of(site) for site in sites], kind)


def _unfolded(sites: list[Differences], kind: Kind) -> Estimate:
    """As if all test samples were predicted by one model that was given."""
    found = _overall([site._replace(fold=np.zeros_like(site.fold), runs=None) for site in sites], kind)
    return replace(found, runs=NOTHING)


def _nadeau_bengio(sites: list[Differences], kind: Kind) -> tuple[float, float]:
    """Student's t with the corrected variance of Nadeau and Bengio 2003, from the values of the folds."""
    found = _overall(sites, kind)
    ratio = 1 / found.folds + 1 / (found.folds - 1)
    half = stats.t.ppf(0.975, found.folds - 1) * (found.runs.variance * found.folds * ratio) ** 0.5
    return found.value - half, found.value + half


INTERVALS: dict[str, Callable[[list[Differences], Kind], tuple[float, float]]] = {
    "ours": lambda sites, kind: _overall(sites, kind).interval(),
    "samples alone": lambda sites, kind: _unfolded(sites, kind).interval(),
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


class Task(NamedTuple):
    """One row of the results."""

    section: str
    run: Callable[..., dict[str, list[float]]]
    arguments: tuple[Any, ...]
    repetitions: int

    @property
    def varied(self) -> dict[str, Any]:
        return next(asdict(each) for each in self.arguments if isinstance(each, Scenario | Problem))


def tasks() -> Iterator[Task]:
    for (folds, seeds), (common, own), methods in product(DESIGNS, SHIFTS, (1, 9)):
        s = Scenario(folds=folds, seeds=seeds, common=common, own=own, methods=methods)
        yield Task("null", repeated, (outcome, s), 1000)
    for (folds, seeds), (common, own), metric in product(DESIGNS, SHIFTS[::2], ("balanced_accuracy", "auc")):
        yield Task("null", repeated, (outcome, Scenario(metric, folds, seeds, common, own)), 500)
    for (folds, seeds), alike in product(DESIGNS, (0.6, 0.98)):
        yield Task("null", repeated, (outcome, Scenario(folds=folds, seeds=seeds, own=0.01, alike=alike)), 500)
    for (folds, seeds), own in product(DESIGNS, (0.0, 0.03)):
        yield Task("mixed", repeated, (false_discoveries, Scenario(folds=folds, seeds=seeds, own=own)), 500)
    for (folds, seeds), gain in product(DESIGNS, (0.02, 0.05, 0.1)):
        yield Task("planted", repeated, (outcome, Scenario(folds=folds, seeds=seeds, own=0.01, gain=gain)), 500)
    for (folds, seeds), gain in product(((1, 3), (1, 5), (5, 1), (5, 3)), (0.02, 0.05, 0.1)):
        s = Scenario(folds=folds, seeds=seeds, gain=gain, sizes=(100,))
        yield Task("samples needed", planned, (s, "samples"), 500)
    for own, gain in product((0.01, 0.03), (0.02, 0.05)):
        s = Scenario(folds=1, seeds=3, own=own, gain=gain, sizes=(2000,))
        yield Task("seeds needed", planned, (s, "seeds"), 500)
    for samples, signal in product((30, 100, 300), (0.0, 1.0)):
        for metric, first, second in (
            ("accuracy", ("logistic", True), ("logistic", False)),
            ("accuracy", ("logistic", False), ("tree", False)),
            ("accuracy", ("logistic", False), ("majority", False)),
            ("auc", ("logistic", True), ("logistic", False)),
            ("rmse", ("ridge", True), ("ridge", False)),
        ):
            yield Task("learners", learned, (Problem(metric, samples, signal, first, second),), 250)
    for folds, signal in product((2, 10, 20), (0.0, 1.0)):
        yield Task("learners", learned, (Problem(signal=signal, folds=folds),), 250)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--sections", nargs="*", help="only these; the others stay as they are in the file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    kept = json.loads(args.out.read_text(encoding="utf-8"))["sections"] if args.sections else {}
    chosen = [task for task in tasks() if not args.sections or task.section in args.sections]
    sections: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(args.workers) as pool:
        order = [sum(other.section == task.section for other in chosen[:i]) for i, task in enumerate(chosen)]
        done = [
            pool.submit(task.run, *task.arguments, max(round(args.share * task.repetitions), 10), seed)
            for seed, task in zip(order, chosen, strict=True)
        ]
        for task, result in zip(chosen, done, strict=True):
            found = {name: [round(x, 5) for x in pair] for name, pair in result.result().items()}
            row = {"varied": task.varied, "repetitions": max(round(args.share * task.repetitions), 10), "found": found}
            sections.setdefault(task.section, []).append(row)
            write(args.out, kept | sections)
            print(task.section, task.varied, flush=True)


def write(path: Path, sections: dict[str, list[dict[str, Any]]]) -> None:
    machine = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    text = json.dumps({"pairs": "a mean and its Monte Carlo error", "sections": sections, "machine": machine})
    path.write_text(text.replace('{"varied"', '\n{"varied"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
