"""Run directories: refused, resumed, damaged, on a full disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from problems import ragged, small_net

from manyheads import FedAvg, FedRep, UserError, load, simulate
from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.sealed import write_toml

FEDREP = FedRep(head_epochs=2)


def start(out: Path, rounds: int, **more):
    from manyheads import Model
    from manyheads.run import run_training
    from manyheads.run.training import Training

    training = Training(rounds=rounds, participation=0.5, checkpoint_seconds=0.0)
    config = {"data": {"name": "custom"}, "model": {"name": "custom"}}
    return run_training(FEDREP, Model(small_net()), ragged(), training, config, out, **more)


def test_resume_goes_on_to_the_same_numbers(tmp_path):
    whole = start(tmp_path / "whole", 8)
    start(tmp_path / "part", 3)
    assert start(tmp_path / "part", 8, resume=True).checksum == whole.checksum


def test_an_existing_folder_is_not_overwritten(tmp_path):
    simulate(FedAvg(), small_net(), ragged(), rounds=1, out=tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="exists already.*--resume"):
        simulate(FedAvg(), small_net(), ragged(), rounds=1, out=tmp_path / "run")
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_corrupt_checkpoint_falls_back_to_the_one_before(tmp_path, damage):
    whole = start(tmp_path / "whole", 8)
    start(tmp_path / "run", 5)
    folder = tmp_path / "run" / "checkpoint"
    assert rounds_on_disk(folder) == [5, 4]
    newest = folder / "round-00000005.safetensors"
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[-7] ^= 1
    newest.write_bytes({"truncate": content[: len(content) // 2], "empty": b""}.get(damage, content))
    said: list[str] = []
    resumed = start(tmp_path / "run", 8, resume=True, say=said.append)
    assert resumed.checksum == whole.checksum
    assert len(said) == 1
    assert "round-00000005" in said[0]
    assert "falling back" in said[0]


def test_a_damaged_personal_state_falls_back_too(tmp_path):
    whole = start(tmp_path / "whole", 8)
    start(tmp_path / "run", 5)
    store = tmp_path / "run" / "checkpoint" / "personal.safetensors"
    run = load(tmp_path / "run", model=small_net())
    client = run.history[-1]["cohort"][0]
    place = run._store.file._offset(client, int(run._store.slot[client]))
    with store.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))
    said: list[str] = []
    assert start(tmp_path / "run", 8, resume=True, say=said.append).checksum == whole.checksum
    assert f"client {client}" in said[0]


def test_no_readable_checkpoint_is_an_error_that_touches_nothing(tmp_path):
    start(tmp_path / "run", 3)
    for file in (tmp_path / "run" / "checkpoint").glob("round-*"):
        file.write_bytes(b"rubbish")
    with pytest.raises(UserError, match="no checkpoint .* can be used"):
        start(tmp_path / "run", 8, resume=True)
    assert len(list((tmp_path / "run" / "checkpoint").glob("round-*"))) == 2


def test_a_newer_schema_is_refused(tmp_path):
    start(tmp_path / "run", 2)
    file = tmp_path / "run" / "config.toml"
    write_toml(file, {**tomllib.loads(file.read_text()), "schema": 99})
    for attempt in (lambda: load(tmp_path / "run", model=small_net()), lambda: start(tmp_path / "run", 4, resume=True)):
        with pytest.raises(UserError, match="newer manyheads; given 'schema 99'.*upgrade"):
            attempt()


def test_another_setting_or_other_data_is_refused_on_resume(tmp_path):
    out = tmp_path / "run"
    simulate(FedAvg(), small_net(), ragged(), rounds=2, out=out)
    with pytest.raises(UserError, match="algorithm is not what this run was started with"):
        simulate(FedAvg(epochs=3), small_net(), ragged(), rounds=4, out=out, resume=True)
    with pytest.raises(UserError, match="facts is not what"):
        simulate(FedAvg(), small_net(), ragged(sizes=(5, 6, 7)), rounds=4, out=out, resume=True)
    assert simulate(FedAvg(), small_net(), ragged(), rounds=4, out=out, resume=True).rounds == 4


def test_two_processes_cannot_share_a_run(tmp_path):
    start(tmp_path / "run", 2)
    code = f"import fcntl; f = open({str(tmp_path / 'run' / '.lock')!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(UserError, match="in use by another process"):
            start(tmp_path / "run", 3, resume=True)
        other.stdin.close()
    assert start(tmp_path / "run", 3, resume=True).rounds == 3


@pytest.mark.parametrize("limit", [600, 6_000])
def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path, limit):
    """Files may not grow beyond a limit, so that writing fails as on a full disk; with space again, the run goes on."""
    whole = start(tmp_path / "whole", 8)
    start(tmp_path / "run", 2)
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with pytest.raises(UserError, match="cannot write .*--resume"):
            start(tmp_path / "run", 8, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert start(tmp_path / "run", 8, resume=True).checksum == whole.checksum


def test_machine_facts_are_recorded(tmp_path):
    start(tmp_path / "run", 1)
    facts = json.loads((tmp_path / "run" / "machine.json").read_text())
    assert facts["cores"] == os.cpu_count()
    assert facts["packages"].keys() >= {"manyheads", "torch", "numpy"}


def test_killed_while_the_first_file_was_being_written(tmp_path):
    """Half a config.toml under its temporary name, and nothing else, is no run yet: a resume starts it."""
    out = tmp_path / "run"
    (out / "checkpoint").mkdir(parents=True)
    (out / ".config.toml.123.tmp").write_text("schema =")
    assert simulate(FedAvg(), small_net(), ragged(), rounds=1, out=out, resume=True).rounds == 1
    assert not list(out.glob(".config.toml.*"))
