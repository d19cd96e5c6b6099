"""Settings are checked wherever they come from, documented, and the same after a trip through TOML."""

import dataclasses
import tomllib
from functools import reduce
from typing import Literal, get_args, get_origin

import pytest
import tomli_w

from manyheads import SGD, FedRep, UserError, settings
from manyheads.core.contract import ALGORITHMS
from manyheads.core.settings import as_dict, build, walk
from manyheads.data import PARTITIONERS, SOURCES, Mixture
from manyheads.models import MLP, MODELS
from manyheads.run.config import Config
from manyheads.run.training import Training

METHODS = [pytest.param(cls, id=name) for name, cls in ALGORITHMS.items()]
ALL = [*METHODS, *(pytest.param(c, id=c.__name__) for c in (Config, Training, *MODELS.values(), *SOURCES.values(), *PARTITIONERS.values()))]  # fmt: skip


def other_value(setting):
    """A value that differs from the default, or None where the type is not a simple one."""
    if get_origin(setting.type) is Literal:
        return next((v for v in get_args(setting.type) if v != setting.default), None)
    if isinstance(setting.default, bool):
        return not setting.default
    return {int: lambda v: v + 1, float: lambda v: v / 2 + 0.11}.get(type(setting.default), lambda v: None)(
        setting.default
    )


def variants(cls):
    """The default, and one for each leaf that a simple other value can be given to."""
    yield cls()
    for setting in walk(cls):
        value = other_value(setting)
        if value is not None:
            table = reduce(lambda inner, key: {key: inner}, reversed(setting.path), value)
            if setting.path[0] == "server":  # has no default of its own, and none of its optimizer
                table["server"] = {"kind": "adam"} | table["server"]
            yield build(cls, table, where="variant")


