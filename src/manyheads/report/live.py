"""A run watched as it goes: a page on this machine alone, which asks for the rounds that are new."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from manyheads.core.errors import UserError
from manyheads.core.history import record_of
from manyheads.core.plain import to_json
from manyheads.report.render import library
from manyheads.report.runs import RunFacts, curve, progress, run_page, site_rows
from manyheads.run.config_file import RunConfig
from manyheads.run.directory import RunDirectory
from manyheads.run.rounds import RoundFacts

__all__ = ["Live"]

HERE = "127.0.0.1"
LINGER = 3.0
"""seconds that a page which is open is given to fetch the last rounds"""
MOST = 16
"""clients at once: a page asks one thing at a time"""
PATIENCE = 10.0
"""seconds that a client may keep silent"""


class _Follower:
    """A history.jsonl that grows, each line read once."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder, self.config = folder, config
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.rounds: list[RoundFacts] = []
        self._offset = 0
        self._last: int | None = None
        self.damage = ""
        self._directory = RunDirectory(self.folder)

    def run(self) -> RunFacts:
        """The run so far."""
        with self._lock:
            if not self._read():  # cut back to a checkpoint by a resume, or begun again
                self._forget()
                self._read()
            return RunFacts(self.folder, self.config, list(self.rounds))

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
                new_round = RoundFacts.of(record_of(line, len(self.rounds) + 1, path, self._directory.settings))
            except UserError as error:
                self.damage = f" {error}."
                return False
            if new_round.evaluation:  # the sites of the last one are enough
                if self._last is not None and (before := self.rounds[self._last]).evaluation:
                    self.rounds[self._last] = replace(before, evaluation=before.evaluation.without_clients())
                self._last = len(self.rounds)
            self.rounds.append(new_round)
            self._offset += len(line)
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    follower: _Follower
    told = 0
    """rounds that some page has been told of"""
    asked = 0.0
    """when a page last asked"""

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._places = threading.Semaphore(MOST)
        super().__init__(*arguments)

    @property
    def hosts(self) -> set[str]:
        return {f"{name}:{self.server_port}" for name in (HERE, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the client; if there is no place, the one that came first, and still is not done, has to go."""
        wait = 0.0
        while not self._places.acquire(timeout=wait):
            wait = 0.1
            with self._lock, suppress(OSError, StopIteration):
                next(iter(self._open)).shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        self._places.release()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a page that was closed: the terminal is the run's."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    error_message_format = "%(code)d: %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:  # a foreign page whose name was pointed to this machine
            return self.send_error(403, "this page is for this machine alone")
        try:
            url = urlsplit(self.path)
        except ValueError:
            return self.send_error(400, "this is no address")
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
        start = start if start <= len(run.rounds) else 0
        rows = curve(run, run.method, start)
        return {
            "from": start,
            "next": len(run.rounds),
            "rows": rows,
            "sites": site_rows(run, run.method) if rows else [],
            "words": progress(run) + self.server.follower.damage,
            "finished": len(run.rounds) >= run.planned,
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

    def __init__(self, folder: Path, config: RunConfig, port: int = 0) -> None:
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
        known = len(self._server.follower.run().rounds)
        while self._server.told < known and self._server.asked > time.monotonic() - LINGER and time.monotonic() < end:
            time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
