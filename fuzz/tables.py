"""Tables of a user's sites: odd values, odd headers, odd encodings, odd files; checked, described, trained on, predicted."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from random import Random

from fuzz import hostile
from fuzz.archives import as_npz, as_parquet, as_workbook
from fuzz.bases import Bases
from fuzz.child import command
from fuzz.damage import CHANGES
from fuzz.verdict import Case, broken

__all__ = ["TABLES"]

# fmt: off
CELLS = [
    "", " ", "NA", "n/a", "NaN", "inf", "-inf", "1e999", "1e308", "-1e308", "1,5", "1.234,5", "23%", "$5", "5 kg",
    "1_000", "0x1F", "TRUE", "false", "2020-01-01", "12:30", "\uff11\uff12", "½", "#REF!", "=1+1", "'", '"', '""',
    'a"b', "a,b", "a;b", "\x1b[31m", "[/x]", "<script>", "é", "日本", "\ufeff", "x" * 5000, "9" * 400, "-0", "1e-320",
    "\x00", "a\u2028b", "None", "03/04/2021", "31.12.2020", "2020-02-30", "yes", "no", "-", "+", ".", "-9", "999",
]
# fmt: on
SMALL = ["--rounds", "1", "--workers", "1", "--model.hidden", "4"]
USES = (
    ["data", "check", "clinics", "--json"],
    ["data", "check", "clinics"],
    ["data", "check", "clinics/site0.csv", "--json"],
    ["data", "describe", "--data", "sites", "--data.path", "clinics", "--json"],
    ["data", "describe", "--data", "sites", "--data.path", "clinics"],
    ["run", "--data", "sites", "--data.path", "clinics", *SMALL, "--out", "out", "--json"],
    ["run", "--data", "sites", "--data.path", "clinics", "--algorithm", "fedrep", *SMALL, "--out", "out"],
    [
        "compare",
        "clinics",
        "--methods",
        "fedavg",
        "--seeds",
        "1",
        "--rates",
        "0.1",
        "--folds",
        "2",
        "--local-rounds",
        "2",
        *SMALL,
        "--out",
        "out",
        "--json",
    ],
    ["predict", "model", "clinics/site0.csv", "--json"],
    ["predict", "model", "clinics/site0.csv"],
    [
        "personalize",
        "run",
        "clinics/site0.csv",
        "--out",
        "own",
        "--finetune",
        "head:1",
        "--curve",
        "3",
        "--export",
        "none",
        "--json",
    ],
)


class Tables:
    """Some of the sites are changed, then used."""

    name = "tables"

    def prepare(self, bases: Bases, place: Path) -> None:
        self.bases = bases
        bases.need("clinics", "run", "model")

    def attempt(self, rng: Random, place: Path) -> Case:
        self.bases.copy(place, "clinics", "run", "model")
        changes = [rng.choice(WAYS)(place / "clinics", rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        words = list(rng.choice(USES))
        one = sorted(p.name for p in (place / "clinics").iterdir() if p.name.startswith("site0"))
        words = [w.replace("site0.csv", one[0]) if one else w for w in words]
        if words[1] == "check" and rng.random() < 0.3:
            words += ["--data.label", rng.choice(["label", "age", "ward", "nosuch", hostile.word(rng)])]
        ended = command(words, place)
        outcome = {0: "done", 2: "refused"}.get(ended.code, "broken")
        wrong = broken(ended, words)
        what = f"manyheads {' '.join(words)} after {'; '.join(changes)}"
        return Case(what, "broken" if wrong else outcome, wrong, ended.out[-2000:] + ended.err)


def _rows(rng: Random) -> list[list[str]]:
    rows = [["age", "weight", "ward", "label"]]
    for i in range(rng.choice([1, 2, 3, 14])):
        rows.append(
            [
                f"{rng.gauss(50, 9):.1f}",
                f"{rng.gauss(70, 9):.1f}",
                rng.choice(["north", "south"]),
                "ill" if i % 2 else "well",
            ]
        )
    return rows


def _csv(rows: list[list[str]], delimiter: str = ",", end: str = "\n") -> bytes:
    return end.join(delimiter.join(row) for row in rows).encode("utf-8", "surrogateescape") + end.encode()


def _cell(sites: Path, rng: Random) -> str:
    """Odd values in one site's CSV."""
    rows = _rows(rng)
    for _ in range(rng.choice([1, 1, 3, 10])):
        rng.choice(rows)[rng.randrange(4)] = (cell := rng.choice(CELLS) if rng.random() < 0.7 else hostile.word(rng))
    site = _site(sites, rng)
    site.write_bytes(_csv(rows))
    return f"{site.name}: cells such as {cell[:40]!r}"


def _column(sites: Path, rng: Random) -> str:
    """One value in a whole column, at every site."""
    at, cell = rng.randrange(4), rng.choice(CELLS)
    for i in range(4):
        rows = _rows(rng)
        for row in rows[1:]:
            row[at] = cell
        _gone(sites / f"site{i}.csv").write_bytes(_csv(rows))
    return f"column {at} is all {cell[:40]!r}"


