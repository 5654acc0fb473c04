"""The part of `bench fuzz` that attacks the notes: hostile files and swapped folders, between calls that use them.

Beside the vault is a folder of secrets that links in the vault lead to. No answer may have any of them, and nothing in
that folder may change. The server is then started again over what has become of the vault.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import hostile_notes
from hostile_notes import Hostile
from tests.wire import ERAS, HttpWire

MARK = "marked-as-outside-of-the-vault"
PART = "m.rked-as-outside"
"""A pattern that finds it. No call has the whole of it, so an answer that does has it from the file."""
CODES = ("INVALID_PARAMS", "NODE_NOT_FOUND", "NODE_EXISTS", "PROVIDER_ERROR")
"""`PROVIDER_ERROR` is what a file gets that is too large or is being changed all the time."""
CODE_ERRORS = ("Permission denied", "File not found", "Not a file", "File too large", "Not a text file")
TITLE_LENGTH = 60
CONTENT_LENGTH = 200_000
HOSTILE_SIZE = 4 * 1024 * 1024
SMOKE_SIZE = 20_000
SWAP_CHANCE = 0.25
MAX_NOTES = 200
"""Beyond, the oldest go: memory is to tell of what was sent, not of what is there."""
PRUNED_EVERY = 50
DIRECTORIES = ("", "hostile", "hostile/s1", "hostile/s2/inner", "..", "/etc", "a/" * 100, "x\x00y")


@dataclass
class Found:
    kinds: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    slowest: float = 0.0


class Attack:
    """Puts hostile files and links into a vault, and calls tools on them."""

    def __init__(self, folder: Path, seed: int, *, is_small: bool, has_search: bool) -> None:
        self.vault = folder / "notes"
        self._choose = random.Random(seed)
        self._has_search = has_search
        self.outside = folder.parent / f"{folder.name}-outside"
        (self.outside / "inner").mkdir(parents=True)
        for path in (self.outside / "note.md", self.outside / "inner" / "note.md"):
            path.write_text(f"---\ntitle: Secret\ntags: [secret]\n---\n{MARK} [[index]]\n", encoding="utf-8")
        self._before = self._digest()
        size = SMOKE_SIZE if is_small else HOSTILE_SIZE
        self._files = chain.from_iterable(
            hostile_notes.hostile_files(number, 1000, largest=size) for number in count(seed, 1000)
        )
        self._swaps = chain.from_iterable(
            hostile_notes.hostile_swaps(number, 1000, outside=self.outside) for number in count(seed, 1000)
        )
        self._texts = list(hostile_notes.hostile_texts(min(size, CONTENT_LENGTH)).values())
        self._paths = ["index.md"]
        self._first = {path for path in self.vault.rglob("*") if path.is_file()}
        self._calls = 0

    def is_untouched(self) -> bool:
        """Whether what is outside of the vault is as it was."""
        return self._digest() == self._before

    def _digest(self) -> str:
        files = sorted(path for path in self.outside.rglob("*"))
        return hashlib.sha256(
            repr([(str(each), each.read_bytes() if each.is_file() else b"") for each in files]).encode()
        ).hexdigest()

    def next(self) -> tuple[str, dict[str, Any]]:
        """Change the vault, and say which call is to follow."""
        self._calls += 1
        if self._calls % PRUNED_EVERY == 0:
            self._prune()
        is_swap = self._choose.random() < SWAP_CHANCE
        hostile = next(self._swaps if is_swap else self._files)
        self._unlink_above(hostile.path)
        if is_swap:
            note = Hostile("note", f"{hostile_notes.PREFIX}s{self._choose.randrange(8)}/note.md", b"[[index]] #a\n")
            self._unlink_above(note.path)
            hostile_notes.apply(self.vault, note)
            self._paths.append(note.path)
        hostile_notes.apply(self.vault, hostile)
        self._paths.append(hostile.path if hostile.path.endswith(".md") else f"{hostile.path}/note.md")
        self._paths = self._paths[-50:]
        return self._call()

    def _prune(self) -> None:
        found = [Path(folder, name) for folder, _, names in os.walk(self.vault) for name in names]
        later = [path for path in found if path not in self._first]
        for path in sorted(later, key=lambda path: path.lstat().st_mtime_ns)[:-MAX_NOTES]:
            path.unlink()

    def _unlink_above(self, path: str) -> None:
        """Take away an earlier link that would lead what is put in place next to the folder outside."""
        for folder in (self.vault / path).relative_to(self.vault).parents:
            if (self.vault / folder).is_symlink():
                (self.vault / folder).unlink()

    def _call(self) -> tuple[str, dict[str, Any]]:
        path = self._paths[-1] if self._choose.random() < 0.5 else self._choose.choice(self._paths)
        text = self._choose.choice(self._texts)
        calls: dict[str, Callable[[], dict[str, Any]]] = {
            "get_node": lambda: {"id": path, "depth": self._choose.choice((0, 1))},
            "get_neighbors": lambda: {"id": path},
            "find_path": lambda: {"source": path, "target": "index.md"},
            "get_hubs": dict,
            "search_by_tags": lambda: {"tags": [self._choose.choice(("secret", "a", "tag1"))]},
            "search": lambda: {"query": self._choose.choice(("secret outside", "index", text[:500]))},
            "random_node": dict,
            "create_node": lambda: {
                "title": self._choose.choice((f"t{self._choose.randrange(10**6)}", text[:TITLE_LENGTH])),
                "content": text,
                "directory": self._choose.choice(DIRECTORIES),
            },
            "update_node": lambda: {
                "id": path,
                **self._choose.choice(
                    ({"content": text}, {"tags": ["a", "secret"]}, {"title": f"r{self._choose.randrange(10**6)}"})
                ),
            },
            "delete_node": lambda: {"id": path},
            "read_file": lambda: {"path": f"notes/{path}"},
            "grep_codebase": lambda: {"pattern": PART},
        }
        if not self._has_search:
            del calls["search"]
        name = self._choose.choice([*calls, "get_node", "update_node"])
        return name, calls[name]()


def attack(url: str, vault: Attack, calls: int) -> Found:
    """Send that many calls, in both protocols in turn, and judge the answers."""
    found = Found()
    wires = [HttpWire(era, url) for era in ERAS]
    for number in range(calls):
        name, arguments = vault.next()
        started = time.monotonic()
        response = wires[number % len(wires)].request("tools/call", {"name": name, "arguments": arguments})
        found.slowest = max(found.slowest, time.monotonic() - started)
        problem = _problem(response)
        found.kinds["wrong" if problem else _kind(response)] += 1
        if problem:
            found.wrong.append(f"{name} {json.dumps(arguments)[:300]}: {problem}")
    for wire in wires:
        wire.http.close()
    if not vault.is_untouched():
        found.wrong.append("the folder outside of the vault has changed")
    return found


def _kind(response: dict[str, Any]) -> str:
    if "error" in response:
        return f"error {response['error']['code']}"
    return "tool refused" if response["result"].get("isError") else "tool ok"


def _problem(response: dict[str, Any]) -> str:
    """What is wrong with an answer; empty if nothing is."""
    text = json.dumps(response, ensure_ascii=False)
    if MARK in text:
        return f"tells what is outside: {text[:500]}"
    if "error" in response:
        return f"a protocol error: {text[:500]}"
    result = response["result"]
    if not result.get("isError"):
        return ""
    error = json.loads(result["content"][0]["text"]).get("error")
    known = error in CODE_ERRORS if isinstance(error, str) else error.get("code") in CODES
    return "" if known else f"an unexpected error: {text[:500]}"
