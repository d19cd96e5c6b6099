"""The numbers behind the page as tables, and each chart in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from manyheads.report.charts import MONITORS, ordered
from manyheads.report.drawing import chart_name, some
from manyheads.report.gains import MEASURES, SITES_DRAWN
from manyheads.report.names import ALONE, display
from manyheads.report.summary import judged
from manyheads.report.words import NONE, Scale, megabytes, seconds

__all__ = ["Cell", "Table", "all_tables", "alternatives", "flat", "monitors_of"]

Facts = Mapping[str, Any]


class Cell(NamedTuple):
    """What is written, and what to sort by."""

    text: str
    key: float | str | None = None


class Table(NamedTuple):
    """Headings and rows; the first cell of a row names it."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False


def all_tables(facts: Facts) -> dict[str, Table]:
    """The tables of the page, those that the facts allow."""
    made = {
        "numbers": _numbers(facts),
        "tuning": _tuning(facts),
        "settings": _settings(facts),
        "curves": _curves(facts),
    }
    if judged(facts):
        made["gains"] = _gains(facts)
    made["data"] = _data(facts)
    if monitors_of(facts):
        made["monitors"] = _monitors(facts)
    return made


def _numbers(facts: Facts) -> Table:
    scale, score = Scale(facts["score"]), facts["score"]
    rows = []
    for name in ordered(facts):
        m = facts["methods"][name]
        gain = m.get("gain")
        counts = gain["clients"] if gain else {}
        rows.append(
            [
                Cell(display(name), display(name)),
                Cell(f"{scale.value(m[score])} {scale.interval(m['interval'])}", m[score]),
                Cell(f"{scale.gain(gain['gain'])} {scale.gain_interval(gain['interval'])}", gain["gain"])
                if gain
                else Cell(NONE),
                *(Cell(str(counts[k]), counts[k]) if gain else Cell(NONE) for k in ("gains", "loses", "unclear")),
                Cell(scale.value(m["worst_decile"]), m["worst_decile"]),
                Cell(scale.value(m["spread"]), m["spread"]),
                Cell(megabytes(m["bytes_up"]), m["bytes_up"]),
                Cell(megabytes(m["bytes_down"]), m["bytes_down"]),
                Cell(NONE if m["rounds_to_target"] is None else str(m["rounds_to_target"]), m["rounds_to_target"]),
                Cell(megabytes(m["bytes_to_target"]), m["bytes_to_target"]),
                Cell(seconds(m["seconds"]), m["seconds"]),
                Cell(f"{m['rate']:g}", m["rate"]),
            ]
        )
    head = (
        "Method", scale.title.capitalize(), "Gain", "Sites gain", "Sites lose",
        "Sites unclear", "Worst tenth", "Spread", "MB up", "MB down", "Rounds to target", "MB to target",
        "Seconds", "Step size",
    )  # fmt: skip
    return Table("All methods, best first, with 95 % intervals", head, rows, sortable=True)


def _gains(facts: Facts) -> Table:
    """Every drawn site: alone, and what each method changes."""
    scale = Scale(facts["score"])
    names = [n for n in ordered(facts) if n != ALONE]
    rows = []
    first = facts["methods"][names[0]]["gains"]
    for i in some(len(first), SITES_DRAWN):
        row = first[i]
        cells = [Cell(row["name"], row["name"]), Cell(str(row["samples"]), row["samples"])]
        cells.append(Cell(scale.value(row["alone"]), row["alone"]))
        for name in names:
            own = facts["methods"][name]["gains"][i]
            cells.append(Cell(f"{scale.gain(own['gain'])} {scale.gain_interval(own['interval'])}", own["gain"]))
        rows.append(cells)
    head = ["Site", "Test samples", "Alone", *map(display, names)]
    return Table("Gain of each site over training alone, with 95 % intervals", head, rows, sortable=True)


def _curves(facts: Facts) -> Table:
    scale, names = Scale(facts["score"]), list(facts["methods"])
    points = {n: {p["round"]: p for p in facts["methods"][n]["curve"]} for n in names}
    rounds = sorted({r for found in points.values() for r in found})
    rows = [
        [Cell(str(r)), *(Cell(scale.value(points[n][r]["score"] if r in points[n] else None)) for n in names)]
        for r in rounds
    ]
    return Table(f"Validation {scale.title} after each round shown", ["Round", *map(display, names)], rows)


def _data(facts: Facts) -> Table:
    """Every site's data: samples or targets, and distances."""
    data = facts["data"]
    measures = [m for m in MEASURES if data.get(m)]
    labels = "labels" in data
    head = ["Site", "Training samples", "Labels"] if labels else ["Site", "Target mean", "Target deviation"]
    rows = []
    for i in some(data["clients"], SITES_DRAWN):
        if labels:
            counts = data["labels"][i]
            own = [Cell(str(sum(counts)), sum(counts)), Cell(str(n := sum(c > 0 for c in counts)), n)]
        else:
            own = [Cell(f"{data['targets'][i][k]:.4g}", data["targets"][i][k]) for k in ("mean", "std")]
        distances = [Cell(f"{(d := data[m]['per_client'][i]):.3f}", d) for m in measures]
        rows.append([Cell(data["names"][i], data["names"][i]), *own, *distances])
    return Table(
        "The sites' training data", [*head, *(_first_upper(MEASURES[m]) for m in measures)], rows, sortable=True
    )


