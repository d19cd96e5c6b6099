"""Measures what is missing of an experiment, judges it, and writes its files. Interrupted, it keeps what is done."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.core.errors import Damaged, Diverged, UserError, one_of
from manyheads.core.files import replacing, write_text
from manyheads.core.machine import this_machine
from manyheads.core.plain import plain
from manyheads.core.sealed import fingerprint_of, read_json, write_json
from manyheads.core.settings import changed
from manyheads.core.watching import watching
from manyheads.data import source_of
from manyheads.engines.engine import Engine
from manyheads.engines.executor import working
from manyheads.reproduce.drawing import titled
from manyheads.reproduce.experiment import Experiment, Place, Scale
from manyheads.reproduce.records import DIVERGED, Record, Result, folder_of, key_of, measured, rounded

__all__ = ["PICTURES", "Follow", "left", "look_for_data", "reproduce"]

Follow = Callable[[int, int, str], None]
"""called periodically with the number of parts done, of all parts, and what is being done"""
PICTURES = ("figure.svg", "figure.png")
RUNS = "runs"
SAY_EVERY = 0.5
ALL_CORES = Engine(workers=0)


@dataclass(frozen=True)
class _Task:
    part: str
    seed: int
    key: str
    engine: Engine

    @property
    def file(self) -> str:
        return f"{re.sub(r'[^a-zA-Z0-9.+-]', '_', self.part)}-s{self.seed}-{self.key}"


class _Spent(NamedTuple):
    """Time that a part has taken, before interruptions too."""

    seconds: float
    core_seconds: float


def reproduce(
    experiment: Experiment,
    scale: Scale,
    *,
    out: Path,
    work: Path,
    parts: Sequence[str] = (),
    again: bool = False,
    engine: Engine = ALL_CORES,
    follow: Follow = lambda done, total, doing: None,
) -> Result:
    """The result of an experiment at a scale, in ``out``; what is there already with the same settings is kept.

    ``parts`` limits what is measured now, as the number of seeds does: further ones that are there count too. Parts are
    spread over processes, or a single one's runs are, as the engine's settings say. Folders of runs, and the facts of
    parts, are kept in ``work``.
    """
    plan = _plan(experiment, scale, out, parts, again)
    if plan.done:
        _judged(experiment, scale, plan.done.values())  # an error, if it is one, before any work
    look_for_data([experiment] if plan.todo else [])
    (work / experiment.name).mkdir(parents=True, exist_ok=True)
    whole, own = (engine, engine.of_a_task()) if len(plan.todo) > 1 else (Engine(workers=1), engine)
    tasks = [_Task(part, seed, plan.keys[part, seed], own) for part, seed in plan.todo]
    done = dict(plan.done)
    try:
        for record in _records(experiment, work, tasks, again, whole, follow):
            done[record.part, record.seed] = record
    finally:
        if done:
            now = _plan(experiment, scale, out, parts, again)  # what another process wrote meanwhile stays
            done = now.done | done
            result, chart = _judged(experiment, scale, [done[each] for each in now.keys if each in done])
            folder = folder_of(out, experiment.name, scale)
            result.write(folder)
            _draw(result, chart, folder)
    return result


def left(
    experiment: Experiment, scale: Scale, out: Path, parts: Sequence[str] = (), again: bool = False
) -> list[tuple[str, int]]:
    """The parts and seeds that :func:`reproduce` would measure."""
    return _plan(experiment, scale, out, parts, again).todo


def look_for_data(experiments: Iterable[Experiment]) -> None:
    """Read all data that the experiments need: what is missing is one error, before any work."""
    tables = {fingerprint_of(dict(table)): table for each in experiments for table in each.needs()}
    missing: dict[str, UserError] = {}
    for table in tables.values():
        source = source_of(dict(table))
        try:
            (source.pool if hasattr(source, "pool") else source.federation)(0)
        except UserError as error:
            missing.setdefault(source.name, error)
    if len(missing) == 1:
        raise next(iter(missing.values()))
    if missing:
        words = "; ".join(f"({i}) {error}" for i, error in enumerate(missing.values(), 1))
        raise UserError(f"{len(missing)} data sets that are needed cannot be read: {words}")


@dataclass(frozen=True)
class _Plan:
    keys: dict[tuple[str, int], str]
    """of all parts and seeds"""
    done: dict[tuple[str, int], Record]
    todo: list[tuple[str, int]]


def _plan(experiment: Experiment, scale: Scale, out: Path, parts: Sequence[str], again: bool) -> _Plan:
    unknown = next((part for part in parts if part not in experiment.parts()), None)
    if unknown is not None:
        raise one_of("part", unknown, experiment.parts(), where=experiment.name)
    asked = [(part, seed) for part in parts or experiment.parts() for seed in range(experiment.seeds)]
    anew = again and not parts  # what is there need not even be readable
    before = None if anew else Result.read(folder_of(out, experiment.name, scale))
    kept = [r for r in (before.records if before else ()) if not (again and (r.part, r.seed) in asked)]
    seeds = range(_seeds(experiment, kept))
    keys = {(part, seed): key_of(experiment, part, seed) for part in experiment.parts() for seed in seeds}
    done = {(r.part, r.seed): r for r in kept if keys.get((r.part, r.seed)) == r.key}
    return _Plan(keys, done, [each for each in keys if each in asked and each not in done])


def _seeds(experiment: Experiment, records: Iterable[Record]) -> int:
    """The number of seeds that are asked for, or of those that are there if it is larger."""
    return max([experiment.seeds, *(record.seed + 1 for record in records)])


def _records(
    experiment: Experiment, work: Path, tasks: list[_Task], again: bool, engine: Engine, follow: Follow
) -> Any:
    """Measure the tasks, spread over processes, and yield each record as it is done."""
    place, finished = work / experiment.name, 0
    for task in tasks:  # left by a process that was killed
        (place / f"{task.file}.doing").unlink(missing_ok=True)

    def look() -> None:
        words = [_doing(place / f"{t.file}.doing") for t in tasks]
        follow(finished, len(tasks), "; ".join(filter(None, words)))

    held = experiment, _itself, lambda: (experiment,)
    with working(engine, len(tasks), *held, shared=work) as executor, watching(look):
        for record in executor.map(_measure, (work, again), tasks):
            finished += 1
            yield record


def _doing(file: Path) -> str:
    """What a task says that it is doing; empty before and after it, and it may end at any time."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _itself(experiment: Experiment) -> Experiment:
    return experiment


