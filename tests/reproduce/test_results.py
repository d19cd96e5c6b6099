"""The committed results are those of this code: their settings, their verdicts, the page, and the numbers of some recipes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_data import DATA, real

from manyheads.engines.threads import one_thread
from manyheads.reproduce import EXPERIMENTS, Result
from manyheads.reproduce.collins2021.columns import EXPLAINED, NEARER
from manyheads.reproduce.collins2021.switches import SWITCHES
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
MNIST, CHARS74K = real("mnist"), real("chars74k-hnd")
AGAIN = [
    pytest.param("collins2021.figure3", "quick", "theorem n 100: FedRep", 1e-4),
    pytest.param("collins2021.figure6", "quick", "letters to digits: FedRep", 0.05, marks=CHARS74K),
    pytest.param("collins2022.figure1", "quick", "tau 2", 1e-4),
    pytest.param("collins2022.figure3", "quick", "tau 2", 1e-4),
    pytest.param("deng2022.figure3", "quick", "heterogeneous: L 5, m 10", 0.02, marks=MNIST),
    pytest.param("fallah2020.figure1", "quick", "tau 4, r 0.5: Per-FedAvg", 0.02, marks=MNIST),
    pytest.param("digits.curves", "quick", "FedRep: shared body, own head", 0.05),
    pytest.param("real.short", "reduced", "Chars74K a-j, three letters a client: fedrep", 0.05, marks=CHARS74K),
    pytest.param("theory.collins2022", "quick", "run", 1e-4),
]
"""parts that train and are run again, seconds each, with the tolerance of their numbers: relative, for other machines than
the one that wrote them, where sums in another order differ, and training amplifies that"""
AT_LARGEST = "_in_round"
"""ends the names of facts that say in which round something was largest or least: where it stays as it is, rounding decides"""


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


@pytest.mark.parametrize(("of", "switch"), [*EXPLAINED.items(), *NEARER.items()])
def test_a_switch_that_is_said_to_explain_a_cell_does(of, switch):
    assert SWITCHES[switch].column == of[0]
    row = of[1]
    cells = {
        cell.column: cell for cell in RESULTS["collins2021.switches", "paper"].table if cell.row == f"{row}: {switch}"
    }
    left = {column: abs(np.mean(cell.ours) - cell.paper) for column, cell in cells.items()}
    assert left["with it"] <= (CLOSE if of in EXPLAINED else left["without"] / 2)


def test_the_pages_are_made_of_them():
    sys.path.insert(0, str(ROOT / "docs"))
    from make_reproductions import pages

    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"python docs/make_reproductions.py renews {path.name}"


def test_a_recipe_of_every_paper_is_run_again():
    assert {name.partition(".")[0] for name, *_ in (each.values for each in AGAIN)} == {
        name.partition(".")[0] for name in EXPERIMENTS
    }


@pytest.mark.parametrize(("name", "scale", "part", "tolerance"), AGAIN)
def test_it_still_gives_its_numbers(name, scale, part, tolerance, tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    record = next(r for r in RESULTS[name, scale].records if (r.part, r.seed) == (part, 0))
    experiment = EXPERIMENTS.find(name).at(scale)
    (tmp_path / "runs").mkdir()
    with one_thread():
        facts = rounded(experiment.measure(record.part, record.seed, Place(tmp_path / "runs")))
    assert_alike(facts, record.facts, tolerance, name)


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
