"""The tables of docs/benchmarks.md from the results: ``python benchmarks/tables.py`` writes them between their marks."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from speed import PEERS, against, middle_of, peak_shares, processor_ratios, ratios, roofline_shares, seconds_of

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"


def spread(values: list[float], form: str = ".1f") -> str:
    """The median, and the lowest and highest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def speed(result: dict[str, Any]) -> str:
    rows = []
    for row in result["rows"]:
        seconds, shares, roof = row["seconds"], peak_shares(row), roofline_shares(row)
        once = " (once)" if len(seconds["plain"]) == 1 else ""
        workers = [one / all_ for one, all_ in zip(seconds["ours-1"], seconds["ours"], strict=True)]
        rows.append(
            [
                row["words"],
                f"{middle_of(seconds['plain'])}{once}",
                middle_of(seconds["plain-1"]),
                f"{statistics.median(seconds['ours']):.3g}",
                f"**{spread(ratios(row))}**",
                f"{row['target']:g}" if row["target"] else "",
                spread(ratios(row, "ours-1")),
                spread(processor_ratios(row)),
                spread(workers, ".2f"),
                *(spread([100 * s for s in found], ".0f") + " %" if found else "" for found in (shares, roof)),
                f"{row['difference']:.0e}, {row['difference_single_precision']:.0e}",
                f"{row['load']:.1f}",
            ]
        )
    return table(
        ["one round of", "plain, s", "plain, 1 thread, s", "manyheads, s", "times as fast", "target", "with one worker", "in processor time, one worker",
         "2 workers against 1", "of peak", "of roofline", "results differ by", "load"],
        rows,
    )  # fmt: skip


def defaults(result: dict[str, Any]) -> str:
    rows = [
        [
            row["words"],
            *(middle_of(row["seconds"][engine]) for engine in ("plain", "plain-1", "api")),
            f"**{spread(ratios(row, 'api'))}**",
            f"**{spread(ratios(row, 'compare'))}**" if "compare" in row["seconds"] else "",
            f"{row['load']:.1f}",
        ]
        for row in result["rows"]
    ]
    head = [
        "a round of a short run of",
        "plain, s",
        "plain, 1 thread, s",
        "`mh.simulate`, s",
        "times as fast",
        "`mh.compare`, times as fast",
        "load",
    ]
    return table(head, rows)


def shares(result: dict[str, Any]) -> str:
    rows = [
        [
            words,
            f"{len(row['evaluated'])} of {row['rounds']}",
            f"{row['training']:.1f}",
            f"{row['evaluation']:.1f}",
            f"**{100 * row['evaluation'] / row['whole']:.0f} %**",
            f"{100 / row['part']:.0f} %",
            f"{row['load']:.1f}",
        ]
        for words, row in result["shares"].items()
    ]
    head = ["evaluated", "rounds", "training, s", "evaluation, s", "share", "of the samples of CIFAR-10", "load"]
    return table(head, rows)


def peers(result: dict[str, Any]) -> str:
    rows = [
        [row["words"], peer, middle_of(seconds_of(row, peer)), spread(against(row, peer))]
        for row in result["rows"]
        for peer in PEERS
        if peer in row["seconds"]
    ]
    return table(["one round of", "library", "its seconds", "manyheads is times as fast"], rows)


def scaling(result: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['size']:,} {row['what']}",
            f"{row['seconds']:.4f} ({row['seconds_min']:.4f} to {row['seconds_max']:.4f})",
            f"{row['peak_mb']:.0f} MB",
            f"{row['worker_peak_mb']:.0f} MB" if row["what"] == "workers" and row["size"] > 1 else "",
        ]
        for row in result["rows"]
    ]
    return table(["size", "seconds a round", "peak memory", "largest worker"], rows)


def profiles(result: dict[str, Any]) -> str:
    kinds = list(next(iter(result["rows"].values())))
    rows = [
        [f"`{name}`", *(f"{100 * found[kind]:.0f} %" if found[kind] >= 0.005 else "" for kind in kinds)]
        for name, found in result["rows"].items()
    ]
    return table(["", *kinds], rows)


def evaluation(result: dict[str, Any]) -> str:
    found = result.get("evaluation")
    rows = [[f"{found['clients']:,}", spread(found["seconds"], ".2f"), f"{found['load']:.1f}"]] if found else []
    return table(["clients evaluated", "s", "load"], rows)


def population(result: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['population']:,}",
            f"{row['ratio']:.2f}",
            f"{row['seconds_min']:.4f} to {row['seconds_max']:.4f}",
            f"{row['peak_mb']:.0f} MB",
            f"{row['grown_mb']:.0f} MB",
            f"{row['store_on_disk_mb']:.1f} MB",
        ]
        for row in result["rows"]
    ]
    head = ["population", "ratio of seconds a round", "lowest to highest s", "peak memory", "grown by", "store on disk"]
    return table(head, rows)


