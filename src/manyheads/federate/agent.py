"""A site's side: it answers each message from its own table, within its own policy, and keeps its personal states."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.core.contract import Round
from manyheads.core.errors import UserError
from manyheads.core.files import sha256, write_text
from manyheads.core.optim import FineTune
from manyheads.core.settings import as_dict, build
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.data.sites.columns import Columns
from manyheads.engines.jobs import Broadcast, Chunk, ToEvaluate, evaluate_chunk, reply_of
from manyheads.engines.threads import one_thread
from manyheads.engines.workbench import Evaluation, Members, Workbench
from manyheads.federate.agreement import Agreement
from manyheads.federate.rules import Policy
from manyheads.federate.states import SiteStates
from manyheads.federate.study import Study
from manyheads.federate.table import Division, SiteTable, TableError
from manyheads.federate.told import written_statistics
from manyheads.federate.trial import Trial
from manyheads.federate.wire import PROTOCOL, Message, prefixed, state_of, taken
from manyheads.metrics import METRICS

__all__ = ["Agent"]

Facts = dict[str, Any]
TABLE = "table.sha256"
RUN = re.compile(r"[0-9A-Za-z]{1,64}")


@dataclass
class Agent:
    """One site of a study, with its table, its policy and the folder of its states."""

    site: str
    data: Path
    policy: Policy
    folder: Path
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def answer(self, message: Message) -> Message:
        """Do what is asked; an error says why not."""
        facts = message.facts
        if facts.get("protocol") != PROTOCOL:
            raise UserError("the server speaks another version", given=facts.get("protocol"), fix="update manyheads")
        action = facts.get("action")
        if action not in self.policy.actions:
            raise UserError(f"the policy of {self.site} does not allow it", given=action)
        study = build(Study, facts["study"], where="study")
        if facts.get("site") != self.site:
            raise UserError(f"this is {self.site}", given=facts.get("site"))
        if not RUN.fullmatch(str(facts.get("run"))):  # it names folders, which are written and replaced
            raise UserError("not a run", given=facts.get("run"))
        done: dict[str, Callable[[Study, Message], Message]] = {
            "describe": self._describe,
            "statistics": self._statistics,
            "work": self._work,
            "finish": self._finish,
            "validate": self._validate,
            "tell": self._tell,
            "conclude": self._conclude,
        }
        try:
            with one_thread():
                reply = done[action](study, message)
        except TableError as error:
            raise UserError(error.told) from error
        same = {name: facts.get(name) for name in ("protocol", "action", "site", "run", "exchange")}
        return Message({**same, **reply.facts}, reply.tensors)

    def _table(self, study: Study, facts: Facts | None = None) -> SiteTable:
        number = list(facts["sites"]).index(self.site) if facts else 0
        return SiteTable(study, self.site, self.data, self.policy, number)

    def _describe(self, study: Study, message: Message) -> Message:
        told = self._table(study).told()
        self._require_rows(told.rows)
        return Message({"table": as_dict(told)})

    def _require_rows(self, rows: int) -> None:
        if rows < self.policy.min_rows:
            raise UserError(
                f"{self.site} has fewer rows than its policy asks for",
                given=rows,
                allowed=f"{self.policy.min_rows} or more",
            )

    def _statistics(self, study: Study, message: Message) -> Message:
        """Of the training rows of each division; and the sizes of its parts."""
        agreement, division = _agreed(message.facts)
        made = self._table(study, message.facts).divided(agreement, division)
        for federation in made.federations:
            for part in (federation.test, federation.validation):
                if part is not None and 0 < part.sizes[0] < self.policy.min_count:  # two divisions would tell of so few
                    raise UserError(
                        f"a part of the rows of {self.site} would be smaller than its min_count",
                        given=int(part.sizes[0]),
                        fix="fewer folds, or a larger validation part",
                    )
        self._mark(message.facts["run"])
        return Message(
            {
                "statistics": [written_statistics(each) for each in made.statistics],
                "parts": [self._sizes(part) for part in made.federations],
                "encoded_by": made.encoded_by,
            }
        )

    def _sizes(self, federation: Federation) -> Facts:
        """Numbers of rows; those of a class only as the policy allows."""
        splits = {"train": federation.train, "test": federation.test, "validation": federation.validation}
        facts: Facts = {name: int(split.sizes[0]) if split is not None else None for name, split in splits.items()}
        if task_named(federation.task).classes and self.policy.label_counts:
            counts = np.bincount(federation.train.y, minlength=federation.outputs).tolist()
            facts["labels"] = [n if n >= self.policy.min_count else None for n in counts]
        return facts

    def _federations(self, study: Study, facts: Facts) -> list[Federation]:
        agreement, division = _agreed(facts)
        columns = [build(Columns, each, where="columns") for each in facts["columns"]]
        self._require_unchanged(facts["run"])
        return self._table(study, facts).divided(agreement, division, columns).federations

    def _mark(self, run: str) -> None:
        """Remember the table that a run begins with."""
        folder = self.run_folder(run)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(folder / TABLE, sha256(self.data))

    def _require_unchanged(self, run: str) -> None:
        file = self.run_folder(run) / TABLE
        if not file.is_file():
            raise UserError(f"{self.site} took no part in the beginning of this run", fix="it can in the next one")
        if file.read_text() != sha256(self.data):
            raise UserError(f"the table of {self.site} has changed since the run began", fix="start a new run")

    def _work(self, study: Study, message: Message) -> Message:
        """Train and evaluate, in the order in which it is asked for."""
        facts = message.facts
        federations = self._federations(study, facts)
        trials = {key: Trial.of(table, self.policy.own_code) for key, table in facts["trials"].items()}
        results, tensors = list[Facts](), dict[str, torch.Tensor]()
        for number, ask in enumerate(facts["asks"]):
            trial = trials[ask["trial"]]
            mine = _Client(self, study, trial, federations[trial.part], facts["run"], self._cache)
            given = taken(f"{number}/", message.tensors)
            try:
                result, sent = (mine.train if ask["job"] == "train" else mine.evaluate)(ask, given)
            except UserError as error:  # the other trials go on
                result, sent = {"error": str(error)}, {}
            results.append({"trial": ask["trial"], "round": ask["round"]["index"], "job": ask["job"], **result})
            tensors |= {f"{number}/{name}": value for name, value in sent.items()}
        return Message({"results": results}, tensors)

    def _finish(self, study: Study, message: Message) -> Message:
        """Keep the final model of a run, and what was measured of it."""
        from manyheads.federate.kept import keep_run  # slow to import, and only needed here

        facts = message.facts
        trial = Trial.of(facts["trial"], self.policy.own_code)
        federation = self._federations(study, facts)[trial.part]
        kept = _Client(self, study, trial, federation, facts["run"], self._cache).states.read(int(facts["version"]))
        server = state_of(taken("server/", message.tensors))
        place = keep_run(study, trial, federation, kept, server, facts["history"], facts["run"], self.folder)
        return Message({"kept": place.name})

    def _validate(self, study: Study, message: Message) -> Message:
        """Fit the models other than networks, and tell how good they are on validation samples."""
        from manyheads.federate.compared import AtSite

        facts = message.facts
        site = AtSite(self._federations(study, facts), _agreed(facts)[1], self.run_folder(facts["run"]), self.policy)
        return Message({"validated": site.validated(facts["metric"], facts["baselines"])})

    def _tell(self, study: Study, message: Message) -> Message:
        """Predict test samples with the final models of all methods, and tell counts and moments of the scores."""
        from manyheads.federate.compared import AtSite

        facts = message.facts
        federations = self._federations(study, facts)
        site = AtSite(federations, _agreed(facts)[1], self.run_folder(facts["run"]), self.policy)
        outputs: dict[str, list[list[np.ndarray]]] = {}
        for number, asked in enumerate(facts["finals"]):
            trial = Trial.of(facts["trials"][asked["trial"]], self.policy.own_code)
            own_part, everyone = federations[trial.part], len(facts["sites"])
            mine = _Client(self, study, trial, own_part, facts["run"], self._cache, everyone)
            server = state_of(taken(f"{number}/", message.tensors))
            own = mine.predicted(server, int(asked["version"]), bool(asked["finetuned"]))
            outputs.setdefault(asked["method"], [[] for _ in range(facts["seeds"])])[asked["seed"]].append(own)
        return Message({"told": site.told(facts, outputs)})

    def _conclude(self, study: Study, message: Message) -> Message:
        """Keep the page of this site."""
        from manyheads.federate.page import write_page

        write_page(self.folder, self.site, message.facts)
        return Message({"kept": True})

    def run_folder(self, run: str) -> Path:
        """What the site keeps while a run goes on."""
        return self.folder / "states" / run


@dataclass(frozen=True)
class _Client:
    """The one client of a site in a trial."""

    agent: Agent
    study: Study
    trial: Trial
    federation: Federation
    run: str
    cache: dict[Any, Any]
    population: int = 1

    @property
    def bench(self) -> Workbench:
        if self.trial.key not in self.cache:
            self.cache[self.trial.key] = self.trial.bench(self.federation)
        found: Workbench = self.cache[self.trial.key]
        return found

    @property
    def states(self) -> SiteStates:
        key = self.trial.states_key
        owner = f"{self.study.identity}/{self.agent.site}/{self.run}/{key}"
        initial = self.trial.training.client_state(self.trial.algorithm, self.bench.model.params)
        return SiteStates(self.agent.run_folder(self.run) / key, owner, initial)

    @property
    def members(self) -> Members:
        return Members([0], [self.federation.first])

    def train(self, ask: Facts, given: Mapping[str, torch.Tensor]) -> tuple[Facts, dict[str, torch.Tensor]]:
        self.agent.policy.require(self.trial.algorithm)
        states, round = self.states, Round(**ask["round"])
        kept = states.read(int(ask["version"])).map(lambda v: v.unsqueeze(0))
        common = Broadcast(round, state_of(taken("down/", given)), State(), ask["weighting"])
        done = reply_of(self.bench, common, Chunk(self.members, state_of(taken("own/", given)), kept, 1))
        failed = done.reply.failed.get(self.federation.first)
        if not failed:
            states.write(round.index, done.kept.map(lambda v: v[0]))
        facts = {
            "weight": float(done.reply.weights[0]),
            "failed": failed,
            "loss": float(done.losses[0]),
            "passes": float(done.passes[0]),
        }
        return facts, prefixed("up/", done.reply.upload)

    def predicted(self, server: State, version: int, finetuned: bool) -> np.ndarray:
        """Outputs of the client's final model for its test samples."""
        evaluate, training = self.trial.training.evaluate, self.trial.training
        protocol = replace(evaluate, split="test", model="finetuned" if finetuned else evaluate.model, who="all")
        what = protocol.evaluation(self.trial.algorithm, training.finetune)
        round = Round(training.rounds, training.seed, self.population, self.population)
        kept = self.states.read(version).map(lambda v: v.unsqueeze(0))
        return self.bench.predictions(round, what, server, self.members, kept).outputs

    def evaluate(self, ask: Facts, given: Mapping[str, torch.Tensor]) -> tuple[Facts, dict[str, torch.Tensor]]:
        what = Evaluation(ask["kind"], build(FineTune, ask["tune"], where="finetune"), ask["split"], new=False)
        metrics = tuple(METRICS.find(name)() for name in ask["metrics"])
        kept = self.states.read(int(ask["version"])).map(lambda v: v.unsqueeze(0))
        size = int(getattr(self.federation, what.split).sizes[0])
        if size < self.agent.policy.min_count:  # too few to say anything of
            return {"samples": 0, "metrics": {}}, {}
        common = ToEvaluate(Round(**ask["round"]), what, state_of(taken("server/", given)), metrics, 1)
        scores = evaluate_chunk(self.bench, common, (self.members, kept))
        measured = {
            name: float(found.values[0]) if found.defined[0] else None for name, found in scores.metrics.items()
        }
        return {"samples": size, "metrics": measured}, {}


def _agreed(facts: Facts) -> tuple[Agreement, Division]:
    return build(Agreement, facts["agreement"], where="agreement"), build(Division, facts["division"], where="division")
