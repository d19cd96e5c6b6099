"""A site's own control: what it tells, what it refuses, and what it keeps."""

from __future__ import annotations

import json

import numpy as np
import pytest
from federations import SITES, Here, agents, linked, study, tables

from manyheads.core.errors import UserError
from manyheads.core.settings import as_dict
from manyheads.data.sites.columns import Statistics
from manyheads.data.sites.source import Sites
from manyheads.data.sites.survey import survey_of
from manyheads.federate.agreement import agreed_by, doubts_about
from manyheads.federate.conduct import described, new_run, train
from manyheads.federate.jobs import read_nodes
from manyheads.federate.rules import Policy
from manyheads.federate.serve import watch_keys
from manyheads.federate.study import StudyFolder
from manyheads.federate.table import Division, SiteTable
from manyheads.federate.told import read_statistics, written_statistics
from manyheads.federate.trial import Trial
from manyheads.federate.wire import PROTOCOL, Message, prefixed, state_of, taken
from manyheads.run.training import Training


def asked(made, site: str, action: str = "describe", **facts) -> Message:
    common = {"protocol": PROTOCOL, "action": action, "site": site, "run": "r", "exchange": "e"}
    return Message({**common, "study": as_dict(made), **facts})


def counts_in(value) -> list[int]:
    """All whole numbers in what was told."""
    if isinstance(value, bool):
        return []
    if isinstance(value, dict):
        return [n for each in value.values() for n in counts_in(each)]
    if isinstance(value, list):
        return [n for each in value for n in counts_in(each)]
    return [value] if isinstance(value, int) else []


def test_no_count_of_few_rows_is_told(tmp_path):
    data = tables(tmp_path / "data")
    lines = (data / "ash.csv").read_text().splitlines()
    lines += ["0.1,0.2,0.3,rare,yes"] * 2 + [",0.2,0.3,u,maybe"] * 3
    (data / "ash.csv").write_text("\n".join(lines) + "\n")
    agent = agents(data, tmp_path, Policy(min_count=5))["ash"]
    told = agent.answer(asked(study(), "ash")).facts["table"]
    assert set(told["target"]["counts"]) == {"yes", "no"}  # three rows of maybe
    assert told["columns"]["kind"]["categories"] == ["u", "v", "w"]
    assert told["columns"]["kind"]["rare"] == 1
    assert "missing" not in told["columns"]["p"]  # three rows: told as "few"
    shown = [told["target"]["counts"], [c.get("missing", 0) for c in told["columns"].values()]]
    assert all(n == 0 or n >= 5 for n in counts_in(shown))


def test_what_all_tell_gives_what_the_survey_of_all_tables_gives(tmp_path):
    data = tables(tmp_path / "data")
    whole = survey_of(Sites(path=str(data)))
    told, missing = described(linked(study(), Here(agents(data, tmp_path)), tmp_path)(new_run()))
    agreement = agreed_by(study().reading(""), told)
    assert not missing
    assert (agreement.task, agreement.label, agreement.labels) == (whole.task, whole.label, whole.labels)
    assert agreement.kinds == whole.kinds
    assert list(agreement.kinds) == list(whole.kinds)


def test_columns_that_differ_are_named_before_training(tmp_path):
    data = tables(tmp_path / "data")
    text = (data / "birch.csv").read_text()
    (data / "birch.csv").write_text(text.replace("p,q,r", "p,q,s"))
    with pytest.raises(UserError, match=r"site 'birch' lacks 'r' and has 's' besides, unlike 'ash'"):
        train(linked(study(), Here(agents(data, tmp_path)), tmp_path), tmp_path / "run")


