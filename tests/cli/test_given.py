"""Whatever a command line says is used or refused: nothing that was given is lost."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from commands import call, error_of, facts_of

from manyheads.cli.compare import compare_flags
from manyheads.cli.describe import describe_flags
from manyheads.cli.flags import given_position
from manyheads.cli.run import run_flags
from manyheads.core import settings
from manyheads.experiments.compare import Comparison

QUICK = ["--rounds", 2, "--seeds", 1, "--rates", 0.1, "--methods", "fedavg", "--workers", 1]
QUICK += ["--folds", 2, "--baselines", "majority", "--local-rounds", 2]


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Three sites whose label has none of the usual names, in a folder ``my_sites`` of the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("leeds", "turin", "oslo"):
        rows = [f"{a:.3f},{b:.3f},{'AB'[int(b > 0)]},{int(a + b > 0)}" for a, b in rng.normal(size=(40, 2))]
        write(tmp_path / "my_sites" / f"{name}.csv", ["age,dose,ward,outcome", *rows])
    return tmp_path / "my_sites"


def write(path, lines) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))


class Seen(BaseException):
    """A command has settled what to do. No error: it must not be told as one."""


def said(monkeypatch, *arguments: object) -> dict[str, Any]:
    """The table that a command builds its settings from."""
    whole: dict[str, Any] = {}

    def build(cls, values, *, where):
        if where == "compare":
            whole["compare"] = values
            return Comparison()
        if "data" not in values:  # the defaults that --help shows
            return settings.build(cls, values, where=where)
        whole.update(values)
        raise Seen

    for command in ("run", "compare", "describe"):
        monkeypatch.setattr(sys.modules[f"manyheads.cli.{command}"], "build", build)
    with pytest.raises(Seen):
        call(*arguments)
    return whole


def example(flag) -> str:
    """A value for a flag, unlike its default."""
    special = {"methods": "fedrep", "partition": "classes:2", "monitor": "drift", "scope": "head"}
    if flag.path[-1] in special:
        return special[flag.path[-1]]
    return str(get_args(flag.kind)[-1]) if get_origin(flag.kind) is Literal else "7"


COMMANDS = {
    "compare PATH": (["compare", "my_sites"], compare_flags),
    "compare FLAGS PATH": (["compare", "--rounds", "3", "my_sites"], compare_flags),
    "compare --data": (["compare", "--data", "my_sites"], compare_flags),
    "compare FILE": (["compare", "file.toml"], compare_flags),
    "run --data": (["run", "--data", "my_sites", "--algorithm", "fedrep"], run_flags),
    "run FILE": (["run", "file.toml"], run_flags),
    "data describe": (["data", "describe", "--data", "my_sites"], describe_flags),
}


@pytest.mark.parametrize("words", COMMANDS)
def test_every_flag_arrives_and_none_pushes_out_another(words, sites, monkeypatch):
    """All flags of a command, each given once, beside data that is named in every way."""
    (sites.parent / "file.toml").write_text('[data]\nname = "sites"\npath = "my_sites"\nlabel = "age"\n')
    command, flags_of = COMMANDS[words]
    named = {("data", "name"), ("data", "path"), ("algorithm", "name"), ("model", "name"), ("rounds",)}
    flags = [f for f in flags_of(command) if f.path not in named]
    assert ("data", "label") in {f.path for f in flags}
    table = said(monkeypatch, *command, *(word for f in flags for word in (f.option, example(f))))
    assert table["data"]["name"] == "sites"
    assert table["data"]["path"] == "my_sites"
    for flag in flags:
        found = table
        for key in flag.path:
            found = found[key]
        assert found in (example(flag), [example(flag)]), flag.option


def test_the_headline_command_on_a_label_of_any_name(sites, capsys):
    facts = facts_of(capsys, "compare", *QUICK, "my_sites", "--data.label", "age", "--out", "c")
    assert facts["settings"]["data"]["label"] == "age"
    assert facts["data"]["task"] == "regression"


def test_the_word_that_is_no_option_is_found_wherever_it_stands():
    assert given_position(["compare", "--rounds", "3", "a", "--json"]) == "a"
    assert given_position(["--debug", "compare", "--json", "a"]) == "a"
    assert given_position(["compare", "--data=b", "a"]) == "a"
    assert given_position(["compare", "--out", "a"]) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compare", "my_sites", "--data", "digits"], "data: two names; given 'my_sites and digits'"),
        (["compare", "my_sites", "--data.path", "other"], "data: two places; given 'my_sites and other'"),
        (["run", "--data", "my_sites", "--data.path", "other"], "data: two places"),
        (["compare", "digits", "--finetune.lr", 0.5], "--finetune.lr"),
        (["run", "--finetune", "head:10", "--finetune.epochs", 5], "finetune: two amounts"),
        (["run", "--finetune", "head:10", "--finetune.steps", 5], "finetune: two amounts"),
        (["run", "--live-port", 0], "live-port: is for --live"),
        (["run", "--data", "my_sites", "--data.label", "outcome", "--new-data", "digits"], "new_data"),
        (["report", "my_sites", "--format", "svg"], "format: is for --figures"),
        (["theory", "--seeds", 2], "seeds: is for a paper"),
        (["theory", "--figure", "a.svg"], "figure: is for a paper"),
        (["data", "check", "my_sites", "--data.path", "other"], "--data.path"),
    ],
)
def test_what_would_have_no_effect_is_refused(words, told, sites, capsys):
    assert told in error_of(capsys, *words)
    assert not (sites.parent / "runs").exists()


@pytest.mark.parametrize(
    "line",
    [
        "validation = 0.3",
        "new_clients = 1",
        '[algorithm]\nname = "ditto"',
        "[evaluate]\nevery = 5",
        "[finetune]\nlr = 1",
    ],
)
def test_settings_of_a_single_run_are_refused_by_a_comparison(line, sites, capsys):
    (sites.parent / "file.toml").write_text(f"{line}\n")
    assert "is of a run, not of a comparison" in error_of(capsys, "compare", "file.toml", "--out", "c")


def test_a_file_given_beside_resume_is_not_pushed_out_by_the_run(sites, capsys):
    assert call("run", "--rounds", 1, "--clients", 4, "--out", "a") == 0
    (sites.parent / "file.toml").write_text('[algorithm]\nname = "ditto"\n')
    assert "is not what this run was started with" in error_of(capsys, "run", "file.toml", "--resume", "--out", "a")


# -- from another folder -----------------------------------------------------------------------------------------------


def test_a_comparison_goes_on_and_is_repeated_from_any_folder(sites, capsys, monkeypatch):
    first = facts_of(capsys, "compare", "my_sites", "--data.label", "outcome", *QUICK, "--out", "c")
    page = (sites.parent / "c" / "report.html").read_text()
    again = page.partition("manyheads compare ")[2].partition("<")[0].strip()
    elsewhere = sites.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    more = facts_of(capsys, "compare", "--resume", "--out", "../c", "--methods", "fedavg,fedper")
    assert more["methods"]["fedavg"] == first["methods"]["fedavg"]
    repeated = facts_of(capsys, "compare", again, "--out", "d")
    assert repeated["methods"]["fedavg"]["per_seed"] == first["methods"]["fedavg"]["per_seed"]


def test_a_run_goes_on_and_is_repeated_from_any_folder(sites, capsys, monkeypatch):
    words = ["--data", "my_sites", "--data.label", "outcome"]
    assert call("run", *words, "--rounds", 2, "--out", "a") == 0
    whole = facts_of(capsys, "run", *words, "--rounds", 3, "--out", "b")
    elsewhere = sites.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert facts_of(capsys, "run", "--resume", "--out", "../a", "--rounds", 3)["checksum"] == whole["checksum"]
    assert facts_of(capsys, "run", "../b/config.toml", "--out", "c")["checksum"] == whole["checksum"]


def test_data_that_was_moved_is_said_and_can_be_named_anew(sites, capsys):
    first = facts_of(capsys, "compare", "my_sites", "--data.label", "outcome", *QUICK, "--out", "c")
    assert call("run", "--data", "my_sites", "--data.label", "outcome", "--rounds", 1, "--out", "a") == 0
    shutil.move(sites, sites.parent / "moved")
    for words in (["compare", "--resume", "--out", "c"], ["run", "--resume", "--out", "a", "--rounds", 2]):
        error = error_of(capsys, *words)
        assert f"the data were in {sites}, which is not there" in error
        assert "--data.path" in error
    assert f"{sites}, which is not there" in error_of(capsys, "run", "a/config.toml", "--out", "b")
    for place in (["--data.path", "moved"], ["--data", "moved"]):
        facts = facts_of(capsys, "compare", "--resume", "--out", "c", *place)
        assert facts["methods"] == first["methods"]
        assert json.loads((sites.parent / "c" / "compare.json").read_text())["methods"] == first["methods"]
        assert facts_of(capsys, "run", "--resume", "--out", "a", "--rounds", 2, *place)["rounds"] == 2


def test_flags_of_what_is_not_there_are_told_by_its_name(sites, capsys):
    """The flags of data that cannot be found are not known either, but that is not the mistake."""
    told = error_of(capsys, "compare", "my_site", "--data.label", "outcome")
    assert "no such folder" in told
    assert "did you mean 'my_sites'?" in told
    assert "no such folder" in error_of(capsys, "run", "--data", "my_site", "--data.label", "outcome")
    assert "did you mean 'fedrep'?" in error_of(capsys, "run", "--algorithm", "fedrap", "--algorithm.head-epochs", 3)
    assert "did you mean 'mlp'?" in error_of(capsys, "run", "--model", "mpl", "--model.hidden", 3)
    assert "No such option: --data.lable" in error_of(capsys, "compare", "my_sites", "--data.lable", "outcome")
