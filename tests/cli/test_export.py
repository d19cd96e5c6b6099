"""``export``, as its user meets it."""

from __future__ import annotations

import json

import pytest
from commands import call, error_of, facts_of

ROWS = "\n".join(f"{50 + i % 17},{(i * 7) % 5 - 2},{int(i % 17 + (i * 7) % 5 > 9)}" for i in range(40))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    (place / "sites").mkdir()
    for name in ("leeds", "oslo", "St. Gallen"):
        (place / "sites" / f"{name}.csv").write_text(f"age,dose,outcome\n{ROWS}\n")
    flags = ["--data", place / "sites", "--data.label", "outcome", "--algorithm", "fedrep", "--workers", 1]
    assert call("run", *flags, "--rounds", 2, "--out", place / "run") == 0
    return place / "run"


def test_a_site_gets_a_folder_that_predicts(run, tmp_path, capsys):
    facts = facts_of(capsys, "export", run, "--site", "oslo", "--out", tmp_path / "mine", "--format", "onnx")
    (site,) = facts["sites"]
    assert (site["site"], site["out"], list(site["exports"])) == ("oslo", str(tmp_path / "mine"), ["onnx"])
    assert 0 <= site["test"]["accuracy"] <= 1
    card = json.loads((tmp_path / "mine" / "card.json").read_text())
    assert card["measured"]["test"] == site["test"]
    data = run.parent / "sites" / "oslo.csv"
    own, onnx = (facts_of(capsys, "predict", tmp_path / "mine", data, "--engine", e) for e in ("model", "onnx"))
    assert [p["prediction"] for p in own["predictions"]] == [p["prediction"] for p in onnx["predictions"]]
    assert len(own["predictions"]) == 40


def test_all_sites_get_one_each(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("export", run, "--site", "all", "--format", "none") == 0
    out = capsys.readouterr().out
    assert {p.name for p in (tmp_path / "models").iterdir()} == {"leeds", "oslo", "St.-Gallen"}
    assert "manyheads predict models/oslo DATA" in out
    assert "accuracy" in out
    assert "personal model" in out
    assert "exists already" in error_of(capsys, "export", run, "--site", "leeds")


@pytest.mark.parametrize(("words", "said"), [
    (["--site", "osla"], ["no such site", "'osla'", "did you mean 'oslo'?"]),
    (["--site", "oslo", "--format", "onxx"], ["format", "did you mean 'onnx'?"]),
    ([], ["--site"]),
])  # fmt: skip
def test_what_cannot_work_is_one_line_and_writes_nothing(run, tmp_path, capsys, words, said):
    line = error_of(capsys, "export", run, *words, "--out", tmp_path / "model")
    assert all(word in line for word in said), line
    assert not (tmp_path / "model").exists()
    assert "not a run" in error_of(capsys, "export", tmp_path, "--site", "oslo", "--out", tmp_path / "model")
