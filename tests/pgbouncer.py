"""A real pgbouncer in transaction mode before a PostgreSQL server."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.postgres import UNPRIVILEGED
from tests.programs import required

SETTINGS = """
[databases]
* = host={host} port={port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = {connections}
server_login_retry = 1
logfile = {folder}/log
"""


class PgBouncer:
    """Runs as an unprivileged user when the tests run as root, which pgbouncer refuses to."""

    def __init__(self, server_url: str, *, connections: int = 6) -> None:
        program = required("pgbouncer")
        self._folder = Path(tempfile.mkdtemp(prefix="carrel-pgbouncer-"))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        place = urlsplit(server_url)
        given = {"host": place.hostname, "port": place.port, "own_port": self.port}
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(**given, connections=connections, folder=self._folder))
        user = UNPRIVILEGED if os.geteuid() == 0 else None
        if user:
            shutil.chown(self._folder, user)
        self._process = subprocess.Popen([program, "--quiet", settings], user=user, cwd=self._folder)
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url(server_url), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")) from None
                time.sleep(0.05)

    def url(self, url: str) -> str:
        """The same database through this."""
        return f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(url).path}"

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)
