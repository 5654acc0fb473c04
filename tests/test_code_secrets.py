"""Nothing that read_file denies gets out: not by a tool, a resource or a command, nor into the log or an index."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.code_trees import tree
from tests.databases import prepare_desk, query
from tests.program import run_carrel_here
from tests.wire import MODERN, HttpServer, HttpWire, call, value

MARK = "hunter"
"""In every secret and in nothing else."""
DENIED = (
    # environments
    ".env",
    ".env.local",
    ".env.production",
    ".env.py",
    ".envrc",
    ".ENV",
    ".Env.Staging",
    "src/.env",
    "src/.env.d/settings.py",
    "src/.env.md",
    # keys
    "server.pem",
    "src/tls/server.key",
    "src/tls/Server.PEM",
    "id_rsa",
    "id_rsa.pub",
    "id_rsa_old/readme.md",
    "deploy/id_ed25519",
    "deploy/ID_ED25519.py",
    "deploy/id_dsa",
    "deploy/id_ecdsa.py",
    "src/tls/store.p12",
    "src/tls/store.PFX",
    "src/tls/store.jks",
    "src/tls/store.keystore",
    # more environments, credentials of programs, and our own settings
    ".env-staging",
    "src/production.env",
    "src/.netrc",
    "src/.npmrc",
    "src/.pypirc",
    "src/.git-credentials",
    "src/.htpasswd",
    "src/carrel.toml",
    "src/.carrel/plans.py",
    # copies
    "src/.env~",
    "src/tls/server.key.bak",
    "src/.netrc.old",
    "src/carrel.toml.orig",
    "src/production.env.save",
    "src/.npmrc.swp",
    # folders
    ".git/config",
    ".git/hooks/post.py",
    "src/.git/notes.md",
    ".GIT/HEAD.md",
    "node_modules/left/index.js",
    "src/node_modules/right/index.py",
    "Node_Modules/upper.js",
    "notes/node_modules/package.md",
    "notes/.git/config.md",
    # what a careless reader takes for the same
    "src/.env ",
    "src/.env.",
    "src/\uff0eenv",
    "src/.e\u200bnv",
    "src/.en\u00advrc",
    "src/\uff49\uff44_rsa.py",
    "src/node\u200c_modules/odd.py",
    "src/\u212aey.key",
    # the settings
    "vault.secret",
    "src/deep/vault.secret",
    "private/plans.py",
    "private/deep/plans.md",
    "src/hidden/plans.py",
)
SETTINGS = """
[code]
deny = ["*.secret", "private", "src/hidden/**"]

[code.limits]
context_search = 0
read_file = 0
grep_codebase = 0

