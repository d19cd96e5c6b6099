"""The command line, as its user meets it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commands import call, error_of
from processes import all_shown, until

SMALL = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "6", "--rounds", "2", "--workers", "1"]


def test_json_is_one_object_with_the_facts(tmp_path, capsys):
    assert call(*SMALL, "--algorithm", "fedrep", "--out", tmp_path / "run", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["algorithm"] == "fedrep"
    assert facts["rounds"] == 2
    assert 0 <= facts["accuracy"] <= 1
    assert "personal model" in facts["protocol"]
    assert facts["seconds"] > 0
    assert len(facts["checksum"]) == 64
    assert {p.name for p in (tmp_path / "run").iterdir()} >= {
        "config.toml",
        "history.jsonl",
        "machine.json",
        "checkpoint",
    }


def test_fedrep_beats_fedavg_by_a_wide_margin_with_three_classes_a_client(tmp_path, capsys):
    accuracy = {}
    for name in ("fedrep", "fedavg"):
        arguments = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "20", "--algorithm", name]
        assert call(*arguments, "--rounds", "30", "--seed", "0", "--out", tmp_path / name, "--json") == 0
        accuracy[name] = json.loads(capsys.readouterr().out)["accuracy"]
    assert accuracy["fedrep"] > accuracy["fedavg"] + 0.3


def test_a_run_can_be_repeated_from_its_config_file(tmp_path, capsys):
    sums = []
    assert (
        call(
            *SMALL,
            "--algorithm",
            "fedrep",
            "--algorithm.head-epochs",
            3,
            "--algorithm.sgd.lr",
            0.05,
            "--model.hidden",
            "16,8",
            "--out",
            tmp_path / "a",
            "--json",
        )
        == 0
    )
    sums.append(json.loads(capsys.readouterr().out)["checksum"])
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert config["algorithm"]["head_epochs"] == 3
    assert config["algorithm"]["sgd"]["lr"] == 0.05
    assert config["model"]["hidden"] == [16, 8]
    assert call("run", tmp_path / "a" / "config.toml", "--out", tmp_path / "b", "--json") == 0
    sums.append(json.loads(capsys.readouterr().out)["checksum"])
    assert sums[0] == sums[1]


def test_flags_change_what_a_file_says(tmp_path, capsys):
    (tmp_path / "c.toml").write_text(
        'rounds = 5\nclients = 6\n[algorithm]\nname = "fedavg"\nepochs = 2\n[engine]\nworkers = 1\n'
    )
    assert (
        call("run", tmp_path / "c.toml", "--rounds", 1, "--algorithm.batch", 7, "--out", tmp_path / "run", "--json")
        == 0
    )
    assert json.loads(capsys.readouterr().out)["rounds"] == 1
    algorithm = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["algorithm"]
    assert (algorithm["epochs"], algorithm["batch"]) == (2, 7)


def test_resume_needs_no_other_flag_and_can_add_rounds(tmp_path, capsys):
    arguments = [*SMALL, "--algorithm", "fedrep"]
    assert call(*arguments, "--rounds", 6, "--out", tmp_path / "whole", "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    assert call(*arguments, "--rounds", 3, "--out", tmp_path / "part") == 0
    capsys.readouterr()
    assert call("run", "--resume", "--out", tmp_path / "part", "--rounds", 6, "--json") == 0
    assert json.loads(capsys.readouterr().out)["checksum"] == whole["checksum"]


@pytest.mark.parametrize(("flags", "words"), [
    (["--algorithm", "fedrap"], ["unknown algorithm", "fedrap", "did you mean 'fedrep'?"]),
    (["--data", "digit"], ["unknown data", "did you mean 'digits'?"]),
    (["--model", "mpl"], ["unknown model", "did you mean 'mlp'?"]),
    (["--partition", "class:3"], ["unknown partition", "did you mean 'classes'?"]),
    (["--partition", "classes:11"], ["more classes per client than there are", "11", "1 to 10"]),
    (["--partition", "classes:x"], ["partition classes.per_client", "'x'", "integer"]),
    (["--participation", "0"], ["participation", "'0'", "greater than 0"]),
    (["--participation", "2"], ["participation", "'2'", "less than or equal to 1"]),
    (["--cohort", "7"], ["more clients a round than there are", "7", "1 to 6"]),
    (["--clients", "100000"], ["more clients than training samples", "100000"]),
    (["--rounds", "0"], ["rounds", "greater than or equal to 1"]),
    (["--rounds", "many"], ["rounds", "'many'", "integer"]),
    (["--engine", "warp"], ["engine.mode", "'warp'", "'auto', 'loop' or 'stacked'"]),
    (["--algorithm.sgd.lr", "-1"], ["algorithm.sgd.lr", "'-1'", "greater than 0"]),
    (["--algorithm.momentum", "0.9"], ["No such option", "--algorithm.momentum"]),
    (["--evaluate.model", "personal"], ["fedavg has no such model", "personal", "global, local"]),
    (["--finetune", "nose:3"], ["finetune", "nose:3", "head:EPOCHS"]),
    (["--finetune", "head:3", "--evaluate.who", "new"], ["no new clients", "--new-clients 0.2"]),
    (["--new-clients", "0.4", "--evaluate.who", "new", "--evaluate.model", "local"], ["no local model"]),
    (["--new-clients", "9"], ["no such number of new clients"]),
    (["--new-data", "digits"], ["new_clients: how many new clients of digits?", "1 or more"]),
    (["--class-weights", "rare"], ["class_weights", "'rare'", "'none', 'balanced' or 'client'"]),
    (["--metric", "rmse"], ["rmse is not for classification", "regression"]),
    (["--no-such-flag"], ["No such option", "--no-such-flag"]),
    (["nowhere.toml"], ["nowhere.toml is not there"]),
])  # fmt: skip
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, capsys, flags, words):
    line = error_of(capsys, *SMALL, "--out", tmp_path / "run", *flags)
    assert all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


def test_new_clients_and_fine_tuning_are_reported(tmp_path, capsys):
    arguments = [*SMALL, "--clients", "10", "--new-clients", "0.2", "--finetune", "head:3", "--finetune.lr", "0.1"]
    assert call(*arguments, "--out", tmp_path / "run", "--json") == 0
    final = json.loads(capsys.readouterr().out)["final"]
    assert [(f["model"], f["who"], f["clients"]) for f in final] == [
        ("finetuned", "all", 8), ("global", "new", 2), ("finetuned", "new", 2),
    ]  # fmt: skip
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["finetune"] | {"scope": "head", "epochs": 3, "lr": 0.1} == config["finetune"]
    assert call(*arguments, "--out", tmp_path / "again") == 0
    assert "new clients" in capsys.readouterr().out
    assert call(*arguments, "--validation", "0.2", "--evaluate.split", "validation", "--out", tmp_path / "third") == 0


def test_all_metrics_of_the_task_are_shown_with_their_spread(tmp_path, capsys):
    assert call(*SMALL, "--out", tmp_path / "run", "--class-weights", "client", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["metrics"])[:4] == ["accuracy", "loss", "balanced_accuracy", "auc"]
    assert facts["evaluation"]["auc"] == facts["metrics"]["auc"]
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["class_weights"] == "client"
    assert call("run", "--resume", "--out", tmp_path / "run") == 0
    shown = {tuple(line.split()) for line in capsys.readouterr().out.splitlines()}
    spread, worst = (facts["evaluation"][f"auc_{what}"] for what in ("std", "worst_decile"))
    words = f"AUC {facts['metrics']['auc']:.4f} (spread {spread:.4f}, worst tenth {worst:.4f})"
    assert tuple(words.split()) in shown


def test_where_a_metric_is_not_defined_is_shown(tmp_path, capsys):
    assert call(*SMALL[:3], "--partition", "classes:1", *SMALL[5:], "--out", tmp_path / "run") == 0
    assert "(defined at 0 of 6 clients)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("toml", "words"), [
    ("roundz = 3", ["unknown setting", "roundz", "did you mean 'rounds'?"]),
    ('[algorithm]\nname = "fedrep"\nhead_epoch = 3', ["algorithm", "head_epoch", "did you mean 'head_epochs'?"]),
    ('[algorithm.sgd]\nlr = 0', ["algorithm.sgd.lr", "greater than 0"]),
    ("rounds = [", ["not valid TOML"]),
    ("participation = 2.0", ["participation", "given 2.0"]),
    ('[data]\nname = "linear-tasks"\n', ["comes with its clients"]),
])  # fmt: skip
def test_a_bad_file_is_one_line_that_names_the_spot(tmp_path, capsys, toml, words):
    (tmp_path / "c.toml").write_text(toml)
    flags = ["--partition", "iid"] if "linear-tasks" in toml else []
    line = error_of(capsys, "run", tmp_path / "c.toml", "--out", tmp_path / "run", *flags)
    assert all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


def test_writers_need_their_files(tmp_path, capsys, monkeypatch):
    """MNIST without QMNIST's labels: the error names them."""
    import gzip
    import struct

    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for part, n in (("train", 30), ("t10k", 20)):
        images = struct.pack(">IIII", 0x803, n, 28, 28) + bytes(n * 784)
        labels = struct.pack(">II", 0x801, n) + bytes(i % 10 for i in range(n))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    for data in ("mnist", folder):  # by name, or a folder of that name
        line = error_of(capsys, "run", "--data", data, "--partition", "writer", "--out", tmp_path / "run")
    assert "qmnist-train-labels-idx2-int.gz" in line


