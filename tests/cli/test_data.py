"""``manyheads data``, as its user meets it."""

from __future__ import annotations

import numpy as np
import pytest
from commands import call, facts_of
from sklearn.datasets import load_diabetes, load_wine


def as_sites(folder, bunch, count: int):
    """A table of scikit-learn's, split over made-up sites."""
    folder.mkdir()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    for site, rows in enumerate(np.array_split(order, count)):
        lines = [",".join([*bunch.feature_names, "target"])]
        lines += [",".join(map(repr, [*bunch.data[r].tolist(), bunch.target[r].item()])) for r in rows]
        (folder / f"site{site}.csv").write_text("\n".join(lines))
    return folder


def test_wine_of_made_up_sites_is_checked_and_learned(tmp_path, capsys):
    folder = as_sites(tmp_path / "wine", load_wine(), 4)
    found = facts_of(capsys, "data", "check", folder)
    assert found["ok"]
    assert (found["task"], found["labels"], found["label"]) == ("classification", ["0", "1", "2"], "target")
    assert sum(s["rows"] for s in found["sites"]) == 178
    run = ["run", "--data", "sites", "--data.path", folder, "--rounds", 20, "--algorithm", "fedrep", "--workers", 1]
    assert facts_of(capsys, *run, "--out", tmp_path / "run")["accuracy"] > 0.85


def test_diabetes_of_made_up_sites_is_a_regression(tmp_path, capsys):
    folder = as_sites(tmp_path / "diabetes", load_diabetes(), 5)
    found = facts_of(capsys, "data", "check", folder)
    assert found["task"] == "regression"
    assert found["sites"][0]["target"]["std"] > 50
    run = ["run", "--data", "sites", "--data.path", folder, "--data.scaling", "federated", "--algorithm", "fedavg"]
    result = facts_of(capsys, *run, "--rounds", 20, "--workers", 1, "--out", tmp_path / "run")
    assert result["accuracy"] is None
    assert result["loss"] < 0.9  # 1: always predicting the mean
    described = facts_of(capsys, "data", "describe", "--data", "sites", "--data.path", folder)
    assert len(described["target_wasserstein"]["per_client"]) == 5


def test_check_tells_every_mistake_with_its_place(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("age,label\n1,0\nold,1\n3,\n")
    (tmp_path / "b.csv").write_text("age,label\n1,0\n2,1\n")
    assert call("data", "check", tmp_path) == 2
    out = capsys.readouterr().out
    assert f"error: {tmp_path / 'a.csv'}, row 2, column 'age': text in a column of numbers: 'old'" in out
    assert f"error: {tmp_path / 'a.csv'}, row 3, column 'label': a missing label" in out
    found = facts_of(capsys, "data", "check", tmp_path, code=2)
    assert not found["ok"]
    assert {(p["row"], p["column"]) for p in found["problems"] if p["severity"] == "error"} == {
        (2, "age"),
        (3, "label"),
    }
    assert facts_of(capsys, "data", "check", tmp_path / "none", code=2)["ok"] is False


def test_check_shows_the_sites_and_takes_the_flags_of_run(tmp_path, capsys):
    (tmp_path / "all.csv").write_text("ward,age,out\n" + "".join(f"{'NS'[i % 2]},{i},{i % 3}\n" for i in range(20)))
    flags = ["--data.client", "ward", "--data.label", "out"]
    assert call("data", "check", tmp_path / "all.csv", *flags) == 0
    out = capsys.readouterr().out
    assert "2 sites, classification of 'out'" in out
    assert "can be used" in out


def test_describe_tells_sizes_labels_and_distances(capsys):
    arguments = ["data", "describe", "--data", "digits", "--partition", "classes:2", "--clients", "6"]
    found = facts_of(capsys, *arguments, "--seed", 1, "--new-clients", 2)
    assert found["clients"] == 4
    assert found["new"]["clients"] == 2
    counts = np.array(found["labels"])
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert counts.sum() == found["samples"]["train"]
    shares, mixture = counts / counts.sum(1, keepdims=True), counts.sum(0) / counts.sum()
    assert found["total_variation"]["per_client"] == pytest.approx(0.5 * np.abs(shares - mixture).sum(1))
    assert found["input_wasserstein"]["method"] == "sliced"
    assert facts_of(capsys, *arguments, "--seed", 1, "--new-clients", 2) == found
    alike = facts_of(capsys, "data", "describe", "--partition", "iid", "--clients", "6")
    assert alike["total_variation"]["max"] < found["total_variation"]["mean"] / 2
    assert alike["input_wasserstein"]["mean"] < found["input_wasserstein"]["mean"]
    assert call(*arguments) == 0
    shown = capsys.readouterr().out
    assert shown.count("█") >= 6
    assert "label distance (total variation) from all clients: mean" in shown


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_describe_draws(tmp_path, capsys, kind):
    pytest.importorskip("vl_convert")
    path = tmp_path / f"labels.{kind}"
    assert call("data", "describe", "--clients", 5, "--picture", path, "--json") == 0
    assert path.read_bytes()[:4] in (b"<svg", b"\x89PNG")


def test_describe_refuses_in_one_line(tmp_path, capsys):
    for arguments in (["--picture", tmp_path / "x.gif"], ["--data", "digit"], ["--data", "sites"], ["--rounds", 3]):
        assert call("data", "describe", *arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_list_says_what_is_found(tmp_path, capsys, monkeypatch):
    (tmp_path / "cifar100").mkdir()
    for part in ("train", "test"):
        (tmp_path / "cifar100" / f"{part}.parquet").touch()
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path))
    found = {d["name"]: d["found"] for d in facts_of(capsys, "data", "list")["data"]}
    assert (found["digits"], found["cifar100"], found["mnist"]) == (None, True, False)
    assert call("data", "list") == 0
    assert "not found" in capsys.readouterr().out


def test_get_without_the_hub_says_which_files_go_where(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    monkeypatch.delenv("MANYHEADS_DATA", raising=False)
    for name, file in (("mnist", "train-images-idx3-ubyte.gz"), ("sent140", "training.1600000")):
        assert call("data", "get", name, "--out", tmp_path) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert file in err
        assert str(tmp_path / name) in err
    assert call("data", "get", "mnist") == 2
    assert "MANYHEADS_DATA" in capsys.readouterr().err
    assert call("data", "get", "mnits", "--out", tmp_path) == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["list", "get", "check", "describe"])
def test_help_teaches_with_an_example(capsys, command):
    assert call("data", command, "--help") == 0
    out = capsys.readouterr().out
    assert "Example" in out
    assert f"manyheads data {command}" in out
    assert "[bold]" not in out
