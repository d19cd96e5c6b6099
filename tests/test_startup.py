"""What starts fast stays so: heavy packages are imported by what uses them, not by what only might."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from manyheads.cli.app import ABOUT, app_for

HEAVY = {
    "PIL",
    "altair",
    "datasets",
    "jinja2",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "openpyxl",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "vl_convert",
}
HELP = "import sys; sys.argv = ['manyheads', *{}, '--help']\ntry: from manyheads.cli import main; main()\nexcept SystemExit: pass"


def imported(code: str) -> set[str]:
    """Top-level packages that a new process has imported after ``code``."""
    code += "\nimport sys; print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [[], ["report"], ["live"]], ids=str)
def test_help_that_needs_no_torch_does_without(words):
    found = imported(HELP.format(words))
    assert "typer" in found
    assert not found & (HEAVY | {"torch", "numpy"})


def test_the_import_itself_is_nearly_nothing():
    assert not imported("import manyheads") & (HEAVY | {"torch", "numpy", "pydantic", "typer"})


def test_heavy_packages_wait_until_they_are_used():
    """One process for all, since torch takes its time: what none of them imports, each of them does without."""
    words = (["run"], ["compare"], ["data", "describe"], ["theory"])
    found = imported("\n".join(["import manyheads.api", *(HELP.format(w) for w in words)]))
    assert "torch" in found
    assert not found & HEAVY


def test_the_first_line_of_every_help_is_what_the_list_of_commands_says():
    folder = Path(import_module("manyheads.cli").__file__).parent
    for name, about in ABOUT.items():
        module = import_module(f"manyheads.cli.{name}")
        assert (folder / f"{name}.py").exists()
        if not hasattr(module, f"{name}_app"):
            assert " ".join(getattr(module, name).__doc__.split("\n\n")[0].split()) == about


def test_a_run_on_digits_needs_none_of_them(tmp_path):
    words = ["manyheads", "run", "--data", "digits", "--rounds", "1", "--json", "--out", str(tmp_path / "run")]
    found = imported(HELP.replace("['manyheads', *{}, '--help']", repr(words)))
    assert (tmp_path / "run" / "history.jsonl").exists()
    assert not found & HEAVY


def test_options_are_described_only_if_help_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr("manyheads.cli.flags._help", lambda setting: asked.append(setting.path) or "")
    app_for(["run", "--data", "digits"])
    assert not asked
    app_for(["run", "--data", "digits", "--help"])
    assert ("rounds",) in asked
