"""The page that a site keeps of a comparison: its advice, its gains, its scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.files import write_text
from manyheads.core.plain import to_json
from manyheads.metrics import METRICS

__all__ = ["write_page"]


def write_page(folder: Path, site: str, facts: Mapping[str, Any]) -> None:
    """Write ``comparisons/RUN/site.json`` and ``site.md`` to the kit."""
    place = folder / "comparisons" / str(facts["run"])
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = {name: facts[name] for name in ("advice", "methods", "answer", "score")}
    write_text(place / "site.json", to_json({"schema": 1, "site": site, **kept}, indent=1) + "\n")
    write_text(place / "site.md", _page(site, facts))


def _page(site: str, facts: Mapping[str, Any]) -> str:
    metric = METRICS.find(facts["score"])
    advice, lines = facts["advice"], [f"# {site}", "", facts["answer"], ""]
    if advice:
        lines += [f"For {site}: {advice['text']}", ""]
    lines += [f"| model | {metric.title} here | mean of all sites | gain over the best alone, 95 % interval |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for row in facts["methods"]:
        own, gain = row["scores"].get(facts["score"]), row["gain"] or {}
        low, high = gain.get("interval") or (None, None)
        spread = f" ({_number(low, metric)} to {_number(high, metric)})" if low is not None else ""
        told = f"{_number(gain['gain'], metric)}{spread}" if gain.get("gain") is not None else ""
        lines.append(f"| {row['method']} | {_number(own, metric)} | {_number(row['mean'], metric)} | {told} |")
    return "\n".join(lines) + "\n"


def _number(value: float | None, metric: Any) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if metric.unit == "%" else f"{value:.4g}"
