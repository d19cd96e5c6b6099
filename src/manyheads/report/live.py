"""Live page of a run: an HTTP server on the loopback interface; the page polls it for new rounds."""

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
from manyheads.report.run_charts import run_charts
from manyheads.report.run_page import run_page
from manyheads.report.runs import RunFacts, curve, progress, site_rows
from manyheads.run.config_file import RunConfig
from manyheads.run.directory import RunDirectory
from manyheads.run.rounds import RoundFacts

__all__ = ["Live"]

HERE = "127.0.0.1"
LINGER = 3.0
"""seconds that the server waits at the end for an open page to fetch the last rounds"""
MOST = 16
"""largest number of simultaneous connections; a page makes one request at a time"""
SOCKET_TIMEOUT = 10.0
"""seconds after which an idle connection is closed"""


class _Follower:
    """Reads a growing history.jsonl incrementally, each line once."""

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
            if not self._read():  # a resume truncated the file to a checkpoint, or the run was started anew
                self._forget()
                self._read()
            return RunFacts(self.folder, self.config, list(self.rounds), self._directory.about())

    def _read(self) -> bool:
        """Append the rounds of the new complete lines; False if they do not continue those read before."""
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
            if new_round.evaluation:  # only the last evaluation keeps its values per client
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
    sent = 0
    """number of rounds that a page has received"""
    asked = 0.0
    """time of the last request for new rounds"""

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._places = threading.Semaphore(MOST)
        super().__init__(*arguments)

    @property
    def hosts(self) -> set[str]:
        return {f"{name}:{self.server_port}" for name in (HERE, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; at the limit of connections, the oldest open one is closed first."""
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
        """Print nothing when a page closes its connection: the terminal shows the run's progress."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SOCKET_TIMEOUT
    error_message_format = "%(code)d: %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:  # DNS rebinding: a foreign name resolves to this machine
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
        self.server.sent = news["next"]
        return None

    def _news(self, start: int) -> dict[str, Any]:
        """Return the rounds after ``start``; all rounds if the run now has fewer than that."""
        run = self.server.follower.run()
        start = start if start <= len(run.rounds) else 0
        return {
            "from": start,
            "next": len(run.rounds),
            "rows": curve(run, run.method, start),
            "sites": site_rows(run, run.method),
            "charts": list(run_charts([run])),
            "words": progress(run, score=run.split == "validation") + self.server.follower.damage,
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
        """Log nothing: the terminal shows the run's progress."""


class Live:
    """Context manager that serves the live page of a run from the run's files; ``port`` 0 picks a free port."""

    def __init__(self, folder: Path, config: RunConfig, port: int = 0) -> None:
        try:
            self._server = _Server((HERE, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot serve on port {port}: {error}", fix="choose another; 0 is a free one") from None
        self._server.follower = _Follower(folder, config)
        library()  # cached here, not in a server thread while the run may be starting its workers
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
        while self._server.sent < known and self._server.asked > time.monotonic() - LINGER and time.monotonic() < end:
            time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