def test_other_units_and_lonely_labels_are_doubts(tmp_path):
    data = tables(tmp_path / "data")
    for site, factor in (("ash", 1), ("birch", 1), ("cedar", 100)):
        lines = (data / f"{site}.csv").read_text().splitlines()
        rows = [f"{factor * (5 + 0.01 * i)},{line.partition(',')[2]}" for i, line in enumerate(lines[1:])]
        (data / f"{site}.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    (data / "ash.csv").write_text((data / "ash.csv").read_text() + "5,0,0,u,maybe\n" * 6)
    told, _ = described(linked(study(), Here(agents(data, tmp_path)), tmp_path)(new_run()))
    words = " ".join(doubts_about(told, agreed_by(study().reading(""), told)))
    assert "column 'p'" in words
    assert "other units?" in words
    assert "ash alone has the label 'maybe'" in words


@pytest.mark.parametrize(
    ("policy", "action", "why"),
    [
        (Policy(actions=("describe",)), "statistics", "does not allow it"),
        (Policy(min_rows=1000), "describe", "fewer rows than its policy asks for"),
    ],
)
def test_the_policy_of_a_site_decides(policy, action, why, tmp_path):
    agent = agents(tables(tmp_path / "data"), tmp_path, policy)["ash"]
    with pytest.raises(UserError, match=why):
        agent.answer(asked(study(), "ash", action))


def test_a_message_for_another_site_or_of_another_version_is_refused(tmp_path):
    agent = agents(tables(tmp_path / "data"), tmp_path)["ash"]
    with pytest.raises(UserError, match="this is ash"):
        agent.answer(asked(study(), "birch"))
    other = asked(study(), "ash")
    other.facts["protocol"] = PROTOCOL + 1
    with pytest.raises(UserError, match="another version"):
        agent.answer(other)


def test_label_counts_stay_if_the_owner_says_so(tmp_path):
    agent = agents(tables(tmp_path / "data"), tmp_path, Policy(label_counts=False))["ash"]
    assert set(agent.answer(asked(study(), "ash")).facts["table"]["target"]["counts"].values()) == {0}


@pytest.mark.parametrize(
    ("policy", "fewest", "why"),
    [
        (
            Policy(min_count=5),
            4,
            r"fewer rows than the site's min_count; given 'fewest = 4'.*fewest = 5 in \[algorithm\]",
        ),
        (Policy(min_count=1, label_counts=False), 4, "the number of rows of each class.*label_counts = true"),
        (Policy(min_count=5), 5, None),
    ],
)
def test_a_method_that_tells_of_classes_is_held_to_the_minimum_count(policy, fewest, why, tmp_path):
    made = study(algorithm={"name": "fedpac", "fewest": fewest, "body_epochs": 1})
    seen = []

    def look(site, asked, reply):
        up = taken("0/up/", Message.from_bytes(reply).tensors)
        seen.extend(up["counts"].flatten().tolist() if "counts" in up else [])
        return reply

    link = linked(made, Here(agents(tables(tmp_path / "data"), tmp_path, policy), look), tmp_path)
    if why is None:
        train(link, tmp_path / "run")
        assert seen
        assert all(n == 0 or n >= fewest for n in seen)
    else:
        with pytest.raises(UserError, match=why):
            train(link, tmp_path / "run")
        assert not seen


def test_only_classes_of_manyheads_or_allowed_ones_are_imported(tmp_path):
    data = tables(tmp_path / "data")
    made = study(algorithm={"name": "fedavg"})

    class Renames(Here):
        def exchange(self, messages, seconds):
            changed = {}
            for site, data_ in messages.items():
                message = Message.from_bytes(data_)
                for trial in message.facts.get("trials", {}).values():
                    trial["algorithm"]["name"] = "os:path"
                changed[site] = message.to_bytes()
            return super().exchange(changed, seconds)

    with pytest.raises(UserError, match="0 of 3 sites answered 'work'.*not manyheads' own: os:path"):
        train(linked(made, Renames(agents(data, tmp_path)), tmp_path), tmp_path / "run")


def test_a_table_that_changes_during_a_run_is_noticed(tmp_path):
    data = tables(tmp_path / "data")

    class Changes(Here):
        def exchange(self, messages, seconds):
            if any("asks" in Message.from_bytes(m).facts for m in messages.values()):
                (data / "cedar.csv").write_text((data / "cedar.csv").read_text() + "1,1,1,u,yes\n")
            return super().exchange(messages, seconds)

    run = train(linked(study(), Changes(agents(data, tmp_path)), tmp_path), tmp_path / "run")
    assert "the table of cedar has changed since the run began" in run.history[0]["dropped"][0]["why"]


def test_a_site_that_has_lost_its_state_says_so(tmp_path):
    import shutil

    data = tables(tmp_path / "data")
    own = agents(data, tmp_path)

    class Loses(Here):
        def exchange(self, messages, seconds):
            rounds = [
                a["round"]["index"] for m in messages.values() for a in Message.from_bytes(m).facts.get("asks", ())
            ]
            if rounds and max(rounds) == 2:
                for folder in own["ash"].folder.glob("states/*/*/"):
                    shutil.rmtree(folder)
            return super().exchange(messages, seconds)

    run = train(linked(study(training=Training(rounds=2, seed=1)), Loses(own), tmp_path), tmp_path / "run")
    assert "the state of round 1 is not there" in run.history[1]["dropped"][0]["why"]


def test_statistics_travel_without_the_values_of_single_rows():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=50), "b": np.full(50, 3.25), "c": np.array(["x", "y"] * 25, object)}
    table["a"][3] = np.nan
    own = Statistics.of(table, np.arange(50), ["a", "b"], ["c"])
    sent = json.loads(json.dumps(written_statistics(own)))
    again = read_statistics(sent, 2)
    assert (again.moments.low < again.moments.high).tolist() == [True, False]
    np.testing.assert_array_equal(again.moments.mean, own.moments.mean)
    np.testing.assert_array_equal(again.moments.squares, own.moments.squares)
    assert table["a"][np.isfinite(table["a"])].min() not in sent["moments"]["constant"]
    few = Statistics.of(table, np.arange(3), ["a", "b"], ["c"], least=5)
    assert few.moments.count.tolist() == [0, 0]
    assert few.categories == {"c": set()}