def _tuning(facts: Facts) -> Table:
    """Validation scores of the step sizes tried, and whether a finer search could change the choice."""
    scale = Scale(facts["score"])
    rates = list(dict.fromkeys(r["rate"] for m in facts["methods"].values() for r in m["rates"]))
    rows = []
    for name in ordered(facts):
        method = facts["methods"][name]
        tried = {r["rate"]: r["validation"] for r in method["rates"]}
        cells = [Cell(display(name))]
        for rate in rates:
            if rate not in tried:
                cells.append(Cell(NONE))
            elif tried[rate] is None:
                cells.append(Cell("diverged"))
            else:
                value = scale.value(abs(tried[rate]))  # the file holds minus the loss
                cells.append(Cell(f"{value}{' *' if rate == method['rate'] else ''}"))
        rows.append([*cells, Cell(_edge(method["rate"], list(tried)))])
    return Table(
        f"Validation {scale.title} by step size; * is the one used",
        ["Method", *(f"{r:g}" for r in rates), "Note"],
        rows,
    )


def _edge(rate: float, tried: Sequence[float]) -> str:
    if len(tried) < 2 or min(tried) < rate < max(tried):
        return ""
    return f"at the edge: a {'smaller' if rate == min(tried) else 'larger'} one may be better"


def _settings(facts: Facts) -> Table:
    """Every setting, and the settings of each method, by their paths."""
    tree = {**facts["settings"], "methods": {n: m["algorithm"] for n, m in facts["methods"].items()}}
    return Table("Settings", ["Setting", "Value"], [[Cell(k), Cell(v)] for k, v in flat(tree)])


def flat(tree: Any, path: str = "") -> list[tuple[str, str]]:
    """A tree of settings as paths and values.

    >>> flat({"sgd": {"lr": 0.1}, "hidden": [64, 32]})
    [('sgd.lr', '0.1'), ('hidden', '64, 32')]
    """
    if isinstance(tree, Mapping) and tree:
        return [pair for k, v in tree.items() for pair in flat(v, f"{path}.{k}" if path else str(k))]
    if isinstance(tree, list | tuple):
        tree = ", ".join(map(str, tree))
    return [(path, NONE if tree is None or tree == {} else str(tree))]


def monitors_of(facts: Facts) -> list[str]:
    """The quantities that were monitored, of any method."""
    return list(dict.fromkeys(name for m in facts["methods"].values() for name in m.get("monitors", {})))


def _monitors(facts: Facts) -> Table:
    """The monitored quantities after the last round."""
    names = monitors_of(facts)
    rows = []
    for name in ordered(facts):
        found = facts["methods"][name].get("monitors", {})
        last = [found[m][-1]["value"] if found.get(m) else None for m in names]
        rows.append([Cell(display(name), display(name)), *(Cell(NONE if v is None else f"{v:.3g}", v) for v in last)])
    head = ["Method", *(_first_upper(MONITORS.get(n, (n,))[0]) for n in names)]
    return Table("Representations and heads after the last round", head, rows, sortable=True)


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def alternatives(facts: Facts) -> dict[str, str]:
    """Each chart in a sentence, for those who do not see it."""
    scale, names, data = Scale(facts["score"]), ordered(facts), facts["data"]
    score, unit = facts["score"], scale.unit
    best, last = (facts["methods"][n] for n in (names[0], names[-1]))
    fair = sorted(names, key=lambda n: facts["methods"][n]["worst_decile"], reverse=score == "accuracy")[0]
    even = min(names, key=lambda n: facts["methods"][n]["spread"])
    final = {n: facts["methods"][n]["curve"][-1]["score"] for n in names if facts["methods"][n]["curve"]}
    ends = ", ".join(f"{display(n)} {scale.value(v)}{unit}" for n, v in final.items())
    said = {
        "methods": f"Test {score} by method, with intervals: from {display(names[0])} with {scale.value(best[score])}{unit} "
        f"to {display(names[-1])} with {scale.value(last[score])}{unit}.",
        "rounds": f"Learning curves over rounds on validation samples. After the last round: {ends}.",
        "bytes": f"Learning curves over megabytes sent, on validation samples. At the end: {ends}.",
        "fairness": f"Mean and worst tenth of sites by method. {display(fair)} serves the worst tenth best, "
        f"with {scale.value(facts['methods'][fair]['worst_decile'])}{unit}.",
        "spread": f"Standard deviation over sites by method. It is smallest for {display(even)}, "
        f"{scale.value(facts['methods'][even]['spread'])}.",
        "data": f"What the {data['clients']} sites hold: "
        + (
            "share of each label at each site."
            if "labels" in data
            else "mean and deviation of the target at each site."
        ),
    }
    for name in monitors_of(facts):
        title, meaning = MONITORS.get(name, (name, name))
        said[chart_name("monitor", name)] = f"{_first_upper(title)} over rounds by method: {meaning}."
    shown = judged(facts)
    if shown:
        found = [r["gain"] for r in facts["methods"][shown]["gains"]]
        said["gains"] = (
            f"Gain of each site with {display(shown)}, sorted: from {scale.gain(max(found))} to {scale.gain(min(found))} "
            f"{scale.gain_unit}; intervals as whiskers."
        )
        for measure, words in MEASURES.items():
            said[chart_name("gain-by", measure)] = f"Gain of each site against its {words}, one point a site."
    return said