[embeddings]
provider = "none"
"""
LINKS = {
    "link-to-env.py": ".env",
    "link-to-git": ".git",
    "link-to-folder": "private",
    "src/link.py": "../server.pem",
    "link-to-link.md": "link-to-env.py",
    "notes/linked.md": "../.env",
}
IMPORTS = {
    "src/imports.py": (
        "import private.plans\nfrom . import hidden\nfrom .hidden import plans\nfrom src.hidden.plans import x\n"
    ),
    "src/imports.js": (
        'import a from "../node_modules/left/index.js";\nimport b from "left";\nrequire("../.env");\n'
        'require("./tls/server.key");\nimport("../private/plans.py");\nimport c from "../link-to-env.py";\n'
    ),
    "src/imports.c": '#include "../.env"\n#include "tls/server.key"\n#include "link.py"\n#include "../vault.secret"\n',
    "src/imports.rb": 'require_relative "../private/plans"\nload "../.env"\n',
    "src/imports.php": '<?php\ninclude "../.env";\nrequire __DIR__ . "/../vault.secret";\n',
    "src/imports.ts": 'import x from "@keys/server";\nimport y from "@env";\n',
    "src/tsconfig.json": json.dumps(
        {
            "extends": "../.env",
            "compilerOptions": {"baseUrl": ".", "paths": {"@keys/*": ["tls/*.key"], "@env": ["../.env"]}},
        }
    ),
}
ALLOWED = {
    "src/main.py": "def beacon():\n    return 'visible'\n",
    ".env.example": "BEACON=visible\n",
    "docs/node_modules.md": "A beacon about packages.\n",
    "src/foo.env.ts": "export const beacon = 1;\n",
    "notes/welcome.md": "A beacon for notes.\n",
    "ignored/plans.py": "def beacon_that_git_ignores():\n    return 'marmot'\n",
    ".gitignore": "ignored/\n",
}


def secret(number: int) -> str:
    return f"{MARK}{number:03}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepare_desk(tmp_path_factory.mktemp("secrets"))
    planted = {path: f"def {secret(number)}():\n    return '{secret(number)}'\n" for number, path in enumerate(DENIED)}
    tree(folder, {**planted, **IMPORTS, **ALLOWED, "carrel.toml": SETTINGS})
    for link, target in LINKS.items():
        os.symlink(target, folder / link)
    outside = folder.parent / f"{folder.name}-outside.py"
    outside.write_text(f"{secret(900)} = 1\n", encoding="utf-8")
    os.symlink(outside, folder / "outside.py")
    os.symlink(folder.parent, folder / "parent")
    return folder


class Everything:
    """A server, and all that it has ever answered."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.server = HttpServer("--toolsets", "notes,code", *words, cwd=folder)
        self._wire = HttpWire(MODERN, self.server.url)
        self.heard: list[str] = []

    def call(self, tool: str, **arguments: Any) -> Any:
        result = call(self._wire, tool, arguments)
        found = value(result)
        kept = dict(found) if isinstance(found, dict) else {"all": found}
        for echo in ("pattern", "query", "path", "message"):  # what was asked comes back as it was
            kept.pop(echo, None)
        self.heard.append(json.dumps(kept))
        return found

    def request(self, method: str, params: dict[str, Any]) -> Any:
        response = self._wire.request(method, params)
        self.heard.append(json.dumps(response))
        return response

    def close(self) -> None:
        self._wire.close()
        assert self.server.stop() == 143


@pytest.fixture(scope="module")
def asked(folder: Path) -> Everything:
    """Everything that could bring a secret out has been asked of this one; it has ended."""
    desk = Everything(folder)
    try:
        _read(desk)
        _grep(desk)
        _search(desk)
        _look_at_notes(desk)
    finally:
        desk.close()
    return desk


def _read(desk: Everything) -> None:
    for path in (*DENIED, *LINKS, "link-to-git/config", "link-to-folder/plans.py", "outside.py", "parent/x"):
        for more in ({}, {"includeDeps": True}):
            assert desk.call("read_file", path=path, **more) == {"error": "Permission denied", "path": path}
        variant = f"./{path.replace('/', '//')}"
        assert desk.call("read_file", path=variant)["error"] == "Permission denied"
    for path in ("src/../.env", "src\\..\\.env"):
        assert desk.call("read_file", path=path)["error"] == "Path traversal not allowed"
    for path in IMPORTS:
        found = desk.call("read_file", path=path, includeDeps=True)
        named = {each["path"] for each in found["dependencies"]}
        assert not named & {*DENIED, *LINKS}, (path, named)
    for path, text in ALLOWED.items():
        assert desk.call("read_file", path=path)["file"]["content"] == text


def _grep(desk: Everything) -> None:
    for arguments in (
        {"pattern": MARK},
        {"pattern": "HUNTER[0-9]+"},
        {"pattern": "^", "limit": 100},
        {"pattern": "(?s).", "limit": 100},
        *({"pattern": f"{MARK}|def", "filePattern": each} for each in _globs()),
    ):
        desk.call("grep_codebase", **arguments)
    found = desk.call("grep_codebase", pattern=MARK)
    assert (found["totalMatches"], found["matches"]) == (0, [])
    everything = desk.call("grep_codebase", pattern="^")
    assert everything["filesSearched"] == len(IMPORTS) + len(ALLOWED) - 1  # one is ignored
    assert desk.call("grep_codebase", pattern="visible")["totalMatches"] == 2


