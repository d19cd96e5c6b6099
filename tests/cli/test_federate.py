"""The commands of ``federate`` that need no server: what they write, what they print, what they refuse."""

from __future__ import annotations

import json

import pytest
from commands import call
from federations import tables

from manyheads.federate.kit import Kit
from manyheads.federate.processes import free_port
from manyheads.federate.serve import site
from manyheads.federate.study import StudyFolder


@pytest.fixture
def study(tmp_path, capsys):
    address = f"127.0.0.1:{free_port()}"
    words = ["--sites", "ash,birch", "--address", address, "--label", "label", "--rounds", "2", "--min-count", "3"]
    assert call("federate", "init", str(tmp_path / "study"), *words, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["kits"]) == ["ash", "birch"]
    return tmp_path / "study"


def test_a_study_is_made_and_a_site_added(study, capsys):
    made = StudyFolder(study).read()
    assert (made.sites, made.training.rounds, made.data["label"]) == (("ash", "birch"), 2, "label")
    assert Kit(study / "kits" / "ash").read().policy.min_count == 3
    text = (study / "study.toml").read_text().replace("rounds = 2", "rounds = 7  # as agreed")
    (study / "study.toml").write_text(text)
    assert call("federate", "add", str(study), "cedar", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sites"] == ["ash", "birch", "cedar"]
    assert "rounds = 7  # as agreed" in (study / "study.toml").read_text()
    assert call("federate", "add", str(study), "cedar") == 2
    assert "has this site already" in capsys.readouterr().err


def test_a_folder_that_is_no_study_or_no_kit_is_named(tmp_path, capsys):
    for words in (["status", str(tmp_path)], ["run", str(tmp_path)], ["add", str(tmp_path), "x"]):
        assert call("federate", *words) == 2
        assert "holds no study; make one: manyheads federate init" in capsys.readouterr().err
    assert call("federate", "site", str(tmp_path), "--data", str(tmp_path / "a.csv")) == 2
    assert "is no kit" in capsys.readouterr().err


def test_without_a_server_commands_say_so(study, capsys):
    assert call("federate", "run", str(study)) == 2
    assert "start it: manyheads federate server" in capsys.readouterr().err
    assert call("federate", "status", str(study), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["server"] is False
    assert [each["status"] for each in facts["sites"]] == ["not connected", "not connected"]
    assert call("federate", "compare", str(study), "--resume") == 2
    assert "no compare to go on with" in capsys.readouterr().err


def test_a_check_gives_a_line_for_everything(study, tmp_path, capsys):
    data = tables(tmp_path / "data", ("ash",))
    kit = study / "kits" / "ash"
    assert call("federate", "check", str(kit), "--data", str(data / "ash.csv"), "--json") == 2
    facts = json.loads(capsys.readouterr().out)
    failed = [each["what"] for each in facts["checks"] if not each["ok"]]
    assert failed == ["server"]
    assert call("federate", "check", str(kit), "--data", str(data / "none.csv")) == 2
    assert "NOT  table" in capsys.readouterr().out


def test_a_site_without_its_key_or_its_table_does_not_start(study, tmp_path):
    data = tables(tmp_path / "data", ("ash",))
    kit = Kit(study / "kits" / "ash")
    with pytest.raises(ValueError, match="none.csv is not there"), site(kit, data / "none.csv", print):
        pass
    kit.key.unlink()
    with pytest.raises(ValueError, match="make one: ssh-keygen"), site(kit, data / "ash.csv", print):
        pass


def test_bad_settings_of_a_study_are_refused(tmp_path, capsys):
    for words, why in (
        (["--sites", "a b"], "not a name of a site"),
        (["--sites", "a,a"], "two sites have the same name"),
        (["--sites", "a,b", "--address", "nowhere"], "not an address"),
        (["--sites", ","], "no site is named"),
    ):
        assert call("federate", "init", str(tmp_path / "s"), *words) == 2
        assert why in capsys.readouterr().err
        assert not (tmp_path / "s").exists()
