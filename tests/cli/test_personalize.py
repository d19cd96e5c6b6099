"""``personalize`` and ``predict``, as their user meets them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from commands import call, error_of, facts_of

from manyheads.data import Classes, Digits, federate

NEW = federate(Digits().pool(seed=0), Classes(3), clients=10, seed=0).with_new_clients(1, seed=0).new
X, Y = (np.concatenate(parts) for parts in zip(NEW.train.client(0), NEW.test.client(0), strict=True))
ORDER = np.random.default_rng(0).permutation(len(Y))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A FedRep run on digits, three a client, with one client kept out of it."""
    out = tmp_path_factory.mktemp("digits") / "run"
    flags = ["--data", "digits", "--partition", "classes:3", "--clients", 10, "--new-clients", 1, "--workers", 1]
    assert call("run", *flags, "--algorithm", "fedrep", "--algorithm.sgd.lr", 0.05, "--rounds", 8, "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def model(digits, tmp_path_factory):
    """The new client's model, with both exports, and the samples it has not seen."""
    folder = tmp_path_factory.mktemp("model")
    np.savez(folder / "own.npz", x=X[ORDER[:60]], y=Y[ORDER[:60]])
    np.savez(folder / "rest.npz", x=X[ORDER[60:]], y=Y[ORDER[60:]])
    assert call("personalize", digits, folder / "own.npz", "--out", folder / "mine", "--export", "onnx,torch") == 0
    return folder


def test_accuracy_grows_with_the_samples_of_the_new_client(digits, tmp_path, capsys):
    np.savez(tmp_path / "rest.npz", x=X[ORDER[50:]], y=Y[ORDER[50:]])
    accuracy, before = [], []
    for count in (5, 20, 50):
        np.savez(tmp_path / f"{count}.npz", x=X[ORDER[:count]], y=Y[ORDER[:count]])
        out = tmp_path / f"model{count}"
        facts = facts_of(capsys, "personalize", digits, tmp_path / f"{count}.npz", "--out", out, "--export", "none")
        assert facts["samples"] == count
        before.append(facts["before"]["accuracy"])
        accuracy.append(facts_of(capsys, "predict", out, tmp_path / "rest.npz")["accuracy"])
    assert facts["after"]["accuracy"] > facts["before"]["accuracy"]
    assert max(before) < accuracy[0] < accuracy[1] < accuracy[2]


def test_neighbours_instead_of_training(digits, model, tmp_path, capsys):
    words = [
        "personalize",
        digits,
        model / "own.npz",
        "--out",
        tmp_path / "near",
        "--finetune",
        "knn:5",
        "--curve",
        "5",
    ]
    assert call(*words, "--export", "none") == 0
    told = capsys.readouterr()
    assert "with its 5 nearest training samples (weights by leave-one-out) (as you said)" in told.out
    assert "holds the features and labels of 42 training samples" in told.err
    facts = facts_of(capsys, "predict", tmp_path / "near", model / "rest.npz")
    assert facts["accuracy"] > 0.6
    line = error_of(capsys, *words[:4], tmp_path / "none", "--finetune", "knn:5steps")
    assert "knn:NEIGHBOURS" in line


def test_the_other_metrics_are_shown_before_and_after(digits, model, tmp_path, capsys):
    words = ["personalize", digits, model / "own.npz", "--out", tmp_path / "again", "--export", "none", "--curve", "5"]
    assert call(*words) == 0
    shown = {tuple(line.split()) for line in capsys.readouterr().out.splitlines()}
    card = json.loads((tmp_path / "again" / "card.json").read_text())["measured"]
    auc = tuple(f"{card[at]['auc']:.3f}" for at in ("before", "after"))
    assert any(line[:1] == ("AUC",) and line[1:3] == auc for line in shown)


def test_the_exports_predict_what_predict_predicts(model, capsys):
    own, onnx = (
        facts_of(capsys, "predict", model / "mine", model / "rest.npz", "--engine", engine)
        for engine in ("model", "onnx")
    )
    labels = [p["prediction"] for p in own["predictions"]]
    assert labels == [p["prediction"] for p in onnx["predictions"]]
    shares = [[p["probability"] for p in f["predictions"]] for f in (own, onnx)]
    assert shares[0] == pytest.approx(shares[1], abs=1e-5)
    x, y = X[ORDER[60:]], Y[ORDER[60:]]
    exported = torch.export.load(model / "mine" / "model.pt2").module()
    with torch.no_grad():
        out = exported(torch.from_numpy(x))
    assert labels == [str(i) for i in out.argmax(1).tolist()]
    assert own["accuracy"] == pytest.approx(np.mean([int(p) == t for p, t in zip(labels, y, strict=True)]))
    card = json.loads((model / "mine" / "card.json").read_text())
    assert card["input"] == {"name": "x", "shape": ["batch", 64], "dtype": "float32"}
    assert card["sha256"].keys() == {"model.safetensors", "model.onnx", "model.pt2"}
    assert card["measured"]["held_out"] == 18


def test_predictions_are_a_table(model, tmp_path, capsys):
    np.savez(tmp_path / "bare.npz", x=X[:3].reshape(3, 64))
    capsys.readouterr()
    assert call("predict", model / "mine", tmp_path / "bare.npz") == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(out.splitlines()))
    assert [r["row"] for r in rows] == ["1", "2", "3"]
    assert all(r["prediction"] in "0123456789" and 0 < float(r["probability"]) <= 1 for r in rows)
    assert err == ""
    assert call("predict", model / "mine", model / "rest.npz") == 0
    assert "accuracy" in capsys.readouterr().err
    for name in ("p.csv", "p.parquet"):
        assert call("predict", model / "mine", tmp_path / "bare.npz", "--out", tmp_path / name) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "p.csv").read_text() == out
    assert pq.read_table(tmp_path / "p.parquet").column("prediction").to_pylist() == [r["prediction"] for r in rows]
    assert ".csv, .parquet" in error_of(capsys, "predict", model / "mine", tmp_path / "bare.npz", "--out", "p.txt")


