"""The committed results are those of this code: their settings, their verdicts, the page, and one recipe of each paper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_data import DATA

from manyheads.core.errors import UserError
from manyheads.data import source_of
from manyheads.engines.threads import one_thread
from manyheads.reproduce import EXPERIMENTS, Result
from manyheads.reproduce.collins2021.columns import EXPLAINED, NEARER
from manyheads.reproduce.collins2021.table1 import CLOSE
from manyheads.reproduce.experiment import Place
from manyheads.reproduce.records import folder_of, key_of, rounded

ROOT = Path(__file__).parent.parent.parent
RESULTS = {
    (name, scale): found
    for name in EXPERIMENTS
    for scale in EXPERIMENTS.find(name).scales
    if (found := Result.read(folder_of(ROOT / "results", name, scale)))
}
PAPERS = sorted({name.partition(".")[0] for name, _ in RESULTS})
TOLERANCE = {
    "collins2021": 1e-4, "collins2022": 1e-4, "deng2022": 0.02, "fallah2020": 0.02,
    "digits": 0.05, "real": 0.05, "theory": 1e-4,
}  # fmt: skip
"""relative: exact on the machine that wrote them; elsewhere sums in another order differ, and training amplifies that"""
AT_LARGEST = "_in_round"
"""ends the names of facts that say in which round something was largest or least: where it stays as it is, rounding decides"""
LONGEST = 100
"""seconds that a recipe may have taken to be run again in a test"""


@pytest.mark.parametrize(("name", "scale"), RESULTS, ids=".".join)
def test_a_result_is_of_these_settings_and_has_these_verdicts(name, scale):
    result = RESULTS[name, scale]
    experiment = EXPERIMENTS.find(name).at(scale, result.settings["seeds"])
    for record in result.records:
        assert record.key == key_of(experiment, record.part, record.seed), (
            f"{record.part}: measured with other settings"
        )
    again = Result.of(experiment, scale, result.records)
    assert (again.verdict, again.claims, again.table) == (result.verdict, result.claims, result.table)
    assert again.about == result.about, "reproduce it again, and the text is renewed"
    for picture in ("figure.png", "figure.svg"):
        assert (folder_of(ROOT / "results", name, scale) / picture).stat().st_size > 1000


@pytest.mark.parametrize(("row", "switch"), [*EXPLAINED.items(), *NEARER.items()])
def test_a_switch_that_is_said_to_explain_a_cell_does(row, switch):
    cells = {
        cell.column: cell for cell in RESULTS["collins2021.switches", "paper"].table if cell.row == f"{row}: {switch}"
    }
    left = {column: abs(np.mean(cell.ours) - cell.paper) for column, cell in cells.items()}
    assert left["with it"] <= (CLOSE if row in EXPLAINED else left["without"] / 2)


def test_the_pages_are_made_of_them():
    sys.path.insert(0, str(ROOT / "docs"))
    from make_reproductions import pages

    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"python docs/make_reproductions.py renews {path.name}"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_recipe_of_each_paper_still_gives_its_numbers(paper, tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    records = [(key, r) for key, found in RESULTS.items() if key[0].startswith(paper) for r in found.records]
    (name, scale), record = min(records, key=lambda each: each[1].seconds)
    assert record.seconds < LONGEST
    experiment = EXPERIMENTS.find(name).at(scale)
    try:
        for table in experiment.needs():
            source_of(dict(table)).pool(0)
    except UserError as error:
        pytest.skip(f"needs data: {error}")
    (tmp_path / "runs").mkdir()
    with one_thread():
        facts = rounded(experiment.measure(record.part, record.seed, Place(tmp_path / "runs")))
    assert_alike(facts, record.facts, TOLERANCE[paper], name)


def assert_alike(now: Any, then: Any, tolerance: float, where: str) -> None:
    """Plain values of one form whose numbers differ by no more than the tolerance."""
    if isinstance(now, dict):
        assert now.keys() == then.keys(), where
        for key, value in now.items():
            if not key.endswith(AT_LARGEST):
                assert_alike(value, then[key], tolerance, f"{where}: {key}")
    elif isinstance(now, list) and any(isinstance(each, dict) for each in now):
        for i, (one, other) in enumerate(zip(now, then, strict=True)):
            assert_alike(one, other, tolerance, f"{where} {i}")
    elif now is None or isinstance(now, str):
        assert now == then, where
    else:
        np.testing.assert_allclose(np.array(now, float), np.array(then, float), tolerance, 1e-9, err_msg=where)
