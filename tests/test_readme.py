"""The README's example does what it says."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    exec(compile(code, "README.md", "exec"), {})
    accuracy, _, protocol = capsys.readouterr().out.partition(" = ")
    assert float(accuracy) > 0.8
    assert "personal model" in protocol
    assert (tmp_path / "runs" / "first" / "config.toml").exists()


def test_the_two_commands_are_on_top():
    top = README.read_text().split("##")[0]
    assert "make demo" in top
    assert "make test" in top
