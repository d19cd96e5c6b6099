"""The runs of a comparison: what is damaged is said and done again, and outcomes are of the rounds that were asked for."""

from __future__ import annotations

import shutil

import pytest

from manyheads.data import Classes, Digits, federate
from manyheads.experiments import compare


def compared(out, rounds=2, **more):
    federation = federate(Digits().pool(0), Classes(3), clients=4, seed=0)
    return compare(federation, methods=["fedavg"], rounds=rounds, seeds=1, rates=[0.1], out=out, **more)


def numbers(facts):
    return {name: (m["accuracy"], m["per_seed"], m["curve"]) for name, m in facts["methods"].items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "whole"
    return out, compared(out)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("outcomes-plain.safetensors", "the models are tried again"),
        ("history.jsonl", "falling back to round 1|that run is done again"),
        ("config.toml", "that run is done again"),
        ("checkpoint/round-00000002.safetensors", "falling back|done again"),
    ],
)
def test_damage_is_said_and_done_again(whole, tmp_path, file, said):
    out = shutil.copytree(whole[0], tmp_path / "out")
    path = out / "runs" / "fedavg-lr0.1-s0" / file
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 1
    path.write_bytes(raw)
    with pytest.warns(UserWarning, match=said):
        found = compared(out, resume=True)
    assert numbers(found) == numbers(whole[1])


def test_more_rounds_are_judged_anew(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    with pytest.warns(UserWarning, match="is of other round than it should be"):
        more = compared(out, rounds=4, resume=True)
    fresh = compared(tmp_path / "fresh", rounds=4)
    for name, method in fresh["methods"].items():
        assert more["methods"][name]["per_seed"] == method["per_seed"]