def test_an_existing_folder_is_refused(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("mine")
    assert "exists already" in error_of(capsys, *SMALL, "--out", tmp_path / "run")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["precious.txt"]


def test_resuming_what_is_not_there_is_refused(tmp_path, capsys):
    for more in ([], ["--rounds", 60, "--algorithm", "fedrep"]):
        assert "holds no run to resume" in error_of(capsys, "run", "--resume", "--out", tmp_path / "typo", *more)
        assert not (tmp_path / "typo").exists()
    assert "--resume needs --out" in error_of(capsys, "run", "--resume")


def test_a_corrupt_checkpoint_is_told_and_survived(tmp_path, capsys):
    arguments = [*SMALL, "--checkpoint-seconds", "0", "--out", tmp_path / "run"]
    assert call(*arguments, "--rounds", 4) == 0
    (tmp_path / "run" / "checkpoint" / "round-00000004.safetensors").write_bytes(b"x")
    capsys.readouterr()
    assert call(*arguments, "--rounds", 5, "--resume", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rounds"] == 5
    assert "round-00000004" in err
    assert "falling back" in err


def test_algorithms_are_listed_by_a_process_that_does_nothing_else():
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", "algorithms", "fedrep"], capture_output=True, text=True, check=True
    )
    assert "--algorithm.server.kind" in done.stdout


def test_algorithms_are_listed(capsys):
    assert call("algorithms", "--json") == 0
    listed = {a["name"]: a for a in json.loads(capsys.readouterr().out)["algorithms"]}
    assert listed.keys() >= {"fedavg", "dsgd", "fedrep", "local"}
    assert all(a["paper"] and a["travels"] and a["stays"] and a["parameters"] for a in listed.values())
    assert call("algorithms") == 0
    assert "the head" in capsys.readouterr().out
    assert call("algorithms", "fedrep") == 0
    assert "--algorithm.head-epochs" in capsys.readouterr().out
    assert "did you mean 'fedrep'" in error_of(capsys, "algorithms", "fedrip")


def test_help_teaches_the_flags_of_the_method_that_is_named(capsys):
    assert call("run", "--algorithm", "fedrep", "--help") == 0
    text = capsys.readouterr().out
    assert "--algorithm.head-epochs" in text
    assert "--algorithm.sgd.lr" in text
    assert call("--help") == 0
    assert "algorithms" in capsys.readouterr().out
    assert call("--version") == 0


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path):
    """A real terminal: the bar is drawn, Ctrl-C stops it, and the command that it names goes on."""
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-c",
        "from manyheads.cli import main; main()",
        *SMALL,
        "--rounds",
        "100000",
        "--checkpoint-seconds",
        "0",
        "--workers",
        "2",
        "--out",
        str(out),
    ]
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, start_new_session=True) as process:
        os.close(slave)
        until(lambda: process.poll() is not None or len(list(out.glob("checkpoint/round-*"))) == 2)
        os.killpg(process.pid, signal.SIGINT)
        shown = all_shown(master)
    assert process.returncode == 130, shown
    assert "rounds/s" in shown
    assert "accuracy" in shown
    assert f"manyheads run --resume --out {out}" in shown.replace("\r\n", "")
    saved = max(int(p.stem[6:]) for p in Path(out / "checkpoint").glob("round-*"))
    resumed = [
        sys.executable,
        "-c",
        "from manyheads.cli import main; main()",
        "run",
        "--resume",
        "--out",
        str(out),
        "--rounds",
        str(saved + 2),
        "--json",
    ]
    facts = json.loads(subprocess.run(resumed, capture_output=True, text=True, check=True).stdout)
    assert facts["rounds"] == saved + 2
