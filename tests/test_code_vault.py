"""Where callers are authenticated, the vault's files are denied to a token that does not open notes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.code.file_access import DenyList, vault_patterns
from tests.code_trees import tree
from tests.databases import prepare_desk, prepare_postgres, url_of
from tests.program import run_carrel_here
from tests.wire import ERAS, MODERN, HttpServer, HttpWire, call, value

MARK = "wombat"
"""In every file of the vault and in no other."""
VAULT = {
    "notes/plan.md": f"# {MARK} plan\n",
    "notes/deep/plan.md": f"{MARK} deep\n",
    "notes/snippets/burrow.py": f"def {MARK}_burrow():\n    return '{MARK}'\n",
    "notes/data.json": f'{{"animal": "{MARK}"}}\n',
}
CODE = {
    "src/main.py": "from notes.snippets import burrow\n\n\ndef kangaroo():\n    return burrow\n",
    "src/main.js": 'import "../notes/snippets/burrow.py";\nimport "../linked/burrow.py";\nimport "./other.js";\n',
    "src/other.js": "export const kangaroo = 1;\n",
    "docs/notes.md": "kangaroo\n",
    "src/notes/kept.py": "def kangaroo_notes():\n    pass\n",
}
SETTINGS = """
[code.limits]
context_search = 0
read_file = 0
grep_codebase = 0

