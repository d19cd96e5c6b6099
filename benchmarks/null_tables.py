"""The tables of docs/statistics.md from results/null-simulations.json: ``python benchmarks/null_tables.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from null_simulations import DESIGNS, OUT, SHIFTS
from tables import table

PAGE = OUT.parent.parent / "docs" / "statistics.md"
Row = dict[str, Any]
WORDS = {
    (0.0, 0.0): "no shifts",
    (0.01, 0.0): "1 point, all sites",
    (0.03, 0.0): "3 points, all sites",
    (0.0, 0.01): "1 point, each site",
    (0.0, 0.03): "3 points, each site",
}


def percent(pair: list[float]) -> str:
    return f"{100 * pair[0]:.1f} ± {100 * pair[1]:.1f}"


def points(pair: list[float]) -> str:
    return f"{100 * pair[0]:.1f}"


def lowest(rows: Iterable[Row], names: Iterable[str]) -> str:
    """The lowest of some rates over some rows, with its Monte Carlo error."""
    names = list(names)
    return percent(min((row["found"][name] for row in rows for name in names), key=lambda pair: pair[0]))


def picked(rows: list[Row], **varied: Any) -> list[Row]:
    return [row for row in rows if all(row["varied"][name] == value for name, value in varied.items())]


def design(folds: int, seeds: int) -> str:
    return f"{folds} {'fold' if folds == 1 else 'folds'}, {seeds} {'seed' if seeds == 1 else 'seeds'}"


def of_sites(row: Row, what: str) -> list[str]:
    return [f"{size} {what}" for size in dict.fromkeys(row["varied"]["sizes"])]


def found(name: str) -> Callable[[dict[str, list[Row]]], str]:
    """How often something is found where there is nothing, for each design and shift."""

    def make(sections: dict[str, list[Row]]) -> str:
        rows = []
        for folds, seeds in DESIGNS:
            own = picked(sections["null"], folds=folds, seeds=seeds, metric="accuracy", alike=0.9)
            line = [design(folds, seeds)]
            for common, shift in SHIFTS:
                for methods in (1, 9):
                    line.append(percent(picked(own, common=common, own=shift, methods=methods)[0]["found"][name]))
            rows.append(line)
        head = [f"{WORDS[shift]}, {many}" for shift in SHIFTS for many in ("1 method", "9 methods")]
        return table(["%", *head], rows)

    return make


def coverage(sections: dict[str, list[Row]]) -> str:
    rows = []
    for metric in ("accuracy", "balanced_accuracy", "auc"):
        for folds, seeds in DESIGNS:
            own = picked(sections["null"], folds=folds, seeds=seeds, metric=metric)
            wanted = (
                of_sites(own[0], "covers"),
                ["mean covers"],
                of_sites(own[0], "level covers"),
                ["mean level covers"],
            )
            rows.append([metric.replace("_", " "), design(folds, seeds), *(lowest(own, names) for names in wanted)])
    return table(["metric", "design", "gain of a site", "mean gain", "level of a site", "mean level"], rows)


def widths(sections: dict[str, list[Row]]) -> str:
    rows = []
    for folds, seeds in DESIGNS:
        line = [design(folds, seeds)]
        for common, own in ((0.0, 0.0), (0.03, 0.0), (0.0, 0.03)):
            row = picked(sections["null"], folds=folds, seeds=seeds, metric="accuracy", alike=0.9, methods=1)
            drawn = picked(row, common=common, own=own)[0]["found"]
            line.append(", ".join(points(drawn[f"{what} width"]) for what in (20, 100, 1000, "mean")))
        rows.append(line)
    return table(["points", "no shifts", "3 points, all sites", "3 points, each site"], rows)


def mixed(sections: dict[str, list[Row]]) -> str:
    rows = [
        [
            design(row["varied"]["folds"], row["varied"]["seeds"]),
            f"{100 * row['varied']['own']:.0f} points",
            percent(row["found"]["false share"]),
            percent(row["found"]["found"]),
        ]
        for row in sections["mixed"]
    ]
    return table(["design", "shift at each site", "false among the found, %", "found of those that gain, %"], rows)


def planted(sections: dict[str, list[Row]]) -> str:
    rows = [
        [
            design(row["varied"]["folds"], row["varied"]["seeds"]),
            f"{100 * row['varied']['gain']:.0f} points",
            *(percent(row["found"][name]) for name in ("recommended", "20 found", "100 found", "1000 found")),
        ]
        for row in sections["planted"]
    ]
    return table(["design", "true gain", "mean", "20 samples", "100 samples", "1000 samples"], rows)


def needed(sections: dict[str, list[Row]]) -> str:
    rows = []
    for section, unit in (("samples needed", "times the samples"), ("seeds needed", "seeds")):
        for row in sections[section]:
            varied, drawn = row["varied"], row["found"]
            rows.append(
                [
                    f"{design(varied['folds'], varied['seeds'])}, {varied['sizes'][0]} samples",
                    f"{100 * varied['own']:.0f} points",
                    f"{100 * varied['gain']:.0f} points",
                    percent(drawn["found by pilots"]).split(" ")[0],
                    f"{drawn['needed'][0]:.1f} {unit}" if unit != "seeds" else f"{drawn['needed'][0]:.0f} seeds",
                    percent(drawn["found"]) if "found" in drawn else "",
                ]
            )
    return table(["pilot", "shift", "true gain", "found by the pilot, %", "needed (median)", "found then, %"], rows)


def learners(sections: dict[str, list[Row]]) -> str:
    rows = []
    for row in sections["learners"]:
        varied, drawn = row["varied"], row["found"]
        names = [f"{name}{' of all sites' if shared else ''}" for name, shared in (varied["first"], varied["second"])]
        for what in ("gain", "level"):
            cells = [
                f"{percent(drawn[f'{what}, {name}, covers'])} ({drawn[f'{what}, {name}, width'][0]:.2f})"
                for name in ("ours", "samples alone", "Nadeau-Bengio")
            ]
            ratio, mean = drawn[f"{what}, deviation over that of samples"], drawn[f"{what}, ours, covers mean"]
            about = " minus ".join(names) if what == "gain" else names[1]
            signal = "yes" if varied["signal"] else "no"
            rows.append(
                [
                    varied["metric"],
                    str(varied["samples"]),
                    str(varied["folds"]),
                    signal,
                    about,
                    f"{ratio[0]:.2f} ± {ratio[1]:.2f}",
                    *cells,
                    percent(mean),
                ]
            )
    head = [
        "metric",
        "samples",
        "folds",
        "signal",
        "of",
        "deviation, over samples'",
        "ours",
        "samples alone",
        "Nadeau-Bengio",
    ]
    return table([*head, "ours, mean of sites"], rows)


TABLES = {
    "recommended": found("recommended"),
    "discovered": found("some site found"),
    "coverage": coverage,
    "widths": widths,
    "mixed": mixed,
    "planted": planted,
    "needed": needed,
    "learners": learners,
}


def main() -> None:
    page, sections = PAGE.read_text(encoding="utf-8"), json.loads(OUT.read_text(encoding="utf-8"))["sections"]
    for name, make in TABLES.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        page = before + start + make(sections) + "\n" + end + rest.split(end)[1]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
