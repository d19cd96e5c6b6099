"""The answer in plain words, from the facts of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manyheads.report.names import ALONE, display, spoken
from manyheads.report.words import Scale, megabytes, plural

__all__ = ["judged", "summary", "verdicts"]

Facts = Mapping[str, Any]


def judged(facts: Facts) -> str | None:
    """The method that the summary speaks of: the recommended one, or the best on validation samples."""
    recommended = facts["recommendation"]["method"]
    found = {n: m["validation_gain"]["gain"] for n, m in facts["methods"].items() if n != ALONE}
    return recommended or (max(found, key=lambda n: found[n]) if found else None)


def summary(facts: Facts) -> dict[str, str]:
    """Headed sentences: the answer first, then sites, certainty, cost and what the numbers mean."""
    name, recommendation = judged(facts), facts["recommendation"]
    said = {"answer": _answer(facts), "text": spoken(recommendation["text"], facts["methods"])}
    if name:
        method = facts["methods"][name]
        said |= {
            "sites": verdicts(name, method),
            "sure": _sure(facts, name, method),
            "cost": _cost(facts, name, method),
        }
    return said | {"meaning": _meaning(facts)}


def _answer(facts: Facts) -> str:
    recommendation = facts["recommendation"]
    if recommendation["method"]:
        return f"Yes, with {display(recommendation['method'])}."
    return "No: train alone." if recommendation["evidence"] == "enough" else "There is not enough evidence to say."


def verdicts(name: str, method: Facts) -> str:
    """How many sites gain, lose, or cannot be told apart."""
    counts, total = method["gain"]["clients"], len(method["gains"])
    return (
        f"With {display(name)}, of {plural(total, 'site', 'sites')} {_count(counts['gains'], 'gains', 'gain')}, "
        f"{_count(counts['loses'], 'loses', 'lose')}, and {counts['unclear'] or 'none'} cannot be told apart from "
        "training alone."
    )


def _count(count: int, one: str, many: str) -> str:
    return plural(count, one, many) if count else f"none {one}"


def _sure(facts: Facts, name: str, method: Facts) -> str:
    scale, gain = Scale(facts["score"]), method["gain"]
    text = (
        f"The choice was made on validation samples. On test samples, which took no part in it, a site gains "
        f"{scale.gain(gain['gain'])} {scale.gain_unit} on average with {display(name)}, "
        f"95 % interval {scale.gain_interval(gain['interval'])}."
    )
    if gain["verdict"] != "unclear" and gain["clients"]["unclear"] > len(method["gains"]) / 2:
        text += " Most single sites have too few test samples to tell; the average is surer than any one of them."
    if facts["recommendation"]["method"] and gain["verdict"] != "gains":
        text += " So the test samples do not confirm the recommendation: take it with caution."
    return text


def _cost(facts: Facts, name: str, method: Facts) -> str:
    each = method["bytes"] / facts["data"]["clients"]
    text = (
        f"{display(name)} sends {megabytes(method['bytes'])} MB in {plural(facts['rounds'], 'round', 'rounds')} over all sites, "
        f"{megabytes(each)} MB a site."
    )
    if method["rounds_to_target"] is not None:
        text += (
            f" The target, a validation {facts['score']} of {_target(facts)}, was reached after "
            f"{plural(method['rounds_to_target'], 'round', 'rounds')} and {megabytes(method['bytes_to_target'])} MB."
        )
    else:
        text += f" The target, a validation {facts['score']} of {_target(facts)}, was not reached."
    return text


def _target(facts: Facts) -> str:
    scale = Scale(facts["score"])
    return f"{scale.value(facts['target'])}{scale.unit}"


def _meaning(facts: Facts) -> str:
    scale, seeds = Scale(facts["score"]), len(facts["seeds"])
    protocol = facts["protocol"].replace("clients", "sites").replace("client", "site")
    return (
        f"{facts['score'].capitalize()} ({scale.better} is better): {protocol}; "
        f"{'one seed' if seeds == 1 else f'mean of {seeds} seeds'}. Brackets hold 95 % intervals."
    )
