"""Servers over two vaults: one that tests only read, with search, and one that they write to, without."""

import hashlib
from pathlib import Path

from tests.vaults import contents, write
from tests.wire import ERAS, HttpServer, HttpWire, StdioWire, Wire

KINDS = [(transport, era) for transport in ("stdio", "http") for era in ERAS]

MANY = {f"many/n{number:02}.md": f"[[many/hub]] number {number}" for number in range(25)}
NOTES: dict[str, str | bytes] = {
    "index.md": "---\ntitle: Index\ntags: [Map, start]\n---\n"
    "[[alpha]], [[Beta Title|b]], [[gamma#h]], [[alpha]], [m](sub/delta.md)\n",
    "alpha.md": "Alpha leads to [[beta]]. #Tutorial #ml",
    "beta.md": "---\ntitle: Beta Title\naliases: [Bee]\ntags: ml, extra\n---\n"
    "[[index]] and [[sub/delta]] and ![[beta]]",
    "sub/gamma.md": "---\ntags: [x, Tutorial]\n---\n[[delta]]",
    "sub/delta.md": "The end.",
    "sub/warned.md": "---\ntags: [one, One, two]\n---\n[[missing-note]] [[alpha]] [m](gone.md) [[missing-note|again]]",
    "broken.md": "---\ntitle: [\n---\nbody #t",
    "date.md": "---\ntitle: 2024-01-15\n---\n",
    "zeros.md": "---\ntitle: 007\n---\n",
    "long.md": "é" * 10_001,
    "exact.md": "x" * 10_000,
    "code.md": "[[alpha]]\n```\n[[beta]]\n```\n~~~\n[[beta]]\n~~~\n`[[beta]]` <!-- [[beta]] -->\n\n"
    "    [[beta]]\n\n| [[sub/delta\\|d]] | ![[gamma#^block]] |\n",
    "many/hub.md": f"[[n03]] [[n01]] [[hub]] {'h' * 600}",
    "garden.md": "# Soil\n\nTomatoes and beans grow best in loose, fertile earth with plenty of sunshine.\n",
    "money.md": "Compound interest lets savings in a bank account grow year after year.\n",
    "engines.md": "A locomotive turns steam pressure into motion through pistons and driving wheels.\n",
    "Locomotive history.md": "Stephenson built the Rocket.\n",
    **MANY,
}


def digest(vault: Path) -> str:
    """Of every file and its time: anything that is written changes it."""
    found = hashlib.sha256()
    for name, content in contents(vault).items():
        found.update(f"{name}\0{(vault / name).stat().st_mtime_ns}\0".encode() + content)
    return found.hexdigest()


class NoteServers:
    """One stdio server for each protocol revision, and one HTTP server for both."""

    def __init__(self, folder: Path, notes: dict[str, str | bytes], **env: str) -> None:
        self.folder = folder
        self.vault = write(folder / "notes", notes)
        self._env = env
        self._http: HttpServer | None = None
        self._wires: dict[tuple[str, str], StdioWire | HttpWire] = {}

    def wire(self, transport: str, era: str) -> Wire:
        if (key := (transport, era)) not in self._wires:
            if transport == "stdio":
                self._wires[key] = StdioWire(era, "--toolsets", "notes", cwd=self.folder, **self._env)
            else:
                if self._http is None:
                    self._http = HttpServer("--toolsets", "notes", cwd=self.folder, **self._env)
                self._wires[key] = HttpWire(era, self._http.url, "/notes/mcp")
        return self._wires[key]

    def close(self) -> None:
        for each in self._wires.values():
            each.close()
        if self._http:
            assert self._http.stop() == 143