def _measure(experiment: Experiment, common: tuple[Path, bool], task: _Task) -> Record:
    (work, again), spoke = common, 0.0
    started, began = time.monotonic(), _core_seconds()
    file = work / experiment.name / f"{task.file}.json"
    doing, worked = file.with_suffix(".doing"), file.with_suffix(".worked")
    if file.exists() and not again:
        try:
            return Record(**read_json(file))
        except (Damaged, TypeError):  # it is measured again
            pass

    spent = _Spent(0.0, 0.0) if again else _spent(worked)

    def so_far() -> _Spent:
        return _Spent(spent.seconds + time.monotonic() - started, spent.core_seconds + _core_seconds() - began)

    def say(words: str) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SAY_EVERY:
            spoke = time.monotonic()
            write_text(doing, f"{task.part}, seed {task.seed}: {words}")
            write_text(worked, "{:.1f} {:.1f}".format(*so_far()))

    try:
        say("begun")
        place = Place(work / RUNS, say, task.engine)
        facts = rounded(plain(experiment.measure(task.part, task.seed, place)))
    except Diverged as error:  # that is a result, too
        facts = {DIVERGED: str(error)}
    finally:
        doing.unlink(missing_ok=True)
    seconds, core_seconds = (round(value, 1) for value in so_far())
    record = Record(task.part, task.seed, task.key, seconds, this_machine().git_commit, facts, core_seconds)
    write_json(file, record.__dict__)
    worked.unlink(missing_ok=True)
    return record


def _spent(file: Path) -> _Spent:
    """What an interrupted measurement of a part left; nothing if there was none."""
    try:
        seconds, core_seconds = map(float, file.read_text(encoding="utf-8").split())
    except (FileNotFoundError, ValueError):
        return _Spent(0.0, 0.0)
    return _Spent(seconds, core_seconds)


def _core_seconds() -> float:
    """Processor time of this process and of those it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _judged(experiment: Experiment, scale: Scale, records: Iterable[Record]) -> tuple[Result, Any]:
    """The result of records, and its picture. A key is of the settings alone: facts may be of an earlier form."""
    records = tuple(records)
    try:
        result = Result.of(changed(experiment, {"seeds": _seeds(experiment, records)}), scale, records)
        return result, experiment.figure(measured(result.records))
    except KeyError as error:
        raise UserError(
            f"{experiment.name} was measured when its facts were others: {error} is not among them",
            fix="measure it anew: --again",
        ) from error


def _draw(result: Result, picture: Any, folder: Path) -> None:
    lines = [f"{result.experiment} · scale: {result.scale} · {result.repetitions} · {result.verdict}"]
    lines += [f"not the paper's scale: {result.smaller}"] if result.smaller else []
    chart = titled(picture, result.title, lines)
    for name in PICTURES:
        with replacing(folder / name) as temporary:
            chart.save(str(temporary), format=name.rpartition(".")[2], **({"ppi": 110} if "png" in name else {}))
