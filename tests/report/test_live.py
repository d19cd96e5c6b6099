"""The live view: a real server, real requests, real runs."""

from __future__ import annotations

import html
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from processes import PATIENCE, until

from manyheads import Evaluate, FedAvg, simulate
from manyheads.cli import main
from manyheads.core.errors import UserError
from manyheads.core.sealed import sealed_json, unsealed_json
from manyheads.data import Classes, Digits, federate
from manyheads.report.live import MOST, Live, _Handler
from manyheads.report.runs import read_run
from manyheads.run.directory import RunDirectory

FEDERATION = federate(Digits().pool(0), Classes(3), clients=8, seed=0)
RUN = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "6", "--algorithm", "fedrep", "--seed", "3"]


@pytest.fixture
def run(trained):
    """A finished run's folder."""
    return trained["fedrep"]


@pytest.fixture
def live(run):
    with Live(run, read_run(run).config) as server:
        yield server


def port_of(server):
    return int(server.address.rsplit(":", 1)[1].strip("/"))


def ask(server, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port_of(server)}")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_page_and_history(live, run):
    status, body = ask(live)
    assert status == 200
    text = html.unescape(body.decode())
    assert "FedRep" in text
    assert "connect-src 'self'" in text
    status, body = ask(live, "/history?from=0", host=f"localhost:{port_of(live)}")
    news = json.loads(body)
    records = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert news["next"] == len(records) == 4
    assert news["finished"]
    sent = 0
    for row, record in zip(news["rows"], records, strict=True):
        sent += record["bytes_up"] + record["bytes_down"]
        assert row["round"] == record["round"]
        assert row["accuracy"] == pytest.approx(100 * record["evaluation"]["accuracy"], rel=1e-4)
        assert row["mb"] == pytest.approx(sent / 1e6, rel=1e-3)
    assert [s["value"] for s in news["sites"]] == sorted((s["value"] for s in news["sites"]), reverse=True)
    later = json.loads(ask(live, "/history?from=3")[1])
    assert later["rows"] == news["rows"][3:]
    assert json.loads(ask(live, "/history?from=4")[1])["rows"] == []
    again = json.loads(ask(live, "/history?from=99")[1])  # a run begun again has fewer
    assert (again["from"], again["rows"]) == (0, news["rows"])


def test_whose_data_it_is(live, run):
    about = RunDirectory(run).about()
    assert (about.clients, about.test) == (8, sum(FEDERATION.test.sizes))
    text = html.unescape(ask(live)[1].decode())
    assert f"digits: 8 sites; {about.train:,} training" in text
    assert f"and {about.test} test samples." in text


def shown(text):
    """The text of a page outside what has to be opened."""
    return re.sub("<details>.*?</details>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_test_scores_are_behind_a_switch_and_validation_scores_are_not(tmp_path, split):
    federation = FEDERATION.with_validation(0.2, 0)
    simulate(FedAvg(), "mlp", federation, rounds=2, evaluate=Evaluate(split=split), out=tmp_path / "run")
    with Live(tmp_path / "run", read_run(tmp_path / "run").config) as server:
        page = ask(server)[1].decode()
        words = json.loads(ask(server, "/history")[1])["words"]
    scores = {"rounds", "bytes", "sites", "loss"}
    drawn = set(re.findall('data-chart="(.*?)"', shown(page)))
    assert drawn >= {"training-loss"} | scores if split == "validation" else drawn == {"training-loss"}
    assert scores <= set(re.findall('data-chart="(.*?)"', page))
    assert ("Show the test scores" in page) == (split == "test")
    assert ("validation accuracy" in words) == (split == "validation")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example", ""])
def test_foreign_names_are_refused(live, host):
    status, body = ask(live, "/history?from=0", host=host)
    assert status == 403
    assert b"rows" not in body


@pytest.mark.parametrize(
    "path", ["/config.toml", "/../config.toml", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/history/../config.toml"]
)
def test_no_file_can_be_asked_for(live, path):
    assert ask(live, path)[0] == 404


@pytest.mark.parametrize("start", ["-1", "x", "1.5", "%C2%B2", "9" * 5000])
def test_wrong_numbers_are_refused(live, start):
    assert ask(live, f"/history?from={start}")[0] == 400


@pytest.mark.parametrize("path", ["http://[x/history", "http://[::1/", "http://]"])
def test_a_malformed_address_is_one_line(live, path, capfd):
    assert ask(live, path) == (400, b"400: this is no address\n")
    assert capfd.readouterr().err == ""


def test_silent_clients_keep_nobody_out_and_hold_few_threads(live):
    """Each sends half a request; those that came first have to go."""
    silent = []
    for _ in range(5 * MOST):
        silent.append(socket.create_connection(("127.0.0.1", port_of(live)), timeout=PATIENCE))
        silent[-1].sendall(b"GET / HT")
    until(lambda: any(live._server._open))
    assert ask(live, "/history")[0] == 200
    handlers = [t for t in threading.enumerate() if "process_request_thread" in t.name]
    assert len(handlers) <= MOST
    assert silent[0].recv(1) == b""
    for client in silent:
        client.close()


def test_a_client_that_keeps_silent_is_let_go(live, monkeypatch):
    monkeypatch.setattr(_Handler, "timeout", 0.05)
    with socket.create_connection(("127.0.0.1", port_of(live)), timeout=PATIENCE) as client:
        assert client.recv(1) == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get(live, method):
    assert ask(live, "/", method=method)[0] == 501


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net/tcp")
def test_only_this_machine(live):
    port = port_of(live)
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path("/proc/net", kind).read_text().splitlines()]
    listening = [line[1] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "0A"]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_port_in_use_is_one_line(live, run):
    with pytest.raises(UserError, match="cannot serve on port .*choose another"):
        Live(run, {}, port_of(live))


def test_the_port_is_free_afterwards(run):
    with Live(run, read_run(run).config) as server:
        port = port_of(server)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))


