"""From the files of a comparison to its results: plain values, from which the table and the report are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manyheads.core.settings import as_dict
from manyheads.experiments.methods import ALONE, Method
from manyheads.experiments.study import Study
from manyheads.experiments.verdicts import LEVEL, Evidence, checked, recommend, verdict
from manyheads.metrics import spread
from manyheads.metrics.paired import Estimate, Kind, estimate, overall

__all__ = ["results"]

Values = dict[int, np.ndarray]
"""of each client that has samples: [seeds, samples], higher is better"""


def results(
    study: Study, methods: Mapping[str, Method], chosen: Mapping[str, float], seeds: Sequence[int], target: float | None
) -> dict[str, Any]:
    """What each chosen method reached, gained and cost, and what follows."""
    score = "accuracy" if study.federation.task == "classification" else "loss"
    values = {
        split: {name: _values(study, methods[name], lr, seeds, split) for name, lr in chosen.items()}
        for split in ("validation", "test")
    }
    curves = {name: _curve(study, methods[name], lr, seeds, score) for name, lr in chosen.items()}
    if target is None:
        target = curves[ALONE][-1]["score"]
    found: dict[str, Any] = {}
    evidence: dict[str, Evidence] = {}
    for name, lr in chosen.items():
        found[name] = {
            "algorithm": as_dict(methods[name].at(lr, len(study.federation))),
            "finetuned": methods[name].finetuned,
            "rate": lr,
            **_level(values["test"][name], score),
            **_cost(study, methods[name], lr, seeds),
            **_reached(curves[name], target, score),
            "curve": curves[name],
            "monitors": _monitors(study, methods[name], lr, seeds),
        }
        if name != ALONE:
            found[name] |= _gains(values["test"], name, study, score)
            gain = overall(_differences(values["validation"], name), _kind(score, "difference"))
            found[name]["validation_gain"] = _estimate(gain)
            evidence[name] = Evidence(gain, found[name]["bytes"] / 1e6)
    samples = sum(v.shape[1] for v in values["validation"][ALONE].values())
    advice = recommend(evidence, score, samples, len(seeds))
    best = advice["best"]
    return {
        "score": score,
        "target": target,
        "methods": found,
        "recommendation": advice,
        "check": checked(best, found[best], score, advice["method"] is not None) if best else "",
    }


def _kind(score: str, kind: Kind) -> Kind:
    return kind if score == "accuracy" else "measure"


def _values(study: Study, method: Method, lr: float, seeds: Sequence[int], split: str) -> Values:
    """Whether each sample was right, or minus its loss."""
    tried = [study.outcomes(method, lr, seed, split) for seed in seeds]
    classes = study.federation.task == "classification"
    stacked = np.stack([o.correct if classes else -o.loss for o in tried])
    ends = np.cumsum(tried[0].sizes)
    parts = zip(ends - tried[0].sizes, ends, strict=True)
    return {client: stacked[:, start:end] for client, (start, end) in enumerate(parts) if end > start}


def _differences(values: Mapping[str, Values], name: str) -> list[np.ndarray]:
    return [values[name][client] - alone for client, alone in values[ALONE].items()]


def _level(values: Values, score: str) -> dict[str, Any]:
    """The mean over clients on test samples, its interval, and how it is spread over clients."""
    mean = overall(list(values.values()), _kind(score, "share"))
    per_seed = np.stack([v.mean(axis=1) for v in values.values()]).mean(axis=0)
    clients = np.array([v.mean() for v in values.values()])
    facts = spread(clients)
    low, high = mean.interval(LEVEL)
    if score == "loss":  # values are minus the loss
        per_seed, low, high = -per_seed, -high, -low
        facts |= {k: -facts[k] for k in ("mean", "worst_decile")}
    elif score == "accuracy":
        low, high = max(low, 0.0), min(high, 1.0)
    return {
        score: facts["mean"],
        "interval": [low, high],
        "per_seed": per_seed.tolist(),
        "worst_decile": facts["worst_decile"],
        "spread": facts["std"],
    }


def _gains(values: Mapping[str, Values], name: str, study: Study, score: str) -> dict[str, Any]:
    """Over training alone: on average, and of every client, on its test samples."""
    kind = _kind(score, "difference")
    sign = 1 if score == "accuracy" else -1
    rows = []
    for client, alone in values[ALONE].items():
        gain = estimate(values[name][client] - alone, kind)
        rows.append(
            {
                "client": client,
                "name": study.federation.client_name(client),
                "samples": alone.shape[1],
                "alone": sign * float(alone.mean()),
                score: sign * float(values[name][client].mean()),
                **_estimate(gain),
                "verdict": verdict(gain),
            }
        )
    counts = {kind_: sum(r["verdict"] == kind_ for r in rows) for kind_ in ("gains", "loses", "unclear")}
    mean = overall(_differences(values, name), kind)
    return {"gain": {**_estimate(mean), "verdict": verdict(mean), "clients": counts}, "gains": rows}


def _estimate(found: Estimate) -> dict[str, Any]:
    low, high = found.interval(LEVEL)
    return {"gain": found.value, "interval": [low, high] if np.isfinite(found.variance) else None}


def _cost(study: Study, method: Method, lr: float, seeds: Sequence[int]) -> dict[str, Any]:
    """Bytes of a whole run over all clients, and the time it took here; means over seeds."""
    histories = [study.history(method, lr, seed) for seed in seeds]
    mean = {k: float(np.mean([sum(v for _, v in h.column(k)) for h in histories])) for k in ("bytes_up", "bytes_down")}
    return {
        **{k: round(v) for k, v in mean.items()},
        "bytes": round(sum(mean.values())),
        "seconds": float(np.mean([sum(v for _, v in h.column("seconds")) for h in histories])),
    }


def _curve(study: Study, method: Method, lr: float, seeds: Sequence[int], score: str) -> list[dict[str, Any]]:
    """On validation samples, after some of the rounds: mean, lowest and highest of the seeds."""
    points = []
    for at in zip(*(study.curve(method, lr, seed) for seed in seeds), strict=True):
        scores = [p[score] for p in at if p[score] is not None]
        if scores:
            bytes_ = round(float(np.mean([p["bytes"] for p in at])))
            points.append({"round": at[0]["round"], "bytes": bytes_, "score": float(np.mean(scores))})
            points[-1] |= {"low": min(scores), "high": max(scores)}
    return points


def _monitors(study: Study, method: Method, lr: float, seeds: Sequence[int]) -> dict[str, list[dict[str, float]]]:
    """Quantities of the representation and the heads over the rounds, means over seeds, of those that the method has."""
    found: dict[str, list[dict[str, float]]] = {}
    for name in study.training.monitor:
        rounds: dict[int, list[float]] = {}
        for seed in seeds:
            for round, value in study.history(method, lr, seed).column(name):
                rounds.setdefault(round, []).append(value)
        if rounds:
            found[name] = [{"round": r, "value": float(np.mean(values))} for r, values in rounds.items()]
    return found


def _reached(curve: list[dict[str, Any]], target: float, score: str) -> dict[str, Any]:
    """The first round after which the target was reached, and the bytes until then; None if never."""
    hit = next((p for p in curve if (p["score"] >= target if score == "accuracy" else p["score"] <= target)), None)
    return {"rounds_to_target": hit and hit["round"], "bytes_to_target": hit and hit["bytes"]}
