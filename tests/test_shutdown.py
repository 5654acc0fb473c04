"""A server that is told to stop while a call is in flight: another process holds the database's lock meanwhile."""

import signal
import sqlite3
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.databases import prepare_desk
from tests.wire import ERAS, MODERN, HttpServer, HttpWire, StdioWire, call, value

ADD = {"name": "add_task", "arguments": {"user_id": "ana", "title": "in flight"}}


@contextmanager
def locked(folder: Path) -> Generator[sqlite3.Connection]:
    """Nobody else can write until the transaction ends."""
    with closing(sqlite3.connect(folder / ".carrel" / "carrel.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def titles(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / ".carrel" / "carrel.db")) as connection:
        return [row[0] for row in connection.execute("SELECT title FROM task")]


def begin(wire: StdioWire) -> None:
    """Start the call; when what came after it is answered it has reached the server, and it waits a moment later."""
    wire.begin("tools/call", ADD)
    assert "tools" in wire.request("tools/list")["result"]
    time.sleep(0.2)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stdio_finishes_a_call_that_waits_for_the_database(tmp_path: Path, era: str, number: signal.Signals) -> None:
    wire = StdioWire(era, cwd=prepare_desk(tmp_path))
    with locked(tmp_path) as lock:
        begin(wire)
        wire.process.send_signal(number)
        time.sleep(0.5)
        assert wire.process.poll() is None
        lock.execute("ROLLBACK")
        assert value(wire.receive()["result"])["status"] == "created"
    assert wire.process.wait(10) == 128 + number
    assert titles(tmp_path) == ["in flight"]
    wire.close()


@pytest.mark.parametrize("era", ERAS)
def test_http_finishes_a_call_that_waits_for_the_database(tmp_path: Path, era: str) -> None:
    server = HttpServer(cwd=prepare_desk(tmp_path))
    wire = HttpWire(era, server.url)
    with locked(tmp_path) as lock, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, wire, ADD["name"], ADD["arguments"])
        time.sleep(1)  # for the call to reach the server: there is no event to see from outside
        server.process.terminate()
        time.sleep(0.5)
        assert server.process.poll() is None
        lock.execute("ROLLBACK")
        assert value(answer.result())["status"] == "created"
    wire.close()
    assert server.stop() == 143
    assert titles(tmp_path) == ["in flight"]


@pytest.mark.slow
def test_a_call_that_does_not_end_holds_the_server_up_for_5_seconds_and_no_longer(tmp_path: Path) -> None:
    wire = StdioWire(MODERN, cwd=prepare_desk(tmp_path))
    with locked(tmp_path):
        begin(wire)
        started = time.monotonic()
        wire.end_input()
        assert wire.process.wait(15) == 0
        assert time.monotonic() - started < 8
    assert titles(tmp_path) == []
    wire.close()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    wire = StdioWire(MODERN, cwd=prepare_desk(tmp_path))
    with locked(tmp_path):
        begin(wire)
        wire.process.terminate()
        time.sleep(0.3)
        started = time.monotonic()
        wire.process.terminate()
        assert wire.process.wait(10) == 143
        assert time.monotonic() - started < 2
    assert titles(tmp_path) == []
    wire.close()


def test_signals_that_go_on_and_on_do_not_change_the_exit_status(tmp_path: Path) -> None:
    server = HttpServer(cwd=prepare_desk(tmp_path))
    while server.process.poll() is None:
        server.process.terminate()
        time.sleep(0.003)
    assert server.stop() == 143
