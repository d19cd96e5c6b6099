"""Run directories as a report reads them: settings, rounds so far, and whose data it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.errors import Damaged, UserError
from manyheads.core.tasks import TASKS, Task
from manyheads.core.words import plural
from manyheads.report.drawing import SITES_DRAWN, some
from manyheads.report.names import display
from manyheads.report.words import Scale, monitor_named
from manyheads.run.about import About
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.rounds import Evaluated, RoundFacts

__all__ = ["LOSS", "RunFacts", "curve", "progress", "read_run", "site_rows"]

LOSS = "train_loss"
"""name of the training loss in the rows of :func:`curve`"""


@dataclass(frozen=True)
class RunFacts:
    """One run: its folder, its configuration, its rounds so far, and whose data it is trained on."""

    folder: Path
    config: RunConfig
    rounds: Sequence[RoundFacts]
    about: About = field(default_factory=About)

    @property
    def method(self) -> str:
        return str(self.config.settings["algorithm"]["name"])

    @property
    def data(self) -> str:
        return self.about.name or str(self.config.settings["data"]["name"])

    @property
    def planned(self) -> int:
        """Number of rounds that the run is configured for."""
        return int(self.config.settings["rounds"])

    @property
    def split(self) -> str:
        """Which samples the scores are of: ``test`` or ``validation``."""
        return str(self.config.settings.get("evaluate", {}).get("split", "test"))

    @property
    def score(self) -> str:
        """Name of the task's first metric, which methods are compared by; an earlier version may lack it."""
        names = (TASKS.get(self.config.facts.task) or Task).metrics
        return next((name for name in names if self.evaluation and name in self.evaluation.values), names[0])

    @property
    def scale(self) -> Scale:
        """Scale of the score."""
        return Scale.of(self.score)

    @property
    def evaluation(self) -> Evaluated | None:
        """The last evaluation; None if there is none yet."""
        return next((r.evaluation for r in reversed(self.rounds) if r.evaluation), None)


def read_run(folder: Path) -> RunFacts:
    """Read a run directory; the run may be unfinished."""
    if not (folder / RUN).is_file():
        raise UserError(
            f"{folder} holds neither a comparison nor a run", fix=f"name a folder with compare.json or {RUN}"
        )
    config = read_run_config(folder)
    directory = RunDirectory(folder)
    about = directory.about()
    saved = next(iter(rounds_on_disk(directory.checkpoints)), 0)  # before the history: a run in progress adds rounds
    history = directory.history()
    if len(history) < saved:
        raise Damaged(f"{history.path} lacks rounds that the checkpoint has", fix="manyheads run --resume --out RUN")
    return RunFacts(folder, config, [RoundFacts.of(record) for record in history], about)


def curve(run: RunFacts, label: str, start: int = 0) -> list[dict[str, Any]]:
    """Return a row for each round after ``start``: training loss, and metrics and monitors by name where there are any."""
    rows, sent = [], 0
    for at in run.rounds:
        sent += at.bytes
        if at.round > start:
            values = at.evaluation.values if at.evaluation else {}
            found = {name: Scale.of(name).drawn(value) for name, value in values.items()}
            found |= {name: Scale(monitor_named(name)).drawn(value) for name, value in at.monitors.items()}
            found[LOSS] = Scale.of("loss").drawn(at.train_loss)
            rows.append({**found, "method": display(label), "round": at.round, "mb": float(f"{sent / 1e6:.4g}")})
    return rows


def site_rows(run: RunFacts, label: str) -> list[dict[str, Any]]:
    """Return a row for each site of the last evaluation, best first; empty if the history has no values per client."""
    found, scale = run.evaluation, run.scale
    if found is None or run.score not in found.per_client:
        return []
    values = found.per_client[run.score]
    pairs = [(c, v) for c, v in zip(found.clients, values, strict=True) if v is not None]
    pairs.sort(key=lambda pair: scale.best_first * pair[1])
    drawn = enumerate(pairs[i] for i in some(len(pairs), SITES_DRAWN))
    return [
        {"method": display(label), "rank": r, "site": run.about.site(c), "value": scale.drawn(v)} for r, (c, v) in drawn
    ]


def progress(run: RunFacts, score: bool) -> str:
    """Return a sentence with the rounds done so far, and the last score or the last training loss."""
    text = f"{display(run.method)}: {len(run.rounds)} of {plural(run.planned, 'round', 'rounds')}"
    found, scale = run.evaluation, run.scale
    if score and found:
        return f"{text}, {run.split} {scale.name} {scale.value(found.values.get(run.score))}{scale.unit}."
    if run.rounds and run.rounds[-1].train_loss is not None:
        return f"{text}, training loss {Scale.of('loss').value(run.rounds[-1].train_loss)}."
    return f"{text}."
