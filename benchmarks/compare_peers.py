"""Other servers of the field: where they come from, how they are started, and what is asked of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contenders import NODE_MODULES_VARIABLE
from process import ROOT
from size import NOT_OURS

INSTALL_TIMEOUT_SECONDS = 900
FILE = "mill/oven/schedule.py"
NOTE = "plans/winter market"


class NotMeasured(Exception):
    """Why a peer is left out."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call; `number` makes what is written new each time. `proof` is in a good answer: some peers report failures as
    prose."""

    tool: str
    arguments: Callable[[int], dict[str, Any]]
    proof: str


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    requirements: tuple[str, ...]
    """Of PyPI or npm, tried in this order; none where neither has it."""
    kind: str
    command: Callable[[Path, Path], list[str]]
    """Of the environment and the workspace."""
    asks: dict[str, Ask] = field(default_factory=dict[str, Ask])
    variables: Callable[[Path], dict[str, str]] = lambda _workspace: {}
    pythons: tuple[str, ...] = ("3.11", "3.12", "3.13")
    reason: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    folder: Path
    version: str
    megabytes: float
    distributions: int


def install(peer: Peer, cache: Path) -> Installed:
    """Into an environment of its own; kept for the next run, but for Carrel itself, which is installed as it is now."""
    if not peer.requirements:
        raise NotMeasured(peer.reason)
    folder = cache / peer.name.replace("@modelcontextprotocol/", "")
    wanted = (folder / "installed").read_text(encoding="utf-8") if (folder / "installed").exists() else ""
    faults: list[str] = []
    for requirement in (wanted,) if wanted else peer.requirements:
        if wanted and peer.name != "Carrel":
            break
        done = _pip(peer, folder, requirement) if peer.kind == "pypi" else _npm(folder, requirement)
        if done.returncode == 0:
            (folder / "installed").write_text(requirement, encoding="utf-8")
            break
        faults.append(_fault(done.stderr))
    else:
        raise NotMeasured(f"{peer.requirements[0]} cannot be installed here: {faults[0]}")
    return (_weigh_python if peer.kind == "pypi" else _weigh_node)(folder, peer)


def installed_here(peer: Peer) -> Installed:
    """What the tests have anyway: this Python's Carrel, and the packages for Node.js; nothing is fetched."""
    if peer.name == "Carrel":
        return _weigh_python(Path(sys.prefix), peer)
    modules = Path(os.environ.get(NODE_MODULES_VARIABLE) or ROOT / ".dev" / "node_modules")
    if peer.kind != "npm" or not peer.requirements or not (modules / peer.requirements[0]).is_dir():
        raise NotMeasured("it is not installed here")
    return _weigh_node(modules.parent, peer)


