"""Plain values and text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import manyheads
from manyheads.core.history import History
from manyheads.core.plain import plain, to_json, visible

# reads of a cache and of a file's header, whose bytes are hashed or fixed; a page, which goes through plain()
OTHERWISE = {"core/plain.py", "core/state_file.py", "data/public/cache.py", "report/render.py"}


def test_what_is_not_finite_is_null_wherever_it_is():
    value = {"a": [1.5, float("nan"), (float("-inf"), "x")], "b": {"c": np.float64("inf"), "d": None, "e": 3}}
    expected = {"a": [1.5, None, [None, "x"]], "b": {"c": None, "d": None, "e": 3}}
    assert plain(value) == expected
    assert json.loads(to_json(value), parse_constant=lambda _: 1 / 0) == expected


def test_all_json_is_made_in_one_place():
    root = Path(manyheads.__file__).parent
    elsewhere = {str(p.relative_to(root)) for p in root.rglob("*.py") if re.search(r"json\.dumps?\(", p.read_text())}
    assert elsewhere <= OTHERWISE


def test_a_history_is_in_memory_what_it_is_on_disk(tmp_path):
    history = History(tmp_path / "history.jsonl")
    history.append({"round": 1, "monitors": {"cka": float("nan")}, "evaluation": {"loss": float("inf")}})
    assert list(History.read(tmp_path / "history.jsonl")) == list(history)
    assert history.column("cka") == []


def test_no_control_character_is_left():
    text = "".join(map(chr, range(256)))
    assert all(c.isprintable() or c in "\n\t\xa0\xad" for c in visible(text))
    assert visible("Zürich\t北京\n") == "Zürich\t北京\n"
