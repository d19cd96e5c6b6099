"""The summary of a comparison in plain sentences."""

from __future__ import annotations

from manyheads.experiments.gains import MeanGain
from manyheads.experiments.results import ComparisonResult, MethodResult
from manyheads.report.names import display, spoken
from manyheads.report.words import Scale, first_upper, megabytes, plural

__all__ = ["judged", "summary", "verdicts"]


def judged(result: ComparisonResult) -> str | None:
    """Return the method that the summary is about: the recommended one, or else the best on validation samples."""
    return result.recommendation.method or result.recommendation.best


def summary(result: ComparisonResult) -> dict[str, str]:
    """Return the summary's sentences by section: the answer, the sites, certainty, cost, and what the score means."""
    name = judged(result)
    said = {"answer": _answer(result), "text": spoken(result.recommendation.text, result.methods)}
    if name and (gain := result[name].gain):
        said |= {
            "sites": verdicts(name, gain),
            "sure": _sure(result, name, gain),
            "cost": _cost(result, name, result[name]),
        }
    return said | {"meaning": _meaning(result)}


def _answer(result: ComparisonResult) -> str:
    recommendation = result.recommendation
    if recommendation.method:
        return f"Yes, with {display(recommendation.method)}."
    return "No: train alone." if recommendation.evidence == "enough" else "There is not enough evidence to say."


def verdicts(name: str, gain: MeanGain) -> str:
    """Return a sentence with the numbers of sites that gain, lose, or are unclear."""
    counts = gain.clients
    return (
        f"With {display(name)}, of {plural(counts.total, 'site', 'sites')} {_count(counts.gains, 'gains', 'gain')}, "
        f"{_count(counts.loses, 'loses', 'lose')}, and {counts.unclear or 'none'} cannot be told apart from "
        "training alone."
    )


def _count(count: int, one: str, many: str) -> str:
    return plural(count, one, many) if count else f"none {one}"


def _sure(result: ComparisonResult, name: str, gain: MeanGain) -> str:
    scale = Scale.of(result.score)
    text = (
        f"The choice was made on validation samples. On test samples, which took no part in it, a site gains "
        f"{scale.gain(gain.gain)} {scale.gain_unit} on average with {display(name)}, "
        f"95 % interval {scale.gain_interval(gain.interval)}."
    )
    if gain.verdict != "unclear" and gain.clients.unclear > gain.clients.total / 2:
        text += " Most single sites have too few test samples to tell; the average is surer than any one of them."
    if result.recommendation.method and gain.verdict != "gains":
        text += " So the test samples do not confirm the recommendation: take it with caution."
    return text


def _cost(result: ComparisonResult, name: str, method: MethodResult) -> str:
    scale = Scale.of(result.score)
    text = (
        f"{display(name)} sends {megabytes(method.bytes)} MB in {plural(result.rounds, 'round', 'rounds')} over all sites, "
        f"{megabytes(method.bytes / result.data.clients)} MB a site."
    )
    text += f" The target, a validation {scale.name} of {scale.value(result.target)}{scale.unit}, was "
    if method.rounds_to_target is None:
        return text + "not reached."
    rounds = plural(method.rounds_to_target, "round", "rounds")
    return f"{text}reached after {rounds} and {megabytes(method.bytes_to_target)} MB."


def _meaning(result: ComparisonResult) -> str:
    scale, seeds = Scale.of(result.score), len(result.seeds)
    protocol = result.protocol.replace("clients", "sites").replace("client", "site")
    return (
        f"{first_upper(scale.name)} ({scale.better} is better): {protocol}; "
        f"{'one seed' if seeds == 1 else f'mean of {seeds} seeds'}. Brackets hold 95 % intervals."
    )