def test_the_report_says_what_was_done(digits, model, tmp_path, capsys, monkeypatch):
    words = ["personalize", digits, model / "own.npz", "--out", tmp_path / "m", "--export", "none", "--lr", 0.1]
    monkeypatch.setattr("sys.argv", ["/usr/bin/manyheads", *map(str, words)])
    assert call(*words) == 0
    assert json.loads((tmp_path / "m" / "card.json").read_text())["command"] == " ".join(
        map(str, ["manyheads", *words])
    )
    out = capsys.readouterr().out
    for words in (
        "fedrep after 8 rounds",
        "42 to train on, 18 held out",
        "the shared body with an untrained head",
        "trained for 300 steps, step size 0.1",
        "95 % interval",
        "the most frequent label",
        "alone: linear",
        "logistic regression",
        "By cross-validation on the 42 training samples",
        "18 held-out samples are few",
        f"manyheads predict {tmp_path / 'm'} DATA",
    ):
        assert words in out
    assert {p.name for p in (tmp_path / "m").iterdir()} == {"card.json", "model.safetensors"}


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


BAD = [
    (lambda p: save(p / "d.npz", x=X[:, :63], y=Y), [], ["d.npz", "wrong number of inputs", "given 63", "64"]),
    (lambda p: save(p / "d.npz", x=X, y=Y + 10), [], ["row 1", "label that the run does not know"]),
    (lambda p: save(p / "d.npz", x=X[:0], y=Y[:0]), [], ["has no rows"]),
    (lambda p: save(p / "d.npz", x=X[:1], y=Y[:1]), [], ["too few samples"]),
    (lambda p: save(p / "d.npz", x=X), [], ["has no labels", "'y'"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--curve", "5,many"], ["curve", "5,many"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--curve", "1000"], ["curve", "1000"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--finetune", "nose:1"], ["finetune", "nose:1"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--lr", "0"], ["lr", "greater than 0"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--export", "onxx"], ["export", "did you mean 'onnx'?"]),
    (lambda p: save(p / "d.npz", x=X, y=Y), ["--test-fraction", "2"], ["test_fraction", "less than 1"]),
    (lambda p: p / "nowhere.npz", [], ["nowhere.npz is not there"]),
]


@pytest.mark.parametrize(("make", "flags", "words"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(digits, tmp_path, capsys, make, flags, words):
    data = make(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    line = error_of(capsys, "personalize", digits, data, "--out", tmp_path / "model", *flags)
    assert all(word in line for word in words), line
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_an_empty_file_and_what_is_no_run_or_no_model(digits, model, tmp_path, capsys):
    (tmp_path / "empty.csv").touch()
    assert "has no rows" in error_of(capsys, "personalize", digits, tmp_path / "empty.csv", "--out", tmp_path / "m")
    assert "not a run" in error_of(capsys, "personalize", tmp_path, model / "own.npz", "--out", tmp_path / "m")
    assert "holds no model" in error_of(capsys, "predict", digits, model / "own.npz")
    line = error_of(capsys, "personalize", digits, model / "own.npz", "--out", model / "mine")
    assert "exists already" in line
    assert "'model', 'onnx'" in error_of(capsys, "predict", model / "mine", model / "own.npz", "--engine", "torch")


def write(path, columns, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def patients(seed: int, rows: int) -> list[dict[str, object]]:
    """A hospital's table, with gaps: who is ill depends on age, dose and ward alike everywhere."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(rows):
        age, dose, ward = rng.normal(), rng.normal(), str(rng.choice(["A", "B", "C"]))
        risk = age + dose + 2 * (ward == "A")
        table.append(
            {
                "age": "" if rng.random() < 0.05 else f"{50 + 10 * age:.2f}",
                "dose": f"{dose:.3f}",
                "ward": "" if rng.random() < 0.05 else ward,
                "days": f"{20 + 5 * risk:.3f}",
                "outcome": "ill" if risk > 0.7 else "well",
            }
        )
    return table


def test_a_new_site_with_its_columns_in_another_order_and_a_ward_nobody_knew(tmp_path, capsys):
    folder = tmp_path / "sites"
    folder.mkdir()
    for seed in range(4):
        write(folder / f"s{seed}.csv", ("age", "dose", "ward", "outcome"), patients(seed, 80))
    flags = ["--data.label", "outcome", "--algorithm", "fedrep", "--algorithm.sgd.lr", 0.05, "--rounds", 10]
    assert call("run", "--data", folder, *flags, "--workers", 1, "--out", tmp_path / "run") == 0
    mine, later = patients(9, 60), patients(10, 100)
    mine[5]["ward"] = "Z"
    new = write(tmp_path / "new.csv", ("outcome", "ward", "dose", "age"), mine)
    facts = facts_of(capsys, "personalize", tmp_path / "run", new, "--out", tmp_path / "model", "--export", "onnx")
    assert [w for w in facts["warnings"] if "'ward'" in w and "'Z'" in w]
    assert facts["after"]["accuracy"] > facts["alone"]["majority"]["accuracy"]
    card = json.loads((tmp_path / "model" / "card.json").read_text())
    assert card["input"]["features"] == ["age", "dose", "ward=A", "ward=B", "ward=C", "age missing"]
    results = []
    for columns in (("age", "dose", "ward", "outcome"), ("ward", "outcome", "dose", "age")):
        for engine in ("model", "onnx"):
            table = write(tmp_path / "later.csv", columns, later)
            results.append(facts_of(capsys, "predict", tmp_path / "model", table, "--engine", engine))
    labels = [[p["prediction"] for p in r["predictions"]] for r in results]
    assert all(one == labels[0] for one in labels)
    assert set(labels[0]) == {"ill", "well"}
    assert results[0]["accuracy"] > 0.75
    bare = write(tmp_path / "bare.csv", ("dose", "ward", "age"), later)
    found = facts_of(capsys, "predict", tmp_path / "model", bare)
    assert "accuracy" not in found
    assert [p["prediction"] for p in found["predictions"]] == labels[0]
    lacks = write(tmp_path / "lacks.csv", ("dose", "age", "outcome"), mine)
    line = error_of(capsys, "personalize", tmp_path / "run", lacks, "--out", tmp_path / "other")
    assert "lacks the columns 'ward'" in line
    assert "has no labels" in error_of(capsys, "personalize", tmp_path / "run", bare, "--out", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_regression_predicts_in_the_unit_of_the_target(tmp_path, capsys):
    folder = tmp_path / "sites"
    folder.mkdir()
    for seed in range(3):
        write(folder / f"s{seed}.csv", ("age", "dose", "ward", "days"), patients(seed, 80))
    flags = ["--data.label", "days", "--algorithm", "fedrep", "--algorithm.sgd.lr", 0.05, "--rounds", 15]
    assert call("run", "--data", folder, *flags, "--workers", 1, "--out", tmp_path / "run") == 0
    new = write(tmp_path / "new.csv", ("ward", "days", "dose", "age"), patients(9, 60))
    capsys.readouterr()
    assert call("personalize", tmp_path / "run", new, "--out", tmp_path / "model", "--export", "none") == 0
    out = capsys.readouterr().out
    assert "RMSE" in out
    assert "the mean target" in out
    measured = json.loads((tmp_path / "model" / "card.json").read_text())["measured"]
    assert measured["after"]["rmse"] < 0.6 * measured["alone"]["majority"]["rmse"]
    table = patients(10, 50)
    facts = facts_of(capsys, "predict", tmp_path / "model", write(tmp_path / "l.csv", tuple(table[0]), table))
    days = np.array([float(row["days"]) for row in table])
    values = np.array([p["value"] for p in facts["predictions"]])
    assert facts["rmse"] == pytest.approx(np.sqrt(np.mean((values - days) ** 2)), rel=1e-4)
    assert facts["rmse"] < 0.6 * days.std()


def test_without_the_packages_of_onnx(digits, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("manyheads.onboarding.export.find_spec", lambda name: None)
    words = ["personalize", digits, model / "own.npz", "--out", tmp_path / "model"]
    assert "pip install" in error_of(capsys, *words, "--export", "onnx")
    assert facts_of(capsys, *words, "--curve", 5)["exports"].keys() == {"torch"}
    assert "pip install" in error_of(capsys, "predict", model / "mine", model / "own.npz", "--engine", "onnx")


def test_help_has_examples(capsys):
    for command in ("personalize", "predict"):
        assert call(command, "--help") == 0
        assert f"manyheads {command} " in capsys.readouterr().out