def test_a_site_divides_its_rows_as_the_simulator_does(tmp_path):
    data = tables(tmp_path / "data")
    whole = Sites(path=str(data)).federation(7)
    told, _ = described(linked(study(), Here(agents(data, tmp_path)), tmp_path)(new_run()))
    agreement = agreed_by(study().reading(""), told)
    for number, site in enumerate(SITES):
        table = SiteTable(study(), site, data / f"{site}.csv", Policy(min_count=1), number)
        division = Division(seed=7, validation=0.2, folds=3)
        made = table.divided(agreement, division)
        finals = whole.folds(3, 7)
        for fold in range(3):
            own = made.federations[division.final(fold)]
            np.testing.assert_array_equal(own.test.rows, finals[fold].test.select([number]).rows)
            tuning = made.federations[division.tuning(fold)]
            wanted = finals[fold].with_validation(0.2, 7, by_label=True)
            np.testing.assert_array_equal(tuning.validation.rows, wanted.validation.select([number]).rows)


def test_messages_travel_as_they_are():
    import torch

    from manyheads.core.trees import State, Tree

    state = State(
        body=Tree({"0.weight": torch.arange(6.0).reshape(2, 3), "0.bias": torch.zeros(2)}), step=torch.tensor(3)
    )
    sent = Message({"round": 2, "none": None}, prefixed("up/", state))
    again = Message.from_bytes(sent.to_bytes())
    assert again.facts == sent.facts
    found = state_of(taken("up/", again.tensors))
    assert list(found) == ["body", "step"]
    assert list(found["body"]) == ["0.weight", "0.bias"]
    assert all(torch.equal(a, b) for a, b in zip(found.flat.values(), state.flat.values(), strict=True))


@pytest.mark.parametrize(
    ("action", "facts", "why"),
    [
        ("describe", {"table": None}, "what it tells cannot be read"),
        ("describe", {"table": {"rows": -1}}, "what it tells cannot be read"),
        ("statistics", {"statistics": []}, "not of the divisions that it was asked about"),
        ("statistics", {"parts": [{"train": 10**9, "test": -4, "validation": None}]}, "numbers of rows that cannot be"),
        ("statistics", {"encoded_by": ["x"]}, "what it tells cannot be read"),
    ],
)
def test_a_site_that_tells_nonsense_at_the_start_does_not_take_part(action, facts, why, tmp_path):
    def alter(site, message, reply):
        if site == "birch" and message.facts["action"] == action:
            told = Message.from_bytes(reply)
            return Message(told.facts | facts, told.tensors).to_bytes()
        return reply

    said: list[str] = []
    carrier = Here(agents(tables(tmp_path / "data"), tmp_path), alter)
    run = train(linked(study(), carrier, tmp_path, said), tmp_path / "run")
    assert [run.directory.about().site(i) for i in range(2)] == ["ash", "cedar"]
    assert any("birch does not take part" in words and why in words for words in said)


def test_moments_that_cannot_be_are_refused():
    good = {"count": [3], "mean": [0.5], "squares": [1.0], "constant": [None]}
    whole = {"rows": 3, "categories": {}, "target": None}
    assert read_statistics(whole | {"moments": good}, 1).moments.mean.tolist() == [0.5]
    for wrong in (
        {"mean": [None]},
        {"mean": [float("inf")]},
        {"squares": [-1.0]},
        {"count": [-2]},
        {"mean": [0.1, 0.2]},
    ):
        with pytest.raises((ValueError, TypeError)):
            read_statistics(whole | {"moments": good | wrong}, 1)


