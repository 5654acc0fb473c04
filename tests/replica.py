"""A real PostgreSQL server with a streaming replica."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import psycopg

from tests.postgres import PostgresServer


class ReplicatedServer(PostgresServer):
    """`pause_replay` makes its replica fall behind, as if it were slow."""

    def start(self) -> None:
        self._process = self._serve(self._data, self.port, wal_level="replica", max_wal_senders=4)
        _wait(self.url, self._process)

    def start_replica(self) -> None:
        """A copy of the server at first, then the same copy again."""
        data = self._folder / "replica"
        if not data.exists():
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self._replica_port = probe.getsockname()[1]
            source = ("--host", "127.0.0.1", "--port", self.port, "--username", "postgres")
            self._run("pg_basebackup", *source, "--pgdata", data, "-R", "--checkpoint", "fast", "--no-sync")
        self._replica = self._serve(data, self._replica_port, hot_standby_feedback="on")
        _wait(self.replica_url, self._replica)

    def stop_replica(self) -> None:
        self._replica.send_signal(signal.SIGINT)
        self._replica.wait(30)

    def replica_url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._replica_port}/{database}"

    def pause_replay(self) -> None:
        self._on_replica("SELECT pg_wal_replay_pause()")
        while self._on_replica("SELECT pg_get_wal_replay_pause_state()") != "paused":
            time.sleep(0.01)

    def resume_replay(self) -> None:
        self._on_replica("SELECT pg_wal_replay_resume()")

    def close(self) -> None:
        if self._replica.poll() is None:
            self.stop_replica()
        super().close()

    def _on_replica(self, query: str) -> Any:
        with psycopg.connect(self.replica_url(), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            return row and row[0]

    def _serve(self, data: Any, port: int, **more: object) -> "subprocess.Popen[Any]":
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": port,
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": 200,
            "shared_buffers": "64MB",
            **more,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            program = [self._programs / "postgres", "-D", data, *options]
            return subprocess.Popen[Any](program, stdout=log, stderr=log, **self._as_user)


def _wait(url: Callable[[], str], process: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url(), connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            assert process.poll() is None, "the server ended"
            time.sleep(0.05)