def _globs() -> Iterator[str]:
    yield from ("**", "**/*", "*", ".*", "**/.env*", ".git/**", "**/node_modules/**", "*.{pem,key,secret}", "**/id_*")
    yield from ("link-to-git/**", "parent/**", "outside.py", "!src/**")
    for path in DENIED:
        if not set(path) & set("[]{}*?!\\"):
            yield path


def _search(desk: Everything) -> None:
    for number in range(len(DENIED)):
        found = desk.call("context_search", query=secret(number), limit=20)
        assert (found["results"], found["totalFound"]) == ([], 0)
    for query_ in (f"def {MARK}", ".env", "server.pem", "private/plans.py", "src/hidden/plans.py", "marmot"):
        desk.call("context_search", query=query_, limit=20)
    assert desk.call("context_search", query="beacon visible")["results"][0]["id"] == "src/main.py:1-2"
    assert all("ignored" not in each["id"] for each in desk.call("context_search", query="marmot")["results"])


def _look_at_notes(desk: Everything) -> None:
    listed = desk.request("resources/list", {})["result"]["resources"]
    assert len(listed) == 1
    base = listed[0]["uri"].removesuffix("welcome.md")
    for name in ("node_modules/package.md", ".git/config.md", "linked.md", "../.env", "..%2F.env", "%2e%2e/.env"):
        assert "error" in desk.request("resources/read", {"uri": base + name})
    for tool, arguments in (
        ("get_node", {"id": "linked.md"}),
        ("get_node", {"id": "node_modules/package.md"}),
        ("get_node", {"id": "../.env"}),
        ("get_hubs", {"metric": "in_degree", "limit": 50}),
        ("random_node", {}),
    ):
        desk.call(tool, **arguments)


@pytest.mark.rule("code.secrets.tools", "code.secrets.imports", "code.secrets.resources")
def test_no_tool_and_no_resource_gives_a_denied_file_away(asked: Everything) -> None:
    assert len(asked.heard) > 250
    assert [answer for answer in asked.heard if MARK in answer] == []


@pytest.mark.rule("code.secrets.log")
def test_the_log_holds_no_secret(asked: Everything) -> None:
    assert any('"tool": "grep_codebase"' in line for line in asked.server.log)
    assert [line for line in asked.server.log if MARK in line] == []


@pytest.mark.rule("code.secrets.indexes")
def test_no_file_of_the_desk_holds_a_secret(folder: Path, asked: Everything) -> None:
    assert run_carrel_here("index", cwd=folder).returncode == 0
    mark = MARK.encode()
    looked_at = [path for path in (folder / ".carrel").rglob("*") if path.is_file()]
    assert len(looked_at) > 5, asked
    assert [path for path in looked_at if mark in path.read_bytes()] == []
    beacons = [path for path in looked_at if b"beacon" in path.read_bytes()]
    assert beacons, "what is indexed could be seen there"


@pytest.mark.rule("code.secrets.commands")
def test_no_command_shows_a_secret(folder: Path, asked: Everything) -> None:
    assert asked.heard
    assert run_carrel_here("index", cwd=folder).returncode == 0
    for words in (
        ("search", MARK),
        ("search", "beacon", "--json"),
        ("search", f"def {secret(3)}"),
        ("status", "--json"),
    ):
        done = run_carrel_here(*words, cwd=folder)
        assert done.returncode == 0, done
        assert f"{MARK}0" not in done.stdout + done.stderr
    found = run_carrel_here("search", "beacon", "--json", cwd=folder).stdout
    assert "src/main.py" in found


@pytest.mark.rule("code.secrets.indexes")
def test_postgresql_holds_no_secret(folder: Path, postgres_url: str) -> None:
    from carrel.storage.database import PostgresLocation

    done = run_carrel_here("index", cwd=folder, CARREL_DATABASE_URL=postgres_url, CARREL_CODE_NAME="secrets")
    assert done.returncode == 0, done
    rows = query(PostgresLocation(postgres_url), "SELECT text FROM carrel_search_1.passage")
    assert any("beacon" in text for (text,) in rows)
    assert [text for (text,) in rows if MARK in text] == []