def test_weights_that_need_all_labels_are_refused():
    with pytest.raises(UserError, match="would need the labels of all sites"):
        study(training=Training(class_weights="balanced"))


def test_a_new_key_takes_the_place_of_the_old_one(tmp_path):
    class Registers:
        def __init__(self) -> None:
            self.known, self.last = dict[int, str](), 0

        def register(self, site, key):
            self.last += 1
            self.known[self.last] = key.read_text()
            return self.last

        def unregister(self, node):
            del self.known[node]

    folder, flower, said = StudyFolder(tmp_path), Registers(), list[str]()
    folder.write(study(sites=("ash", "birch")))
    folder.server.mkdir()
    folder.keys.mkdir()
    for text in ("old", "new", "new"):
        (folder.keys / "ash.pub").write_text(text)
        watch_keys(folder, flower, said.append)
    assert flower.known == {2: "new"}
    assert read_nodes(folder) == {"ash": 2}
    assert said == ["ash is registered"] * 2


def test_no_cell_of_a_table_leaves_in_words(tmp_path):
    data = tables(tmp_path / "data")
    (data / "ash.csv").write_text((data / "ash.csv").read_text() + "Smith,1,1,u,yes\n")
    agent = agents(data, tmp_path)["ash"]
    told = agent.answer(asked(study(), "ash"))
    assert told.facts["table"]["problems"] == ["an error in column 'p'"]
    assert b"Smith" not in told.to_bytes()
    carrier = Here(agents(data, tmp_path))
    said: list[str] = []
    train(linked(study(), carrier, tmp_path, said), tmp_path / "run")
    assert any("ash does not take part: its table cannot be used in column 'p'" in words for words in said)
    assert not any("Smith" in words for words in said)


def test_evidence_of_few_rows_is_not_told(tmp_path):
    data = tables(tmp_path / "data")
    head, *rows = (data / "ash.csv").read_text().splitlines()
    empty = [",".join(["", *row.split(",")[1:]]) for row in rows[3:]]  # three values of p are left
    (data / "ash.csv").write_text("\n".join([head, *rows[:3], *empty]) + "\n")
    told = agents(data, tmp_path, Policy(min_count=5))["ash"].answer(asked(study(), "ash")).facts["table"]
    assert told["columns"]["p"]["evidence"]["numbers"] == 0
    assert "missing" not in told["columns"]["p"]  # rows without it would tell how many have it
    assert "mean" not in told["columns"]["p"]


def test_a_division_that_would_tell_of_few_rows_is_refused(tmp_path):
    data = tables(tmp_path / "data")
    told, _ = described(linked(study(), Here(agents(data, tmp_path)), tmp_path)(new_run()))
    agreement = as_dict(agreed_by(study().reading(""), told))
    agent = agents(data, tmp_path, Policy(min_count=5))["ash"]
    division = as_dict(Division(seed=1, validation=0.2, folds=15))
    with pytest.raises(UserError, match="would be smaller than its min_count"):
        agent.answer(asked(study(), "ash", "statistics", sites=list(SITES), agreement=agreement, division=division))


def test_a_class_of_the_sites_own_choice_may_be_named(tmp_path, monkeypatch):
    lines = [
        "from typing import ClassVar",
        "from manyheads import FedAvg",
        "from manyheads.core.settings import settings",
        "@settings",
        "class Mine(FedAvg):",
        "    name: ClassVar[str] = 'mine-at-sites'",
    ]
    (tmp_path / "mine_at_sites.py").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = tables(tmp_path / "data")
    made = study(algorithm={"name": "mine_at_sites:Mine"})
    with pytest.raises(UserError, match="not manyheads' own"):
        Trial.of({"algorithm": {"name": "not-known"}, "model": {"name": "mlp"}, "training": {}, "part": 0})
    policy = Policy(min_count=1, own_code=("mine_at_sites:Mine",))
    run = train(linked(made, Here(agents(data, tmp_path, policy)), tmp_path), tmp_path / "run")
    assert run.algorithm.name == "mine-at-sites"


def test_a_job_is_no_path(tmp_path):
    from manyheads.federate.jobs import Job
    from manyheads.federate.study import StudyFolder

    with pytest.raises(UserError, match="not a job"):
        Job(StudyFolder(tmp_path), "../../etc")


def test_a_run_is_no_path(tmp_path):
    agent = agents(tables(tmp_path / "data"), tmp_path)["ash"]
    message = asked(study(), "ash")
    message.facts["run"] = "../../other"
    with pytest.raises(UserError, match="not a run"):
        agent.answer(message)
