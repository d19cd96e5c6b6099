"""Configurations in files: what is read, what is refused, and what a run's configuration builds again."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from manyheads import Evaluate, FedRep, FineTune, UserError
from manyheads.core.errors import Damaged
from manyheads.core.sealed import write_toml
from manyheads.core.settings import as_dict
from manyheads.data import Classes, Digits, federate
from manyheads.engines.engine import Engine
from manyheads.models import MLP, build_model
from manyheads.run import Training
from manyheads.run.config_file import COMPARISON, RUN, RunConfig, read_kept_settings, read_run_config, read_settings

FEDERATION = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
TRAINING = Training(rounds=3, seed=7, finetune=FineTune(scope="head", epochs=2))
SPEC = MLP(hidden=(8,))
MADE = {"data": {"name": "digits", "path": "here"}, "model": {"name": "mlp", **as_dict(SPEC)}, "partition": "classes:3"}


def config(training=TRAINING, algorithm=None, **made):
    return RunConfig.of(algorithm or FedRep(head_epochs=2), FEDERATION, training, MADE | made)


def test_what_a_run_keeps_is_read_as_it_was_written_and_builds_the_same_things(tmp_path):
    config().write(tmp_path)
    found = read_run_config(tmp_path)
    assert found == config()
    assert found.training("") == TRAINING
    assert found.algorithm("") == FedRep(head_epochs=2)
    same = build_model(SPEC, FEDERATION.sample_shape, FEDERATION.outputs, 7, str(FEDERATION.train.x.dtype))
    for name, value in found.model("").params.all.items():
        assert value.equal(same.params.all[name])


def test_a_user_s_file_may_be_one_that_a_run_kept_and_was_changed_since(tmp_path):
    config().write(tmp_path)
    file = tmp_path / RUN
    file.write_text(file.read_text().replace("seed = 7", "seed = 8"))
    assert read_settings(file) == config(replace(TRAINING, seed=8)).settings
    with pytest.raises(Damaged, match=r"config\.toml is damaged"):
        read_kept_settings(file)


def test_a_resume_may_change_rounds_checkpoints_workers_and_the_place_of_the_data():
    other = replace(TRAINING, rounds=9, checkpoint_seconds=1.0, engine=Engine(workers=2))
    now = config(other, data={"name": "digits", "path": "there"})
    config().require_same(now)
    assert config().resumed_as(now) == now


def test_a_run_that_is_older_than_a_setting_has_its_default():
    evaluate = {k: v for k, v in config().settings["evaluate"].items() if k != "metrics"}
    older = replace(config(), settings=config().settings | {"evaluate": evaluate})
    older.require_same(config())
    with pytest.raises(UserError, match="evaluate is not what this run was started with"):
        older.require_same(config(replace(TRAINING, evaluate=Evaluate(metrics=("accuracy",)))))
    older = replace(config(), settings={k: v for k, v in config().settings.items() if k != "class_weights"})
    older.require_same(config())


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (config(replace(TRAINING, seed=8)), "seed"),
        (config(replace(TRAINING, engine=Engine(mode="loop"))), "engine"),
        (config(replace(TRAINING, class_weights="client")), "class_weights"),
        (config(algorithm=FedRep(head_epochs=3)), "algorithm"),
        (config(data={"name": "other"}), "data"),
        (config(partition="iid"), "partition"),
        (replace(config(), facts=replace(config().facts, fingerprint="x")), "facts"),
    ],
)
def test_a_resume_may_change_nothing_else(now, name):
    with pytest.raises(UserError, match=f"resume: {name} is not what this run was started with"):
        config().require_same(now)


def test_data_and_models_given_as_objects_must_be_given_again():
    found = RunConfig.of(FedRep(), FEDERATION, TRAINING, {})
    assert found.settings["data"] == found.settings["model"] == {"name": "custom"}
    with pytest.raises(UserError, match="here was made with a model of your own; give it again"):
        found.model("here")


@pytest.mark.parametrize("lacks", ["algorithm", "model", "data", "engine", "facts", "rounds"])
def test_a_whole_file_of_something_else_is_not_taken_for_a_run(tmp_path, lacks):
    write_toml(tmp_path / RUN, {k: v for k, v in config().table.items() if k != lacks})
    with pytest.raises(Damaged, match="is not that of a run"):
        read_run_config(tmp_path)


def test_facts_of_the_wrong_kind_are_named(tmp_path):
    table = config().table
    write_toml(tmp_path / RUN, table | {"facts": table["facts"] | {"clients": "many"}})
    with pytest.raises(UserError, match="facts.clients: bad value; given 'many'"):
        read_run_config(tmp_path)


def test_what_to_do_about_damage_is_told_in_the_words_of_the_command(tmp_path):
    for name, command in ((RUN, "manyheads run FILE"), (COMPARISON, "manyheads compare FILE")):
        (tmp_path / name).write_text("rounds = 3\n")
        with pytest.raises(Damaged, match=f"has no seal .*{command} --out NEW"):
            read_kept_settings(tmp_path / name)


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    (tmp_path / "latin.toml").write_bytes("a = 'é'".encode("latin-1"))
    for name, words in (("nowhere.toml", "is not there"), (".", "cannot be read"), ("latin.toml", "cannot be read")):
        with pytest.raises(UserError, match=f"config: .*{words}"):
            read_settings(tmp_path / name)
    with pytest.raises(UserError, match="is not a run directory"):
        read_run_config(tmp_path)


def test_other_readers_see_plain_toml(tmp_path):
    config().write(tmp_path)
    assert tomllib.loads((tmp_path / RUN).read_text()) == {"schema": 1, **config().table}
