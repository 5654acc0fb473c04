"""A small code base, what was learned about it, and servers of every kind over both."""

import json
import os
from pathlib import Path
from typing import Any

from tests.code_trees import tree
from tests.databases import prepare_sqlite
from tests.program import run_carrel_here
from tests.wire import ERAS, HttpServer, HttpWire, StdioWire, Wire, call, value

ENGINES = ("sqlite", "postgres")
KINDS = [(engine, transport, era) for engine in ENGINES for transport in ("stdio", "http") for era in ERAS]

FILES = {
    "src/auth/tokens.py": 'import os\n\n\ndef sign_token(payload):\n    """Sign a payload."""\n    return payload\n',
    "src/auth/sessions.py": "class Lantern:\n    pass\n",
    "src/api/login.py": "from auth.tokens import sign_token\n\n\ndef login(user):\n    return sign_token(user)\n",
    "src/api/broken.py": "import os\ndef (\n",
    "src/api/broken.ts": 'import { a } from "./gone";\nimport "./other\nexport const x = 1;\n',
    "docs/guide.md": "# Guide\n\nHow the marmalade factory ferments its quinces.\n",
    "ignored/notes.md": "quinces that git ignores\n",
    "dist/out.js": "quinces();\n",
    ".gitignore": "ignored/\n",
    ".env": "QUINCES=1\n",
    "wide.txt": "",
    "data.bin": "",
    "large.txt": "",
}
CHANGED = 1_736_931_600
"""When every file was changed: 2025-01-15T09:00:00Z."""
DATE = "2025-01-15T09:00:00.000Z"


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


COOKIES = {
    "id": uid(1),
    "type": "pattern",
    "content": "Use JWT tokens in httpOnly cookies",
    "module": "auth",
    "session": uid(9),
    "date": "2025-01-15T10:00:00.000Z",
}
DISCOVERIES: list[dict[str, Any]] = [
    COOKIES,
    *({**COOKIES, "id": uid(number), "content": "Zephyr zebras zigzag", "session": None} for number in (4, 2, 3)),
    {**COOKIES, "id": uid(5), "type": "issue", "content": "Zephyr race", "module": "api", "session": None},
    {**COOKIES, "id": uid(6), "type": "rule", "content": "Zephyr rule without a module", "module": None},
    {**COOKIES, "id": uid(7), "type": "decision", "content": "Zephyr decision", "module": "Auth"},
]
SETTINGS = """
[code.limits]
context_search = 0
read_file = 0
grep_codebase = 0
"""
WORDS_ONLY = {"CARREL_EMBEDDINGS_PROVIDER": "none"}


def write_code_base(root: Path, settings: str = SETTINGS) -> Path:
    tree(root, FILES)
    (root / "wide.txt").write_text("na\u00efve caf\u00e9\n", encoding="utf-16")
    (root / "data.bin").write_bytes(b"\x7fELF\0\0\0")
    (root / "large.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    (root / "carrel.toml").write_text(settings, encoding="utf-8")
    for path in root.rglob("*"):
        os.utime(path, (CHANGED, CHANGED))
    return root


def run(folder: Path, url: str, *words: str | Path) -> str:
    done = run_carrel_here(*words, cwd=folder, CARREL_DATABASE_URL=url, **WORDS_ONLY)
    assert done.returncode == 0, done
    return done.stdout


def learn(folder: Path, url: str) -> str:
    """Import the discoveries and add a session; the session's id."""
    lines = folder / ".carrel" / "discoveries.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in DISCOVERIES), encoding="utf-8")
    run(folder, url, "discoveries", "import", lines)
    words = ("--title", "Kettles", "--module", "auth", "--date", "2025-01-15T11:00:00Z")
    return json.loads(run(folder, url, "sessions", "add", *words, "--json", "Mended the zephyr kettle"))["id"]


class CodeServers:
    """A stdio server for each engine and protocol revision, and an HTTP server for each engine."""

    def __init__(self, folder: Path, urls: dict[str, str], **env: str) -> None:
        self.folder = folder
        self.urls = urls
        self.env = env
        self._http: dict[str, HttpServer] = {}
        self._wires: dict[tuple[str, str, str], StdioWire | HttpWire] = {}

    def wire(self, engine: str, transport: str, era: str) -> Wire:
        if (key := (engine, transport, era)) not in self._wires:
            words = ("--toolsets", "code", "--database", self.urls[engine])
            if transport == "stdio":
                self._wires[key] = StdioWire(era, *words, cwd=self.folder, **self.env)
            else:
                if engine not in self._http:
                    self._http[engine] = HttpServer(*words, cwd=self.folder, **self.env)
                self._wires[key] = HttpWire(era, self._http[engine].url, "/code/mcp")
        return self._wires[key]

    def close(self) -> None:
        for each in self._wires.values():
            each.close()
        for server in self._http.values():
            assert server.stop() == 143


def prepare(folder: Path) -> str:
    """A code base in a folder, with its database in place; the database's URL."""
    write_code_base(folder)
    return f"sqlite:///{prepare_sqlite(folder / '.carrel' / 'carrel.db').path}"


def text(wire: Wire, name: str, **arguments: Any) -> str:
    """The one text block of a success, whose structured content says the same."""
    result = call(wire, name, arguments)
    assert result.get("isError") in (False, None), result
    (block,) = result["content"]
    assert (block["type"], json.dumps(result["structuredContent"])) == ("text", json.dumps(json.loads(block["text"])))
    return block["text"]


def ok(wire: Wire, name: str, **arguments: Any) -> Any:
    return json.loads(text(wire, name, **arguments))


def error(wire: Wire, name: str, **arguments: Any) -> Any:
    """The error object; that it is one, and that it comes with nothing else, is checked on the way."""
    result = call(wire, name, arguments)
    assert result["isError"] is True, result
    assert "structuredContent" not in result
    found = value(result)
    assert next(iter(found)) == "error"
    return found