def _pip(peer: Peer, folder: Path, requirement: str) -> subprocess.CompletedProcess[str]:
    if not (folder / "bin" / "python").exists():
        subprocess.run([_python(peer.pythons), "-m", "venv", str(folder)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    return _run([str(folder / "bin" / "python"), "-m", "pip", "install", *quiet, requirement])


def _npm(folder: Path, requirement: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return _run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", requirement])


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False)


def _fault(stderr: str) -> str:
    lines = [
        line
        for line in stderr.splitlines()
        if re.search(r"error", line, re.IGNORECASE) and "log of this run" not in line
    ]
    last = next((line for line in lines if "404 Not Found" in line), (lines or ["it failed without a word"])[-1])
    # Where it was looked for is of this machine, and says nothing to others.
    return re.sub(r"^(npm error|ERROR:)\s*(404)?\s*", "", re.sub(r"\s+-?\s*\w*\s*\w+://\S+", "", last))[:160]


def _python(versions: tuple[str, ...]) -> str:
    for version in versions:
        if sys.version_info[:2] == tuple(map(int, version.split("."))):
            return getattr(sys, "_base_executable", sys.executable)
        found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        if program := (str(found[-1]) if found else shutil.which(f"python{version}")):
            return program
    raise NotMeasured(f"it needs Python {versions[0]} or later, which is not here")


def _weigh_python(folder: Path, peer: Peer) -> Installed:
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    name = re.sub(r"[-_.]+", "_", peer.requirements[-1].split("==")[0]) if peer.name != "Carrel" else "carrel"
    (info,) = packages.glob(f"{name}-*.dist-info")
    count = sum(path.suffix == ".dist-info" for path in ours)
    return Installed(folder, info.name.removesuffix(".dist-info").rsplit("-", 1)[1], _megabytes(ours), count)


def _weigh_node(folder: Path, peer: Peer) -> Installed:
    modules = folder / "node_modules"
    about = json.loads((modules / peer.requirements[0] / "package.json").read_text(encoding="utf-8"))
    count = len(json.loads((modules / ".package-lock.json").read_text(encoding="utf-8"))["packages"])
    return Installed(folder, about["version"], _megabytes([modules]), count)


def _megabytes(paths: list[Path]) -> float:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink()) / 1e6


def environment(workspace: Path) -> dict[str, str]:
    """What any peer gets: a home of its own, and nothing that looks for newer versions meanwhile."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return keep | {
        "HOME": str(workspace / "home"),
        "FASTMCP_CHECK_FOR_UPDATES": "off",
        "FASTMCP_SHOW_CLI_BANNER": "false",
    }


def _node_server(package: str) -> Callable[[Path, Path], list[str]]:
    return lambda folder, workspace: [
        *("node", str(folder / "node_modules" / package / "dist" / "index.js")),
        *([str(workspace)] if package.endswith("filesystem") else []),
    ]


MEMORY, FILES = "@modelcontextprotocol/server-memory", "@modelcontextprotocol/server-filesystem"
PEERS = [
    Peer(
        "Carrel",
        (str(ROOT),),
        "pypi",
        lambda folder, workspace: [str(folder / "bin" / "carrel"), "serve", "--workspace", str(workspace / "carrel")],
        {
            "read": Ask("read_file", lambda _: {"path": FILE}, "Which batch goes into the oven"),
            "grep": Ask("grep_codebase", lambda _: {"pattern": "per_batch"}, "recipe.py"),
            "search": Ask("search", lambda _: {"query": "winter market"}, "Saturday the 12th"),
            "write": Ask("create_node", lambda number: {"title": f"New {number}", "content": "A text."}, '"id"'),
        },
    ),
    Peer(
        "basic-memory",
        ("basic-memory", "basic-memory==0.23.2"),
        "pypi",
        lambda folder, _workspace: [str(folder / "bin" / "basic-memory"), "mcp"],
        {
            "read": Ask("read_note", lambda _: {"identifier": NOTE}, "Saturday the 12th"),
            "search": Ask("search_notes", lambda _: {"query": "winter market"}, "plans/"),
            "write": Ask(
                "write_note",
                lambda number: {"title": f"New {number}", "content": "A text.", "directory": "plans"},
                "Created note",
            ),
        },
        lambda workspace: {
            "BASIC_MEMORY_HOME": str(workspace / "vault"),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
        },
        ("3.13", "3.12"),
        remark="searched by words alone: by meaning it needs an SQLite that loads extensions; this Python's does not",
    ),
    Peer(
        "Serena",
        ("serena-agent",),
        "pypi",
        lambda folder, workspace: [
            *(str(folder / "bin" / "serena"), "start-mcp-server", "--project", str(workspace / "planner")),
            *("--agent-interface", "tools", "--enable-web-dashboard", "False", "--log-level", "ERROR"),
        ],
        {
            "read": Ask("read_file", lambda _: {"relative_path": FILE}, "Which batch goes into the oven"),
            "grep": Ask("search_for_pattern", lambda _: {"substring_pattern": "per_batch"}, "recipe.py"),
            "write": Ask("write_memory", lambda number: {"memory_name": f"new_{number}", "content": "A text."}, "new_"),
        },
        remark="was measured without its language servers, which need uv and are fetched; its symbol tools need them",
    ),
    Peer(
        FILES,
        (FILES,),
        "npm",
        _node_server(FILES),
        {
            "read": Ask("read_text_file", lambda _: {"path": f"planner/{FILE}"}, "Which batch goes into the oven"),
            "write": Ask("write_file", lambda number: {"path": f"vault/new-{number}.md", "content": "A text."}, "new-"),
        },
    ),
    Peer(
        MEMORY,
        (MEMORY,),
        "npm",
        _node_server(MEMORY),
        {
            "read": Ask("open_nodes", lambda _: {"names": [NOTE]}, "Saturday the 12th"),
            "search": Ask("search_nodes", lambda _: {"query": "winter market"}, "winter market"),
            "write": Ask(
                "create_entities",
                lambda number: {
                    "entities": [{"name": f"new {number}", "entityType": "note", "observations": ["A text."]}]
                },
                "A text.",
            ),
        },
        lambda workspace: {"MEMORY_FILE_PATH": str(workspace / "memory.jsonl")},
    ),
    Peer("Roux", ("@gettymade/roux",), "npm", _node_server("@gettymade/roux")),
    Peer(
        "github-mcp-server",
        (),
        "npm",
        lambda _folder, _workspace: [],
        reason="neither PyPI nor npm has GitHub's own; it is a container image or built from source, and needs a token",
    ),
]
