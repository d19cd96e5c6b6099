"""``manyheads theory``, as its user meets it."""

from __future__ import annotations

import json

import pytest
from commands import call

from manyheads.theory import PAPERS

SMALL = ["--dim", 20, "--rank", 2, "--clients", 10, "--rounds", 60]


def test_one_json_object_with_series_conditions_and_bound(capsys):
    assert call("theory", "collins2022", "--tau", 3, "--seed", 4, *SMALL, "--json") == 0
    out = capsys.readouterr().out
    facts = json.loads(out)
    assert out.count("\n") == 1
    assert facts["paper"] == "collins2022"
    assert (facts["settings"]["tau"], facts["settings"]["seed"], facts["settings"]["alpha"]) == (3, 4, 0.4)
    assert len(facts["series"]["dist"]) == 61
    assert {"name", "holds", "value", "needs"} <= facts["conditions"][0].keys()
    assert facts["bound"]["violations"] == 0


def test_several_seeds_are_the_single_runs(capsys):
    assert call("theory", "collins2022", *SMALL, "--seed", 1, "--seeds", 2, "--json") == 0
    both = json.loads(capsys.readouterr().out)
    assert [run["settings"]["seed"] for run in both["runs"]] == [1, 2]
    assert call("theory", "collins2022", *SMALL, "--seed", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out) == both["runs"][1]


def test_words_for_people(capsys):
    assert call("theory", "collins2022", *SMALL) == 0
    out = capsys.readouterr().out
    assert "✓  local steps: tau" in out
    assert "✗  step size: alpha" in out
    assert "within_assumptions" in out
    assert call("theory", "collins2021", "--only", "convergence", "--rounds", 20, "--seeds", 2) == 0
    captured = capsys.readouterr()
    assert "?  samples: m" in captured.out
    assert "seed 1 (2 of 2)" in captured.err


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_figure(tmp_path, capsys, suffix):
    path = tmp_path / "new" / f"a.{suffix}"
    assert call("theory", "collins2022", *SMALL, "--figure", path, "--json") == 0
    json.loads(capsys.readouterr().out)
    assert path.read_bytes()[:4] == (b"<svg" if suffix == "svg" else b"\x89PNG")


def test_help_lists_the_flags_of_the_paper(capsys):
    assert call("theory", "collins2022", "--help") == 0
    text = capsys.readouterr().out
    assert "--tau" in text
    assert "1 is D-GD" in text
    assert "--head-eta" not in text
    assert call("theory", "collins2021", "--help") == 0
    assert "--head-eta" in capsys.readouterr().out


def test_a_sweep_instead_of_the_run(tmp_path, capsys):
    path = tmp_path / "cohort.svg"
    assert call("theory", "collins2022", "--sweep", "cohort", "--seed", 3, "--figure", path, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["paper"], facts["sweep"], facts["settings"]["seed"]) == ("collins2022", "cohort", 3)
    assert {"name", "holds", "value", "needs"} <= facts["outcome"][0].keys()
    assert path.read_bytes()[:4] == b"<svg"
    assert call("theory", "collins2022", "--sweep", "cohort") == 0
    out = capsys.readouterr().out
    assert "how many clients a round" in out
    assert "✓  A_0 fails no more often" in out
    assert call("theory", "collins2022", "--help") == 0
    assert "--sweep" in capsys.readouterr().out


def test_papers_are_listed(capsys):
    assert call("theory") == 0
    assert all(name in capsys.readouterr().out for name in ["collins2021"])
    assert call("theory", "--json") == 0
    assert json.loads(capsys.readouterr().out)["papers"].keys() == set(PAPERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collins2020"], "unknown paper; given 'collins2020'"),
        (["collins2022", "--tau", "0"], "collins2022.tau"),
        (["collins2022", "--figure", "a.pdf"], "allowed: .svg, .png"),
        (["collins2022", "--alpha", "100", "--rounds", "50"], "diverged"),
        (["collins2022", "--seeds", "0"], "seeds"),
        (["collins2022", "--sweep", "beta"], "unknown sweep; given 'beta'; allowed: tau, cohort"),
        (["collins2021", "--sweep", "map", "--dim", "6"], "too small a problem for a sweep"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    assert call("theory", *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_json_of_deng2022_and_fallah2020_has_their_lemmas(capsys):
    few = ["--widths", 16, "--taus", 1, "--depths", 1, "--width", 16, "--clients", 2, "--samples", 3, "--rounds", 10]
    assert call("theory", "deng2022", *few, "--gradient", "single", "--json") == 0
    deng = json.loads(capsys.readouterr().out)
    assert {"semi_smoothness", "features_apart", "backward_moved", "stochastic_mean"} <= deng["ratios"].keys()
    assert "rate_times_R0" not in deng["ratios"]
    assert call("theory", "fallah2020", "--rounds", 3, "--draws", 3, "--views", 2, "--json") == 0
    fallah = json.loads(capsys.readouterr().out)
    assert len(fallah["local_drift"]) == len(fallah["drift"]) == 3
    assert fallah["bound"]["value_corrected"] < fallah["bound"]["value"]
    assert fallah["constants"]["gamma_F^2_corrected"] < fallah["constants"]["gamma_F^2"]
    assert [row["step"] for row in fallah["local_steps"]] == [1, 2, 3, 4, 5]


def test_a_sweep_as_json_and_in_words(capsys):
    few = ["--width", 16, "--clients", 2, "--samples", 2, "--rounds", 10]
    assert call("theory", "deng2022", "--sweep", "local-sgd", *few, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["paper"], facts["sweep"]) == ("deng2022", "local-sgd")
    assert {"width", "eta", "R0", "rate_times_R0"} <= facts["by_width"][0].keys()
    assert {"name", "holds", "value", "needs"} == facts["outcome"][0].keys()
    assert call("theory", "fallah2020", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--sweep" in text
    assert "rounds" in text