def test_lines_as_they_come_even_in_halves_and_after_a_resume(run, tmp_path):
    config = read_run(run).config
    lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
    history = tmp_path / "history.jsonl"
    shutil.copy(run / "config.toml", tmp_path)  # written first
    with Live(tmp_path, config) as server:

        def news(start):
            return json.loads(ask(server, f"/history?from={start}")[1])

        assert news(0) == {
            "from": 0,
            "next": 0,
            "rows": [],
            "sites": [],
            "charts": [],
            "words": "FedRep: 0 of 4 rounds.",
            "finished": False,
        }
        assert b"Waiting for the first round" in ask(server)[1]
        history.write_text(lines[0] + lines[1][:50])
        assert [r["round"] for r in news(0)["rows"]] == [1]
        history.write_text("".join(lines[:3]))
        assert [r["round"] for r in news(1)["rows"]] == [2, 3]
        history.write_text("".join(lines[:2]))  # back to a checkpoint
        assert [r["round"] for r in news(3)["rows"]] == [1, 2]
        of = RunDirectory(run).settings
        longer = ({"longer": True, **unsealed_json(line.encode(), "line", of)} for line in lines)
        changed = [sealed_json(record, of=of) + "\n" for record in longer]
        history.write_text("".join(changed))  # rewritten and grown since
        assert [r["round"] for r in news(2)["rows"]] == [3, 4]
        assert news(2)["finished"]


def command(*arguments):
    return [sys.executable, "-m", "manyheads", *map(str, arguments)]


def address_in(stream):
    """The address that a command prints on its error stream."""
    for line in stream:
        if "http://" in line:
            return next(word for word in line.split() if word.startswith("http://"))
    raise AssertionError("no address")


def test_a_run_is_the_same_when_it_is_watched(tmp_path, capsys):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    common = ["--rounds", 25, "--workers", 2, "--json"]
    with pytest.raises(SystemExit):
        main([str(a) for a in (*RUN, *common, "--out", tmp_path / "plain")])
    one = json.loads(capsys.readouterr().out)
    patient = (  # the run waits for this page, however slow it is
        "import manyheads.report.live as live; live.LINGER, live._Server.asked = 240, float('inf'); "
        "from manyheads.cli import main; main()"
    )
    watched = command(*RUN, *common, "--out", tmp_path / "live", "--live")
    with subprocess.Popen(
        [sys.executable, "-c", patient, *watched[3:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        address = address_in(process.stderr)
        seen, rest = [], []
        reader = threading.Thread(target=lambda: rest.extend(process.stderr))
        reader.start()
        while not seen or not seen[-1]["finished"]:
            with urlopen(f"{address}history?from={seen[-1]['next'] if seen else 0}", timeout=PATIENCE) as answer:
                seen.append(json.load(answer))
            time.sleep(0.02)
        out = process.stdout.read()
        reader.join()
    assert process.returncode == 0
    rounds = [row["round"] for news in seen for row in news["rows"]]
    assert rounds == list(range(1, 26))
    assert any("manyheads report" in line for line in rest)
    other = json.loads(out)
    assert one["checksum"] == other["checksum"]
    assert one["accuracy"] == other["accuracy"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped(run, number):
    with subprocess.Popen(
        command("live", run, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        address = address_in(process.stderr)
        assert json.loads(process.stdout.readline()) == {"address": address}
        with urlopen(f"{address}history", timeout=PATIENCE) as answer:
            assert json.load(answer)["finished"]
        process.send_signal(number)
        assert process.wait() == 0
        assert process.stderr.read() == "ended\n"


def test_stopped_before_it_serves_it_has_ended_too(run):
    """Wherever the interrupt comes, from the moment that there is an address."""
    early = """
import signal, sys
from manyheads.cli import main
from manyheads.report.live import MOST, Live, _Handler

enter = Live.__enter__
def entered(self):
    signal.raise_signal(signal.SIGINT)
    return enter(self)
Live.__enter__ = entered
main()
"""
    done = subprocess.run([sys.executable, "-c", early, "live", run], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "ended\n")
