"""Small tables of three sites, a study of them, and sites in this process in place of Flower."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.engines.engine import Engine
from manyheads.experiments.plan import Comparison
from manyheads.experiments.results import ComparisonResult
from manyheads.federate.agent import Agent
from manyheads.federate.audit import Audit
from manyheads.federate.link import Link
from manyheads.federate.rules import Policy, Rules
from manyheads.federate.study import Study
from manyheads.federate.wire import Message
from manyheads.run import Run
from manyheads.run.config import Config, assemble
from manyheads.run.simulate import run_training
from manyheads.run.training import Training

SITES = ("ash", "birch", "cedar")
QUICK = Rules(gather=0.1, wait=0.3, deadline=60)


def tables(folder: Path, sites: Sequence[str] = SITES) -> Path:
    """A table for each site: numbers with gaps, a category, two labels."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, site in enumerate(sites):
        rows = 40 + 13 * number
        x, kind = rng.normal(size=(rows, 3)), rng.choice(["u", "v", "w"], rows)
        label = np.where(x[:, 0] + (kind == "u") + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
        lines = ["p,q,r,kind,label"]
        for (p, q, r), k, y in zip(x, kind, label, strict=True):
            lines.append(f"{p:.5f},{q:.5f},{'' if rng.random() < 0.1 else f'{r:.5f}'},{k},{y}")
        (folder / f"{site}.csv").write_text("\n".join(lines) + "\n")
    return folder


def study(**changes: Any) -> Study:
    usual: dict[str, Any] = {"name": "trees", "sites": SITES, "rules": QUICK}
    usual["training"] = Training(rounds=2, seed=1, engine=Engine(mode="loop"))
    return Study(**usual | changes)


Reply = bytes | str | None


class Here:
    """Carries messages to agents in this process; ``alter`` may change or lose what a site sends."""

    def __init__(
        self, agents: Mapping[str, Agent], alter: Callable[[str, Message, bytes], Reply] | None = None
    ) -> None:
        self.agents, self.alter, self.count = dict(agents), alter, 0
        self.away: set[str] = set()

    def present(self) -> list[str]:
        return [site for site in self.agents if site not in self.away]

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> dict[str, bytes | str]:
        self.count += 1
        found: dict[str, bytes | str] = {}
        for site, data in messages.items():
            asked = Message.from_bytes(data)
            try:
                reply: Reply = self.agents[site].answer(asked).to_bytes()
            except UserError as error:
                reply = Message({"error": str(error)}).to_bytes()
            if self.alter and isinstance(reply, bytes):
                reply = self.alter(site, asked, reply)
            if reply is not None:
                found[site] = reply
        return found


def agents(data: Path, place: Path, policy: Policy | None = None, sites: Sequence[str] = SITES) -> dict[str, Agent]:
    own = policy or Policy(min_count=1)
    return {site: Agent(site, data / f"{site}.csv", own, place / f"kit-{site}") for site in sites}


def linked(made: Study, carrier: Any, place: Path, said: list[str] | None = None) -> Callable[[str], Link]:
    say = said.append if said is not None else lambda words: None
    return lambda run: Link(made, carrier, Audit(place / "audit.jsonl"), run, say)


def simulated(data: Path, method: str | dict[str, Any], rounds: int = 2, **settings: Any) -> Run:
    """The same tables in one place."""
    settings = {"model": {"name": "mlp"}} | settings
    config = Config(
        data={"name": "sites", "path": str(data)},
        algorithm={"name": method} if isinstance(method, str) else method,
        rounds=rounds,
        seed=1,
        engine=Engine(mode="loop"),
        **settings,
    )
    algorithm, model, federation, made = assemble(config)
    return run_training(algorithm, model, federation, config.training(), made, None)


COMPARED = Comparison(
    methods=("local", "fedavg", "fedavg+ft", "fedrep"), seeds=2, folds=2, rates=(0.03, 0.1), local_rounds=25,
    baselines=("majority", "linear"), pooled=False,
)  # fmt: skip
OWN = ("machine", "settings", "command", "cross", "quality", "survival", "described", "next_step", "data", "seal")


def numbers(result: ComparisonResult) -> dict[str, Any]:
    """A comparison's result without times, and what only a simulation knows."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in ("seconds", "monitors")}
        return [plain(v) for v in value] if isinstance(value, list) else value

    return plain({k: v for k, v in json.loads(json.dumps(result.to_json())).items() if k not in OWN})