def _header(sites: Path, rng: Random) -> str:
    rows = _rows(rng)
    how = rng.choice(["word", "double", "none", "case", "long", "many", "few"])
    if how == "word":
        rows[0][rng.randrange(4)] = hostile.word(rng)
    elif how == "double":
        rows[0][0] = rows[0][1]
    elif how == "none":
        del rows[0]
    elif how == "case":
        rows[0] = [name.title() for name in rows[0]]
    elif how == "long":
        rows[0][0] = "x" * rng.choice([1000, 140_000, 3_000_000])
    elif how == "many":
        rows = [[*row, *(f"c{i}" if row is rows[0] else "1" for i in range(2000))] for row in rows]
    else:
        rows[0] = rows[0][: rng.randrange(4)]
    site = _site(sites, rng)
    site.write_bytes(_csv(rows))
    return f"{site.name}: header {how}"


def _form(sites: Path, rng: Random) -> str:
    """Delimiters, line ends, encodings, compression."""
    site, rows = _site(sites, rng), _rows(rng)
    form = rng.choice(
        [
            "semicolon",
            "tab",
            "pipe",
            "cr",
            "crlf",
            "bom",
            "utf-16",
            "latin",
            "no end",
            "blank lines",
            "gz",
            "bad gz",
            "nothing",
            "nul",
            "one line",
            "uneven",
            "quotes",
        ]
    )
    plain = _csv(rows)
    made = {
        "semicolon": _csv(rows, ";"),
        "tab": _csv(rows, "\t"),
        "pipe": _csv(rows, "|"),
        "cr": _csv(rows, end="\r"),
        "crlf": _csv(rows, end="\r\n"),
        "bom": b"\xef\xbb\xbf" + plain,
        "utf-16": plain.decode().encode("utf-16"),
        "latin": _csv([*rows, ["1", "2", "münchen", "ill"]]).decode().encode("latin-1"),
        "no end": plain[:-1],
        "blank lines": plain.replace(b"\n", b"\n\n"),
        "gz": gzip.compress(plain),
        "bad gz": gzip.compress(plain)[:-9],
        "nothing": b"",
        "nul": plain.replace(b",", b"\0,"),
        "one line": plain.splitlines()[0],
        "uneven": plain + b"1,2,3,4,5,6\n1\n",
        "quotes": plain.replace(b"north", b'"north'),
    }[form]
    if "gz" in form:
        site.unlink()
        site = site.with_name(site.name + ".gz")
    site.write_bytes(made)
    return f"{site.name}: {form}"


def _bytes(sites: Path, rng: Random) -> str:
    site = _site(sites, rng)
    data, what = rng.choice(CHANGES)(site.read_bytes(), rng)
    site.write_bytes(data)
    return f"{site.name}: {what or 'unchanged'}"


def _site(sites: Path, rng: Random) -> Path:
    """A site's CSV, the first one mostly."""
    site = sites / f"site{rng.choice([0, 0, 1, 3])}.csv"
    if not site.is_file():
        _gone(site).write_bytes(_csv(_rows(rng)))
    return site


def _gone(path: Path) -> Path:
    """The path, with nothing there: another change may have made a folder of it, or a pipe, which would be waited for."""
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    return path


def _odd_file(sites: Path, rng: Random) -> str:
    """Something that is no table, under the name of one or beside them."""
    name = rng.choice(
        [
            "site0.csv",
            "site0.csv",
            "stray.csv",
            "~$site1.csv",
            ".hidden.csv",
            "notes.txt",
            "summary.csv",
            "x" * 240 + ".csv",
            "[bold].csv",
            "\x1b[31m.csv",
            "a\nb.csv",
            "site1.npz",
            "b.parquet",
        ]
    )
    path = _gone(sites / name)
    kind = rng.choice(["folder", "pipe", "loop", "dangling", "null", "text", "empty", "binary"])
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("loop", "dangling", "null"):
        path.symlink_to({"loop": name, "dangling": "nowhere", "null": "/dev/null"}[kind])
    else:
        path.write_bytes({"text": b"just some words\n", "empty": b"", "binary": rng.randbytes(400)}[kind])
    return f"{name!r} is a {kind}"


def _few(sites: Path, rng: Random) -> str:
    """Sites of few rows, few sites, or none."""
    left = rng.randrange(5)
    for site in sorted(sites.iterdir())[left:]:
        if site.is_file():
            site.unlink()
    rows = rng.choice([0, 1, 2, 3])
    for site in sites.glob("*.csv"):
        if site.is_file():
            site.write_bytes(b"".join(site.read_bytes().splitlines(keepends=True)[: rows + 1]))
    return f"{left} sites of {rows} rows"


WAYS = [_cell, _cell, _column, _header, _form, _bytes, _odd_file, _few]
WAYS += [as_npz, as_npz, as_parquet, as_parquet, as_workbook, as_workbook]
TABLES = Tables()