[embeddings]
provider = "none"
"""
ENGINES = ("sqlite", "postgres")


class Desk:
    def __init__(self, folder: Path, url: str, **env: str) -> None:
        tree(folder, {**VAULT, **CODE, "carrel.toml": SETTINGS})
        (folder / "linked").symlink_to("notes/snippets")
        (folder / "linked.md").symlink_to("notes/plan.md")
        self.folder, self._env = folder, {"CARREL_DATABASE_URL": url, "CARREL_CODE_NAME": f"vault-{os.getpid()}"}
        self.server = HttpServer("--toolsets", "notes,code", cwd=folder, **env, **self._env)

    def wire(self, *scopes: str, era: str = MODERN) -> HttpWire:
        wire = HttpWire(era, self.server.url)
        if scopes:
            words = ["token", "create", "--user", "ana", "--scopes", ",".join(scopes), "--json"]
            token = json.loads(run_carrel_here(*words, cwd=self.folder, **self._env).stdout)["token"]
            wire.http.headers["authorization"] = f"Bearer {token}"
        return wire


@pytest.fixture(scope="module", params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{prepare_desk(tmp_path_factory.mktemp('vault-db')) / '.carrel' / 'carrel.db'}"
    name = f"vault_{request.getfixturevalue('worker_id')}"
    return url_of(prepare_postgres(request.getfixturevalue("postgres_server_url"), name))


@pytest.fixture(scope="module")
def desk(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    running = Desk(tmp_path_factory.mktemp("vault"), url, CARREL_AUTH_TOKENS="true")
    yield running
    assert running.server.stop() == 143


def _ask(wire: HttpWire, tool: str, **arguments: Any) -> Any:
    return value(call(wire, tool, arguments))


def _suggested(wire: HttpWire, start: str) -> list[str]:
    reference, argument = {"type": "ref/prompt", "name": "explain_module"}, {"name": "module", "value": start}
    found = wire.request("completion/complete", {"ref": reference, "argument": argument})
    return found["result"]["completion"]["values"]


@pytest.mark.rule("code.denied.vault")
@pytest.mark.parametrize("era", ERAS)
def test_without_notes_read_the_vault_is_denied_to_every_tool(desk: Desk, era: str) -> None:
    wire = desk.wire("code:read", era=era)
    heard: list[Any] = []
    spellings = ("notes/", "./notes//", "Notes/plan.md", "notes", "notes\u200b/plan.md", "notes./plan.md")
    for path in (*VAULT, "linked/burrow.py", "linked.md", "notes/missing.md", *spellings):
        for more in ({}, {"includeDeps": True}):
            assert _ask(wire, "read_file", path=path, **more) == {"error": "Permission denied", "path": path}
    for path in ("src/main.py", "src/main.js"):
        found = _ask(wire, "read_file", path=path, includeDeps=True)
        assert [each["path"] for each in found["dependencies"]] == (["src/other.js"] if path.endswith("js") else [])
        heard.append(found)
    found = _ask(wire, "grep_codebase", pattern=MARK)
    assert (found["totalMatches"], found["matches"], found["filesSearched"]) == (0, [], len(CODE))
    for glob in ("notes/**", "**/*.md", "{notes/**,linked/**}"):
        heard.append(_ask(wire, "grep_codebase", pattern="^", filePattern=glob))
    assert [each["filesSearched"] for each in heard[-3:]] == [0, 1, 0]
    found = _ask(wire, "context_search", query=f"{MARK}_burrow {MARK} burrow", limit=20)
    assert all("notes/snippets" not in each["id"] for each in found["results"])
    assert found["totalFound"] == len(found["results"])
    heard += [found["results"], _suggested(wire, ""), _suggested(wire, "notes"), _suggested(wire, "burrow")]
    assert MARK not in json.dumps(heard)
    assert "src/main.py" in _suggested(wire, "")
    assert not {"notes/snippets/burrow.py", "snippets"} & {name for each in heard[-3:] for name in each}
    wire.close()


@pytest.mark.rule("code.denied.vault")
def test_with_notes_read_the_vault_is_read_as_before(desk: Desk) -> None:
    for scopes in (("code:read", "notes:read"), ("admin",)):
        _reads_everything(wire := desk.wire(*scopes))
        wire.close()


@pytest.mark.rule("code.denied.vault")
def test_where_nobody_is_authenticated_the_vault_is_read_as_before(url: str, tmp_path: Path) -> None:
    open_to_all = Desk(tmp_path, url)
    _reads_everything(wire := open_to_all.wire())
    wire.close()
    assert open_to_all.server.stop() == 143


def _reads_everything(wire: HttpWire) -> None:
    for path, content in VAULT.items():
        assert _ask(wire, "read_file", path=path)["file"]["content"] == content
    assert _ask(wire, "read_file", path="linked.md")["file"]["path"] == "linked.md"
    dependencies = _ask(wire, "read_file", path="src/main.py", includeDeps=True)["dependencies"]
    assert [each["path"] for each in dependencies] == ["notes/snippets/burrow.py"]
    found = _ask(wire, "grep_codebase", pattern=MARK)
    assert (found["totalMatches"], found["filesSearched"]) == (5, len(VAULT) + len(CODE))
    found = _ask(wire, "context_search", query=f"{MARK}_burrow")
    assert found["results"][0]["id"] == "notes/snippets/burrow.py:1-2"
    assert found["results"][0]["source"] == "code"
    assert "notes/snippets/burrow.py" in _suggested(wire, "notes")


@pytest.mark.rule("code.denied.vault")
@pytest.mark.parametrize(
    ("root", "vault", "denied", "allowed"),
    [
        (".", "notes", ["notes/a.md", "notes", "NOTES/a", "notes/.x/y"], ["src/notes/a", "notes.md", "a/notes"]),
        (".", "docs/my [vault]", ["docs/my [vault]/a", "docs/My [Vault] /a"], ["docs/my v/a", "docs/a.md"]),
        (".", "vault.", ["vault./a", "vault/a"], ["vaults/a"]),
        (".", ".", ["a.md", "x/a.MD", ".obsidian/app.json", "a.canvas", "a.base"], ["a.py", "x/a.mdx", "database"]),
        ("src", ".", ["a.md"], ["a.py"]),
        ("src", "notes", [], ["a.md", "notes/a"]),
        (".", "link", ["link/a", "real/vault/a"], ["real/a"]),
    ],
)
def test_a_vault_is_its_folder_or_where_the_root_is_in_it_its_notes(
    tmp_path: Path, root: str, vault: str, denied: list[str], allowed: list[str]
) -> None:
    tree(tmp_path, "real/vault/a src/a")
    (tmp_path / "link").symlink_to("real/vault")
    found = DenyList(list(vault_patterns(tmp_path / root, tmp_path / vault)))
    assert [path for path in denied if not found.path(path)] == []
    assert [path for path in allowed if found.path(path)] == []
