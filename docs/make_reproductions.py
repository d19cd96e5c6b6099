"""Write the pages of experiments, and the table in the README, from results/: ``python docs/make_reproductions.py``."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from manyheads.reproduce import EXPERIMENTS, Result
from manyheads.reproduce.claims import mean_and_interval
from manyheads.reproduce.own.digits_methods import COLUMNS, Chosen, Methods
from manyheads.reproduce.page import page, summary
from manyheads.reproduce.records import folder_of, measured

ROOT = Path(__file__).parent.parent
RESULTS, DOCS, README = ROOT / "results", ROOT / "docs", ROOT / "README.md"
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
"""a place in a page that is otherwise written by hand"""
PAPERS = """# The papers' figures and tables, reproduced

Each is an experiment with a name: `manyheads reproduce --list` shows them, `manyheads reproduce NAME --scale quick` runs one. A claim of
a paper is judged by checks on what was measured. It is *reproduced* if all of them hold, *partly* if some do, *not reproduced*
if none does, *undecided* where the seeds do not tell, *measured* where nothing is claimed. An order of lines is judged seed by seed: it holds if the 95 % interval of
the mean difference (Student's t over seeds) lies on the right side of zero.

Scales: `paper` has the paper's own settings; `reduced` about a tenth of its steps, where those are out of reach here; `quick` is a
look in minutes (18 for all fifteen figures and tables, in one go on two cores), and its verdicts are about few rounds. Every picture says which it is, and how its settings differ from the
paper's. Numbers, seeds, versions and pictures are in `results/PAPER/FIGURE/SCALE`. The experiments `theory.*` put theorems beside a
run; they, and our own ([digits](methods-table.md), [real data](real-data.md)), are no figure of a paper and have one scale.

"""
DIGITS = """# All methods on digits

Made by `manyheads reproduce digits` in a few minutes, without any download. This page is written from `results/digits`.

"""
REAL = """# Short runs on real data

Made by `manyheads reproduce real.short --scale reduced`, with `MANYHEADS_DATA` pointing to [local copies](data.md). This page is
written from `results/real`; the settings of each run are in `reproduce/own/real_short.py`.

"""
OWN = {"methods-table.md": (DIGITS, ("digits.methods", "digits.curves")), "real-data.md": (REAL, ("real.short",))}
"""pages of experiments that are no paper's"""


def pages() -> dict[Path, str]:
    """The text of each page that has results of experiments."""
    own = [name for _, names in OWN.values() for name in names]
    papers = [name for name in EXPERIMENTS if name not in own]
    whole = {DOCS / file: page(head, names, RESULTS, "../results") for file, (head, names) in OWN.items()}
    whole[DOCS / "reproductions.md"] = page(PAPERS, papers, RESULTS, "../results")
    marked = {DOCS / "algorithms" / f"{each.method}.md": on_digits(each) for each in chosen()}
    marked[README] = summary(RESULTS, [*papers, *own])
    return whole | {path: placed(path, text) for path, text in marked.items()}


def placed(path: Path, text: str) -> str:
    """The page with the text in its marked place."""
    return MARKED.sub(lambda marks: marks[1] + text + marks[3], path.read_text(encoding="utf-8"))


def chosen() -> list[Chosen]:
    """The methods on digits, each with its step size."""
    result = Result.read(folder_of(RESULTS, Methods.name, "quick"))
    return list(Methods().chosen(measured(result.records)).values()) if result else []


def on_digits(each: Chosen) -> str:
    """The sentence of a method's page."""
    tested, worst, spread, tuned = (with_interval(each.percent(fact)) for fact in COLUMNS.values())
    rounds = Methods().rounds_of(each.method)
    sent = each.runs[0]["megabytes_up"]
    words = f"""On digits with three classes a client (20 clients, {rounds} rounds, {len(each.runs)} seeds; ± is half the 95 %
        interval over seeds), the {each.model} model reached {tested} % (worst tenth {worst} %, spread over clients {spread} %, after
        fine-tuning the head {tuned} %) with step size {each.lr:g}, and {f"{sent:.1f} MB were" if sent else "nothing was"} sent up:
        [all methods on digits](../methods-table.md)."""
    return fill(" ".join(words.split()), 120, break_on_hyphens=False) + "\n"


def with_interval(values: list[float]) -> str:
    mean, half = mean_and_interval(values)
    return f"{mean:.1f} ± {half:.1f}"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
