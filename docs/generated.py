"""The reference pages that are written at every build of the site from the code itself: a hook of mkdocs.

A line ``<!-- generated: NAME -->`` in a page is replaced by what the function below of that name gives.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.structure.files import File, Files

from manyheads.cli.app import ABOUT, app_for
from manyheads.core.contract import ALGORITHMS
from manyheads.core.settings import walk
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.experiments.compare import Comparison
from manyheads.metrics import METRICS
from manyheads.models import MODELS
from manyheads.monitors import MONITORS
from manyheads.run.config import Config
from manyheads.theory import PAPERS

RESULTS = Path(__file__).parent.parent / "results"


def on_files(files: Files, config: Any) -> Files:
    """Add the pictures of reproductions, which are beside their numbers and not below docs/."""
    for picture in RESULTS.glob("*/*/*/figure.png"):
        name = picture.relative_to(RESULTS.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = markdown.replace("](../results/", "](results/")
    return re.sub(r"<!-- generated: (\w+) -->", lambda mark: globals()[mark[1]](), markdown)


def commands() -> str:
    """Every command with its arguments and options, as its ``--help`` has them."""
    return "\n\n".join(part for name in ABOUT for part in _command([name]))


def _command(words: list[str]) -> Iterator[str]:
    command = typer.main.get_command(app_for(words))
    context = click.Context(command, info_name="manyheads")
    for word in words:
        command = command.get_command(context, word)
        context = click.Context(command, parent=context, info_name=word)
    yield f"## {' '.join(words)}"
    if isinstance(command, click.Group):
        yield inspect.cleandoc(command.help or "")
        for name in command.list_commands(context):
            yield from _command([*words, name])
        return
    usage = " ".join(piece for piece in command.collect_usage_pieces(context))
    yield f"`{context.command_path} {usage}`"
    yield _prose(inspect.cleandoc(command.help or ""))
    for panel, rows in _panels(command, context).items():
        yield f"*{panel}*"
        yield _table(("", ""), rows)


def _panels(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        argument = isinstance(parameter, click.Argument)
        panel = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "Options")
        name = parameter.human_readable_name if argument else " ".join(parameter.opts)
        kind = "" if argument or parameter.is_flag else f" {parameter.make_metavar(context)}"
        text = (getattr(parameter, "help", None) or "").replace("\\[", "[")
        panels.setdefault(panel, []).append((f"`{name}{kind}`", _cell(text)))
    return panels


def _prose(text: str) -> str:
    """Rich's markup as Markdown, and examples, which are indented by two, as code."""
    text = re.sub(r"\[/?bold\]", "`", text)
    return re.sub(r"^  (?=\S)", "    ", text, flags=re.M)


def _cell(text: Any) -> str:
    return re.sub(r"\[/?bold\]", "", " ".join(str(text).split())).replace("|", "\\|")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _settings(cls: type, prefix: str = "") -> str:
    rows = []
    for setting in walk(cls):
        default = "" if setting.default in (None, "") else f"`{_cell(setting.default)}`"
        rows.append((f"`{prefix}{'.'.join(setting.path)}`", default, _cell(setting.doc)))
    return _table(("setting", "default", ""), rows) if rows else "No settings."


def _by_name(registry: Any, level: str = "###") -> str:
    parts = []
    for name in sorted(registry):
        cls = registry[name]
        parts += [f"{level} {name}", _prose((inspect.getdoc(cls) or "").split("\n\n")[0]), _settings(cls)]
    return "\n\n".join(parts)


def run_settings() -> str:
    return _settings(Config)


def comparison_settings() -> str:
    return _settings(Comparison)


def algorithm_settings() -> str:
    return _by_name(ALGORITHMS)


def model_settings() -> str:
    return _by_name(MODELS)


def data_settings() -> str:
    return _by_name(SOURCES)


def partition_settings() -> str:
    return _by_name(PARTITIONERS)


def theory_settings() -> str:
    return _by_name(PAPERS)


def metrics() -> str:
    return _titles(METRICS)


def monitors() -> str:
    return _titles(MONITORS)


def _titles(registry: Any) -> str:
    found = ((f"`{name}`", _cell(registry[name].title), _first_line(registry[name])) for name in sorted(registry))
    return _table(("name", "title", ""), found)


def _first_line(cls: type) -> str:
    return _cell((inspect.getdoc(cls) or "").split("\n\n")[0])
