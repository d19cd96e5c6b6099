"""Whether worker processes can be started from where we are, and what to do if not.

A forked process is a copy of this one. A spawned one (macOS, Windows) imports the user's script again to find the classes
of what it is sent: so a script must not start its work while it is imported, and nothing else than a file can be imported.
"""

from __future__ import annotations

import ast
import multiprocessing
import pickle
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from manyheads.core.errors import UserError, first_line

__all__ = ["hindrance"]

WHERE = "engine.workers"


def hindrance(method: str, what: str, thing: Any) -> UserError | None:
    """Why processes started by this method could not work with ``thing``, and how to change that; None if they can."""
    try:
        packed = pickle.dumps(thing, protocol=5, buffer_callback=lambda array: None)
    except Exception as error:
        return UserError(
            f"the {what} cannot be sent to worker processes: {first_line(error)}",
            where=WHERE,
            fix="use one worker, or a class that stands in a module of its own, without parametrizations",
        )
    if multiprocessing.current_process().daemon:
        return UserError("this process is a worker itself, and may not start others", where=WHERE, fix="use one worker")
    return None if method == "fork" else _not_spawned(packed)


def _not_spawned(packed: bytes) -> UserError | None:
    main = sys.modules["__main__"]
    name, file = getattr(getattr(main, "__spec__", None), "name", None), getattr(main, "__file__", None)
    if name is None and (file is None or not Path(file).is_file()):  # a notebook, a session, python -c, standard input
        if b"__main__" in packed or file is not None:
            return UserError(
                "worker processes cannot see what was defined in a notebook, a session or standard input",
                where=WHERE,
                fix="put your classes into a file and import them, or use one worker",
            )
        return None
    if name is not None and name.split(".")[-1] == "__main__":  # python -m package, which nobody imports again
        return None
    if file is not None and _runs_when_imported(Path(file)):
        return UserError(
            "worker processes import this script, and would run it again",
            where=WHERE,
            fix='put what it does under `if __name__ == "__main__":`, or use one worker',
        )
    return None


def _runs_when_imported(script: Path) -> bool:
    """Whether the line of the script that is being executed now would also be when the script is imported."""
    line = _line_of(script)
    try:
        statements = ast.parse(script.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # no source: an archive, a frozen program
        return False
    now = [s for s in statements if line is not None and s.lineno <= line <= (s.end_lineno or s.lineno)]
    return any(not _is_guard(statement) for statement in now)


def _is_guard(statement: ast.stmt) -> bool:
    """Whether it is ``if __name__ == "__main__"``."""
    test = statement.test if isinstance(statement, ast.If) else None
    return test is not None and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))


def _line_of(script: Path) -> int | None:
    """The line at which the script's own statements are; None if they do not call us: another thread, or an import."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and Path(code.co_filename).absolute() == script.absolute():
            return frame.f_lineno
        frame = frame.f_back
    return None