@pytest.mark.parametrize(
    ("make", "where", "given", "allowed"),
    [
        (lambda: SGD(lr=-1), "SGD.lr", "-1", "greater than 0"),
        (lambda: SGD(momentum=1.0), "SGD.momentum", "1.0", "less than 1"),
        (lambda: SGD(lr=float("inf")), "SGD.lr", "inf", "finite"),
        (lambda: SGD(lr=float("nan")), "SGD.lr", "nan", "finite"),
        (lambda: SGD(lr="fast"), "SGD.lr", "'fast'", "number"),
        (lambda: FedRep(batch=2.5), "FedRep.batch", "2.5", "integer"),
        (lambda: FedRep(sgd={"lr": 0}), "FedRep.sgd.lr", "0", "greater than 0"),
        (lambda: FedRep(sgd=3), "FedRep.sgd", "3", "SGD"),
        (lambda: MLP(hidden=[8, 0]), "MLP.hidden.1", "0", "greater than or equal to 1"),
        (lambda: Config(weighting="size"), "Config.weighting", "'size'", "'auto', 'samples' or 'equal'"),
        (lambda: build(SGD, {"lr": -1}, where="mine"), "mine.lr", "-1", "greater than 0"),
        (lambda: build(FedRep, {"sgd": {"momentum": 2}}, where="a.toml"), "a.toml.sgd.momentum", "2", "less than 1"),
        (lambda: build(FedRep, {"head_epochs": "many"}, where="a.toml"), "a.toml.head_epochs", "'many'", "integer"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_where_given_and_allowed(make, where, given, allowed):
    with pytest.raises(UserError) as caught:
        make()
    place, shown, hint = str(caught.value).split("; ", 2)
    assert place == f"{where}: bad value"
    assert shown == f"given {given}"
    assert hint.startswith("allowed: ")
    assert allowed in hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "where", "near"),
    [
        (lambda: FedRep(head_epoch=3), "FedRep", "head_epochs"),
        (lambda: build(FedRep, {"bach": 3}, where="a.toml"), "a.toml", "batch"),
        (lambda: FedRep(sgd={"momentun": 0.1}), "FedRep.sgd", "momentum"),
        (lambda: build(FedRep, {"sgd": {"weight-decay": 0.1}}, where="a.toml"), "a.toml.sgd", "weight_decay"),
    ],
)
def test_an_unknown_setting_is_an_error_with_the_nearest_name(make, where, near):
    with pytest.raises(UserError, match=rf"^{where}: unknown setting; given .*; did you mean '{near}'\?$"):
        make()


def test_an_unknown_setting_like_no_other_lists_the_names_without_a_guess():
    with pytest.raises(UserError) as caught:
        SGD(zzz=1)
    assert str(caught.value) == "SGD: unknown setting; given 'zzz'; allowed: lr, momentum, weight_decay"


def test_strings_from_flags_become_numbers():
    assert build(FedRep, {"batch": "5", "sgd": {"lr": "1e-3"}}, where="flags") == FedRep(batch=5, sgd=SGD(lr=0.001))


def test_settings_are_frozen_and_replace_checks_again():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SGD().lr = 1.0
    assert dataclasses.replace(SGD(), lr=1.0) == SGD(lr=1.0)
    with pytest.raises(UserError, match=r"SGD\.lr"):
        dataclasses.replace(SGD(), lr=-1.0)


@pytest.mark.parametrize("cls", METHODS)
def test_every_algorithm_is_the_same_after_a_trip_through_plain_values_and_toml(cls):
    made = list(variants(cls))
    assert all(a != made[0] for a in made[1:])
    for value in made:
        plain = as_dict(value)
        assert build(cls, plain, where="trip") == value
        assert build(cls, tomllib.loads(tomli_w.dumps(plain)), where="trip") == value


def test_a_whole_configuration_is_the_same_after_a_trip_through_toml():
    for value in variants(Config):
        assert build(Config, tomllib.loads(tomli_w.dumps(as_dict(value))), where="trip") == value


def test_a_field_that_is_none_is_left_out_of_the_plain_values():
    assert as_dict(Mixture(rows=[[1.0]])) == {"rows": [[1.0]]}


@pytest.mark.parametrize("cls", ALL)
def test_every_field_is_documented(cls):
    undocumented = [".".join(s.path) for s in walk(cls) if not s.doc.strip()]
    assert undocumented == []


@pytest.mark.parametrize("cls", [*METHODS, Config, Training])
def test_walk_tells_every_leaf_with_the_default_that_construction_gives(cls):
    plain = as_dict(cls())
    for setting in walk(cls):
        if getattr(cls(), setting.path[0]) is None and len(setting.path) > 1:
            continue  # may be left out as a whole; what is said of it then has the defaults of its own class
        assert reduce(getattr, setting.path, cls()) == setting.default
        table = reduce(lambda t, k: t[k], setting.path[:-1], plain)
        table.pop(setting.path[-1], None)
    assert all(rest in ({}, None) for rest in plain.values())


def test_config_has_the_leaves_of_training_and_its_own():
    paths = {s.path for s in walk(Config)}
    assert paths > {s.path for s in walk(Training)}
    assert {("evaluate", "model"), ("engine", "workers"), ("algorithm",), ("clients",)} <= paths


def test_defaults_of_outer_settings_win_over_those_of_inner_ones():
    @settings
    class Outer:
        sgd: SGD = SGD(lr=0.7)
        """the optimizer"""

    assert next(iter(walk(Outer))).default == 0.7


def test_defaults_are_right_two_levels_down():
    @settings
    class Inner:
        sgd: SGD = SGD(lr=0.7)
        """the optimizer"""
        lr: float = 9.0
        """another lr"""

    @settings
    class Outer:
        inner: Inner = Inner(sgd=SGD(lr=0.3))
        """the inner settings"""

    assert {s.path: s.default for s in walk(Outer)}["inner", "sgd", "lr"] == 0.3


def test_an_error_in_a_setting_of_several_types_names_the_setting():
    with pytest.raises(UserError, match=r"^Config\.partition: "):
        Config(partition=3)


def test_a_missing_setting_is_said_to_be_missing():
    with pytest.raises(UserError, match=r"rows") as caught:
        Mixture()
    assert "given" not in str(caught.value)


@pytest.mark.parametrize("value", ["cuda", 3, [1, 2], None])
def test_what_is_no_table_is_refused_where_one_belongs(value):
    with pytest.raises(UserError, match="compare: bad value.*allowed: a table of settings"):
        build(Training, value, where="compare")
