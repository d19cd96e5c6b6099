"""The summary of a comparison in plain sentences."""

from __future__ import annotations

from manyheads.core.words import counted, plural
from manyheads.experiments.gains import MeanGain
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.results import ComparisonResult
from manyheads.report.names import display, spoken
from manyheads.report.words import Scale, first_upper, megabytes

__all__ = ["judged", "summary", "verdicts"]


def judged(result: ComparisonResult) -> str | None:
    """Return the method that the summary is about: the recommended one, or else the best on validation samples."""
    return result.recommendation.method or result.recommendation.best


def summary(result: ComparisonResult) -> dict[str, str]:
    """Return the summary's sentences by section: the answer, what decides, the sites, cost, and what the score means."""
    name, scale = judged(result), Scale.of(result.score)
    said = {
        "answer": _answer(result),
        "text": spoken(result.recommendation.text, result.others),
        "metric": f"{first_upper(scale.name)} decides: {result.reason.rstrip('.')}.",
    }
    if name and (gain := result[name].gain):
        said |= {"sites": verdicts(name, gain), "cost": _cost(result, name, result[name])}
    return said | {"meaning": _meaning(result)}


def _answer(result: ComparisonResult) -> str:
    recommendation = result.recommendation
    if recommendation.evidence == "too short":
        return "Not known yet: training was too short."
    if recommendation.method:
        return f"Yes, with {display(recommendation.method)}."
    return "No: train alone." if recommendation.evidence == "enough" else "Not enough evidence yet."


def verdicts(name: str, gain: MeanGain) -> str:
    """Return a sentence with the numbers of sites that gain, lose, or are unclear."""
    counts = gain.clients
    return (
        f"With {display(name)}, of {plural(counts.total, 'site', 'sites')} {_count(counts.gains, 'gains', 'gain')} and "
        f"{_count(counts.loses, 'loses', 'lose')}"
        + (
            f"; {counts.unclear} {'has' if counts.unclear == 1 else 'have'} too few test samples to tell."
            if counts.unclear
            else "."
        )
    )


def _count(count: int, one: str, many: str) -> str:
    return plural(count, one, many) if count else f"none {one}"


def _cost(result: ComparisonResult, name: str, method: MethodResult) -> str:
    return (
        f"{display(name)} sends {megabytes(method.bytes)} MB in {plural(method.rounds, 'round', 'rounds')} over all sites, "
        f"{megabytes(method.bytes / result.data.clients)} MB a site, and makes {counted(method.passes)} passes over a site's data."
    )


def _meaning(result: ComparisonResult) -> str:
    scale = Scale.of(result.score)
    protocol = result.protocol.replace("clients", "sites").replace("client", "site")
    explained = f", {scale.quantity.meaning}" if scale.quantity.meaning else ""
    return f"{first_upper(scale.name)}{explained}; {scale.better} is better. Measured as: {protocol}. Brackets hold 95 % intervals."
