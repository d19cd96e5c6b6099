"""A run watched as it goes: a page on this machine alone, which asks for the rounds that are new."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from manyheads.core.errors import Damaged, UserError
from manyheads.core.history import record_of
from manyheads.core.plain import to_json
from manyheads.report.render import library
from manyheads.report.runs import RunFacts, curve, progress, run_page, site_rows

__all__ = ["Live"]

HERE = "127.0.0.1"
LINGER = 3.0
"""seconds that a page which is open is given to fetch the last rounds"""


class _Follower:
    """A history.jsonl that grows, each line read once."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder, self.config = folder, config
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._offset = self._sites = 0
        self.damage = ""

    def run(self) -> RunFacts:
        """The run so far."""
        with self._lock:
            if not self._read():  # cut back to a checkpoint by a resume, or begun again
                self._forget()
                self._read()
            return RunFacts(self.folder, self.config, list(self.records))

    def _read(self) -> bool:
        """Take in the lines that are complete; False if they do not continue those before."""
        path = self.folder / "history.jsonl"
        if not path.exists() or path.stat().st_size < self._offset:
            return self._offset == 0
        with open(path, "rb") as file:
            file.seek(self._offset)
            new = file.read()
        for line in new[: new.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                record = record_of(line, len(self.records) + 1, path)
            except Damaged as error:
                self.damage = f" {error}."
                return False
            if "evaluation" in record:  # the sites of the last one are enough
                for older in self.records[self._sites :]:
                    older.get("evaluation", {}).pop("per_client", None)
                self._sites = len(self.records)
            self.records.append(record)
            self._offset += len(line)
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    follower: _Follower
    told = 0
    """rounds that some page has been told of"""
    asked = 0.0
    """when a page last asked"""

    @property
    def hosts(self) -> set[str]:
        return {f"{name}:{self.server_port}" for name in (HERE, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a page that was closed is no error
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:  # a foreign page whose name was pointed to this machine
            return self.send_error(403, "this page is for this machine alone")
        url = urlsplit(self.path)
        if url.path == "/":
            return self._answer("text/html", run_page([self.server.follower.run()], live=True))
        if url.path != "/history":
            return self.send_error(404)
        start = parse_qs(url.query).get("from", ["0"])[0]
        if not (start.isascii() and start.isdigit() and len(start) < 10):
            return self.send_error(400, "from is the number of rounds that are known")
        self.server.asked = time.monotonic()
        news = self._news(int(start))
        self._answer("application/json", to_json(news))
        self.server.told = news["next"]
        return None

    def _news(self, start: int) -> dict[str, Any]:
        """What is new after ``start`` rounds; from the beginning if there are not that many any more."""
        run = self.server.follower.run()
        start = start if start <= len(run.history) else 0
        before = sum(r["bytes_up"] + r["bytes_down"] for r in run.history[:start])
        rows = curve(run.history[start:], run.method, before)
        return {
            "from": start,
            "next": len(run.history),
            "rows": rows,
            "sites": site_rows(run.evaluation, run.method) if rows else [],
            "words": progress(run) + self.server.follower.damage,
            "finished": len(run.history) >= run.config["rounds"],
        }

    def _answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the run's."""


class Live:
    """Serves the page of a run, reading its files only; a context. ``port`` 0 is a free one."""

    def __init__(self, folder: Path, config: Mapping[str, Any], port: int = 0) -> None:
        try:
            self._server = _Server((HERE, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot serve on port {port}: {error}", fix="choose another; 0 is a free one") from None
        self._server.follower = _Follower(folder, config)
        library()  # made here once: not in a thread, while the run may be starting its workers
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://{HERE}:{self._server.server_port}/"

    def __enter__(self) -> Live:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        end = time.monotonic() + LINGER
        known = len(self._server.follower.run().history)
        while self._server.told < known and self._server.asked > time.monotonic() - LINGER and time.monotonic() < end:
            time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