def memory(result: dict[str, Any]) -> str:
    rows = []
    for row in result["rows"]:
        cells = [f"{row['method']}, {row['size']:,} {row['words']}"]
        for key, form in (
            ("peak_mb", ".0f"),
            ("worker_peak_mb", ".0f"),
            ("parent_processor", ".2f"),
            ("workers_processor", ".2f"),
        ):
            several = row["kind"] != "parameters" or not key.startswith("worker")  # without workers it has no meaning
            found = [
                f"{statistics.median(row[w][key]):{form}}" if key in row.get(w, {}) else "" for w in ("before", "now")
            ]
            cells += found if several else ["", ""]
        rows.append(cells)
    head = ["peak, MB", "a worker's, MB", "processor s a round", "workers' processor s"]
    return table(["", *(f"{name}{when}" for name in head for when in (", before", ", now"))], rows)


def memory_lines(result: dict[str, Any]) -> str:
    rows = [
        [
            fit["method"],
            fit["which"],
            *(f"{1000 * fit[f'{who}_mb_a_client']:.0f}" for who in ("peak", "worker_peak")),
            *(f"{fit[f'{who}_mb_without']:.0f}" for who in ("peak", "worker_peak")),
        ]
        for fit in result.get("lines", [])
    ]
    head = ["peak, KB a client", "a worker's, KB a client", "peak without, MB", "a worker's without, MB"]
    return table(["", "", *head], rows)


def startup(result: dict[str, Any]) -> str:
    sources = [which for which in ("before", "now") if which in result["rows"][0]]
    rows = [
        [
            f"`{row['command']}`",
            *(f"{row[which]['processor_seconds']:.2f}" if which in row else "" for which in sources),
        ]
        for row in result["rows"]
    ]
    return table(["processor seconds", *sources], rows)


def quartiles(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def forms(result: dict[str, Any]) -> str:
    rows = []
    for name, words in (result["forms"] | result["removed"]).items():
        measured = {w: row["without"][name] for w, row in result["rows"].items() if name in row["without"]}
        best = max((statistics.median(v) for v in measured.values()), default=0)
        state = "removed" if name in result["removed"] else "stays"
        if name not in result["removed"] and best < 1.2:
            state = f"stays: {result['needed'][name]}" if name in result["needed"] else "below a fifth"
        told = "; ".join(f"`{workload}` {quartiles(values)}" for workload, values in measured.items())
        rows.append([words, told, state])
    return table(["form", "processor time without it, over that with it", ""], rows)


def costs(result: dict[str, Any]) -> str:
    rows = [
        [
            f"`{name}`",
            f"{facts['used']:,}",
            "" if facts["crossing"] is None else f"{facts['crossing']:,.0f}",
            told(result, name),
        ]
        for name, facts in result["constants"].items()
    ]
    return table(["constant", "used", "where the ratio is 1", "ratios measured"], rows)


def cluster(result: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['parameters']:,}",
            str(row["chunks"]),
            f"**{spread(row['ratios'], '.2f')}**",
            *(spread(row[f"{who}_seconds"], ".3f") for who in ("local", "ray")),
            *(spread(row[f"{who}_startup"]) for who in ("local", "ray")),
        ]
        for row in result["rows"]
    ]
    head = ["parameters", "chunks", "actors over workers", "workers, s a round", "actors, s a round"]
    return table([*head, "workers, start-up s", "actors, start-up s"], rows)


def racing(result: dict[str, Any]) -> str:
    rows = [
        [
            words,
            f"{row['tuning_rounds']:,}",
            f"{row['seconds']:.0f}",
            f"{row['processor']:.0f}",
            f"{100 * statistics.mean(row['scores'].values()):.1f}",
            f"{row['load']:.1f}",
        ]
        for words, row in result["rows"].items()
    ]
    same = ["the same step size", f"in {result['same']} of {result['choices']} choices", "", "", "", ""]
    head = ["step sizes", "rounds of tuning", "s in all", "processor s", "mean AUC of the methods", "load"]
    return table(head, [*rows, same])


SIZES = ("parameters", "operations", "work")
"""by what a row of the costs is given"""


def told(result: dict[str, Any], name: str) -> str:
    return "; ".join(
        f"{next(row[key] for key in SIZES if key in row):,.0f}: {quartiles(row['ratios'])}"
        for row in result["rows"][name]
    )


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    tables = {
        "speed": ("speed", speed),
        "defaults": ("defaults", defaults),
        "shares": ("defaults", shares),
        "peers": ("speed", peers),
        "profiles": ("profiles", profiles),
        "scaling": ("scaling", scaling),
        "population": ("population", population),
        "evaluation": ("population", evaluation),
        "memory": ("memory", memory),
        "memory lines": ("memory", memory_lines),
        "startup": ("startup", startup),
        "forms": ("forms", forms),
        "costs": ("costs", costs),
        "cluster": ("cluster", cluster),
        "racing": ("racing", racing),
    }
    for name, (source, make) in tables.items():
        path = HERE / "results" / f"{source}.json"
        if not path.exists():  # not measured yet
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        after = rest.split(end)[1]
        page = before + start + make(result) + "\n" + end + after
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
