"""Reproductions: what is measured is kept, what is missing is measured, and the claims are judged by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from commands import call

from manyheads.core.errors import Diverged, UserError
from manyheads.core.settings import settings
from manyheads.engines.engine import Engine
from manyheads.reproduce import EXPERIMENTS, Experiment, Result, reproduce
from manyheads.reproduce.claims import Claim, above
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Cell, Facts, Measured, Place, Scale
from manyheads.reproduce.page import page

MEASURED: list[tuple[str, int]] = []
FAILS: set[tuple[str, int]] = set()
DIVERGES: set[tuple[str, int]] = set()


@settings
class Growth(Experiment):
    """Two lines, of which one grows faster."""

    name: ClassVar[str] = "toy2000.figure1"
    title: ClassVar[str] = "Two lines"
    about: ClassVar[str] = "The paper shows that the steep line is above the flat one."
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"points": 3}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.01, "paper": 0.02}

    seeds: int = 2
    points: int = 5
    slope: float = 2.0

    def parts(self) -> list[str]:
        return ["steep", "flat"]

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        if (part, seed) in FAILS:
            raise KeyboardInterrupt
        if (part, seed) in DIVERGES:
            raise Diverged("not finite")
        MEASURED.append((part, seed))
        slope = self.slope if part == "steep" else 1.0
        return {"values": [slope * x + 0.1 * seed for x in range(self.points)]}

    def claims(self, found: Measured) -> list[Claim]:
        if len(found) < 2:
            return []
        ends = [[facts["values"][-1] for facts in found[part].values()] for part in ("steep", "flat")]
        return [Claim("steep is above flat", (above("at the end", *ends),))]

    def table(self, found: Measured) -> list[Cell]:
        return [Cell(part, "end", [f["values"][-1] for f in runs.values()], 8.0) for part, runs in found.items()]

    def figure(self, found: Measured) -> Any:
        rows = [
            row(part, seed, x, y)
            for part, runs in found.items()
            for seed, facts in runs.items()
            for x, y in enumerate(facts["values"])
        ]
        return banded(rows, "y", "x")


@pytest.fixture
def places(tmp_path, monkeypatch) -> dict[str, Path]:
    MEASURED.clear()
    FAILS.clear()
    DIVERGES.clear()
    monkeypatch.chdir(tmp_path)
    EXPERIMENTS.register(Growth)
    return {"out": tmp_path / "results", "work": tmp_path / "work"}


def done(places: dict[str, Path], experiment: Experiment | None = None, **options: Any) -> Result:
    return reproduce(experiment or Growth.at("quick"), "quick", engine=Engine(workers=1), **places, **options)


def test_everything_is_measured_judged_and_written(places):
    result = done(places)
    assert MEASURED == [("steep", 0), ("steep", 1), ("flat", 0), ("flat", 1)]
    assert result.verdict == "reproduced"
    assert not result.missing
    folder = places["out"] / "toy2000" / "figure1" / "quick"
    assert {p.name for p in folder.iterdir()} == {"result.json", "figure.svg", "figure.png"}
    facts = json.loads((folder / "result.json").read_text())
    assert facts["settings"] == {"seeds": 2, "points": 3, "slope": 2.0}
    assert facts["claims"][0]["verdict"] == "reproduced"
    assert facts["machine"]["packages"]["torch"]
    assert facts["records"][0]["facts"] == {"values": [0.0, 2.0, 4.0]}
    assert all(record["core_seconds"] >= 0 for record in facts["records"])
    assert Result.read(folder) == result
    assert "points 3 (paper: 5)" in (folder / "figure.svg").read_text()


def test_what_is_there_is_not_measured_again_unless_asked_or_by_another_recipe(places):
    done(places)
    MEASURED.clear()
    assert done(places).verdict == "reproduced"
    assert not MEASURED
    done(places, Growth.at("quick", seeds=3))
    assert MEASURED == [("steep", 2), ("flat", 2)]
    MEASURED.clear()
    done(places, again=True)
    assert len(MEASURED) == 4
    MEASURED.clear()
    assert not done(places, again=True, parts=["flat"]).missing  # the others are kept
    assert MEASURED == [("flat", 0), ("flat", 1)]
    MEASURED.clear()
    assert done(places, Growth(points=3, slope=0.5)).verdict == "not reproduced"
    assert len(MEASURED) == 4


def test_results_without_the_working_folder_are_enough_to_go_on(places):
    done(places)
    MEASURED.clear()
    done({**places, "work": places["work"] / "other"})
    assert not MEASURED


def test_an_interruption_keeps_what_is_done(places):
    FAILS.add(("flat", 1))
    with pytest.raises(KeyboardInterrupt):
        done(places)
    kept = Result.read(places["out"] / "toy2000" / "figure1" / "quick")
    assert kept is not None
    assert len(kept.records) == 3
    assert kept.verdict == "undecided"
    FAILS.clear()
    MEASURED.clear()
    assert done(places).verdict == "reproduced"
    assert MEASURED == [("flat", 1)]


def test_parts_that_another_process_measures_meanwhile_are_kept(places, monkeypatch):
    measure = Growth.measure

    def meanwhile(self: Growth, part: str, seed: int, place: Place) -> Facts:
        if part == "steep":
            done(places, parts=["flat"])
        return measure(self, part, seed, place)

    monkeypatch.setattr(Growth, "measure", meanwhile)
    assert not done(places, parts=["steep"]).missing
    assert sorted(MEASURED) == [("flat", 0), ("flat", 1), ("steep", 0), ("steep", 1)]


def test_seeds_that_were_asked_for_before_are_kept(places):
    done(places, Growth.at("quick", seeds=3))
    MEASURED.clear()
    result = done(places)
    assert not MEASURED
    assert (result.repetitions, result.settings["seeds"]) == ("3 seeds", 3)
    assert done(places, again=True, parts=["flat"]).repetitions == "3 seeds"
    assert MEASURED == [("flat", 0), ("flat", 1)]
    MEASURED.clear()
    result = done(places, Growth.at("quick", seeds=4), parts=["steep"])
    assert MEASURED == [("steep", 3)]
    assert result.repetitions == "3 to 4 seeds"
    found = [(c.what, c.holds) for c in result.claims[0].checks]
    assert found == [("at the end", None)]  # what has not the same seeds is not compared


def test_seeds_that_another_process_measures_meanwhile_are_kept(places, monkeypatch):
    measure = Growth.measure

    def meanwhile(self: Growth, part: str, seed: int, place: Place) -> Facts:
        if self.seeds == 2:
            done(places, Growth.at("quick", seeds=3), parts=["flat"])
        return measure(self, part, seed, place)

    monkeypatch.setattr(Growth, "measure", meanwhile)
    result = done(places, parts=["steep"])
    assert {(r.part, r.seed) for r in result.records} == {("steep", 0), ("steep", 1), *(("flat", s) for s in range(3))}


def test_the_time_before_an_interruption_counts(places, monkeypatch):
    ticks = count(step=60)  # a minute at every look
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr("manyheads.reproduce.conduct.time", clock)
    FAILS.add(("flat", 1))
    with pytest.raises(KeyboardInterrupt):
        done(places)
    FAILS.clear()
    seconds = {(r.part, r.seed): r.seconds for r in done(places).records}
    assert seconds["flat", 1] > seconds["flat", 0] == seconds["steep", 1]
    again = {(r.part, r.seed): r.seconds for r in done(places, again=True).records}
    assert again["flat", 1] == seconds["flat", 0]
    assert not list(places["work"].rglob("*.worked"))


def test_some_parts_only(places):
    result = done(places, parts=["steep"])
    assert result.missing == ("flat",)
    assert result.claims == ()
    assert done(places, parts=["flat"]).verdict == "reproduced"
    with pytest.raises(UserError, match="unknown part; given 'step'; .*did you mean 'steep'"):
        done(places, parts=["step"])


def test_without_claims_it_is_measured(places, monkeypatch):
    monkeypatch.setattr(Growth, "judged", False)
    monkeypatch.setattr(Growth, "claims", lambda self, found: [])
    assert done(places, parts=["steep"]).verdict == "measured"
    assert done(places).verdict == "measured"


def test_one_seed_decides_no_order(places):
    assert done(places, Growth.at("quick", seeds=1)).verdict == "undecided"


def test_a_scale_that_it_does_not_have(places):
    with pytest.raises(UserError, match="no such scale; given 'reduced'; allowed: quick, paper"):
        Growth.at("reduced")


def test_a_damaged_result_is_a_clear_error(places):
    done(places)
    file = places["out"] / "toy2000" / "figure1" / "quick" / "result.json"
    file.write_text(file.read_text()[:-30])
    with pytest.raises(UserError, match=r"result.json cannot be read.*remove it"):
        done(places)


def test_facts_of_an_earlier_form_are_a_clear_error_before_any_work(places, monkeypatch, capsys):
    done(places, parts=["steep"])
    file = places["out"] / "toy2000" / "figure1" / "quick" / "result.json"
    before = file.read_text()
    MEASURED.clear()
    for reads in ("table", "figure"):

        def later(self, found):
            return [facts["steps"] for runs in found.values() for facts in runs.values()]

        with monkeypatch.context() as changed:
            changed.setattr(Growth, reads, later)
            assert call("reproduce", "toy2000.figure1", "--workers", 1) == 2
        assert "its facts were others: 'steps' is not among them; measure it anew: --again" in capsys.readouterr().err
    assert not MEASURED
    assert file.read_text() == before
    done(places, again=True)
    assert len(MEASURED) == 4


def test_missing_data_is_said_before_any_work(places, monkeypatch):
    monkeypatch.setattr(Growth, "needs", lambda self: [{"name": "cifar10"}])
    monkeypatch.setenv("MANYHEADS_DATA", str(places["out"]))
    with pytest.raises(UserError, match=r"cifar10 is not there.*put .* into"):
        done(places)
    assert not MEASURED
    assert not places["work"].exists()


def test_all_missing_data_of_all_experiments_is_one_error_before_any_work(places, monkeypatch, capsys):
    class Other(Growth):
        name: ClassVar[str] = "toy2000.figure2"

        def needs(self):
            return [{"name": "mnist"}, {"name": "mnist", "digits": "0-4"}, {"name": "digits"}]

    EXPERIMENTS.register(Other)
    monkeypatch.setattr(Growth, "needs", lambda self: [{"name": "cifar10"}])
    monkeypatch.setenv("MANYHEADS_DATA", str(places["out"]))
    assert call("reproduce", "toy2000", "--workers", 1) == 2
    shown = capsys.readouterr().err
    assert "2 data sets that are needed cannot be read" in shown
    for words in ("cifar10 is not there; put", "mnist is not there; put train-images-idx3-ubyte.gz"):
        assert words in shown
    assert shown.count("is not there") == 2
    assert f"to download it: manyheads data get mnist --out {places['out']}" in shown
    assert not MEASURED
    monkeypatch.setattr(Growth, "needs", lambda self: [])
    done(places)
    monkeypatch.setattr(Growth, "needs", lambda self: [{"name": "cifar10"}])
    call("reproduce", "toy2000")  # nothing is left to measure of the first
    shown = capsys.readouterr().err
    assert "mnist is not there" in shown
    assert "cifar10" not in shown


def test_the_command(places, capsys):
    assert call("reproduce", "toy2000.figure1", "--workers", 1) == 0
    shown = capsys.readouterr().out
    assert "toy2000.figure1: reproduced" in shown
    assert "✓ at the end" in shown
    assert "8.00" in shown
    assert call("reproduce", "toy2000.figure1", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "reproduced"
    assert facts["out"].endswith("toy2000/figure1/quick")
    assert call("reproduce", "--list", "--json") == 0
    rows = {(r["experiment"], r["scale"]): r for r in json.loads(capsys.readouterr().out)["experiments"]}
    assert rows["toy2000.figure1", "quick"]["verdict"] == "reproduced"
    assert rows["toy2000.figure1", "paper"]["status"] == "not run"
    assert call("reproduce", "toy2000.figure9") == 2
    assert "did you mean 'toy2000.figure1'" in capsys.readouterr().err
    assert call("reproduce", "toy2000", "--json") == 0  # all of a paper: a list, however many there are
    assert [each["experiment"] for each in json.loads(capsys.readouterr().out)["results"]] == ["toy2000.figure1"]
    for name in ("toy2000", "toy2000.figure1"):
        assert call("reproduce", name, "--scale", "reduced", "--json") == 2
        assert f"error: {name}: no such scale; given 'reduced'; allowed: quick, paper" in capsys.readouterr().err


def test_a_part_that_diverges_is_a_result_and_told(places):
    DIVERGES.add(("flat", 1))
    result = done(places)
    assert result.diverged == ["flat"]
    assert not result.missing
    assert len(result.records) == 4
    assert result.claims[0].verdict == "undecided"  # two seeds of one, one of the other
    assert "Diverged: flat" in page("", [Growth.name], places["out"], "../results")
    DIVERGES.clear()
    assert done(places).diverged == ["flat"]  # it is not tried again


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_says_in_which_rounds_it_evaluates(name):
    """What was measured must not change with what is usual."""
    for scale, given in EXPERIMENTS[name].scales.items():
        experiment = EXPERIMENTS[name](**given)
        for part in experiment.parts():
            assert experiment.recipe(part, 0).get("evaluate", {}).get("every") != 0, (scale, part)


def test_a_panel_without_rows_has_no_scales_that_the_panels_beside_it_would_share():
    empty, full = banded([], "y", "x", title="left"), banded([row("a", 0, 1, 2)], "y", "x", title="right")
    assert "scale" in json.dumps(full.to_dict())
    assert "scale" not in json.dumps(empty.to_dict())
    assert "not measured" in json.dumps(empty.to_dict())
