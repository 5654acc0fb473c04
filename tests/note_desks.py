"""A vault with the command line over it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.program import Done, run_carrel_here

GARDEN = """---
title: The garden
tags: [Idea, outdoors]
aliases: [vegetable patch]
---
Three beds, with [[Compost]] and ![[plan.png]].

Ask [[ana]] about [[No such note|this]] and [that](../missing.md).
"""
NOTES = {
    "ideas/garden.md": GARDEN,
    "ideas/compost.md": "Leaves for the [[vegetable patch]]. #outdoors\n",
    "people/ana.md": "Ana knows flour. See [[bread/loaf]].\n",
    "work/deep/ana.md": "---\ntitle: Ana at work\n---\nSee [[bread/loaf#heading]].\n",
    "bread/loaf.md": "Knead and bake. #idea #bread\n",
}


class Desk:
    """A workspace with a vault, and the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vault = folder / "notes"
        self.vault.mkdir()

    def put(self, note_id: str, text: str | bytes) -> None:
        path = self.vault / note_id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def run(self, *words: str, **env: str) -> Done:
        return run_carrel_here(*words, cwd=self.folder, **{"CARREL_EMBEDDINGS_PROVIDER": "none", **env})

    def notes(self, *words: str, **env: str) -> Done:
        return self.run("notes", *words, **env)

    def told(self, *words: str, status: int = 0) -> Any:
        done = self.notes(*words, "--json")
        assert done.returncode == status, done
        return json.loads(done.stdout)

    def found(self, *ignored: str) -> list[tuple[str, int | None, str]]:
        """What `check` finds: where, and of which kind."""
        done = self.notes("check", "--json", *(word for kind in ignored for word in ("--ignore", kind)))
        found = json.loads(done.stdout)
        assert done.returncode == (1 if found else 0)
        return [(each["id"], each["line"], each["kind"]) for each in found]

    def contents(self) -> dict[str, tuple[bytes, int]]:
        files = (path for path in self.vault.rglob("*") if path.is_file())
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def empty(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def desk(empty: Desk) -> Desk:
    for note_id, text in NOTES.items():
        empty.put(note_id, text)
    empty.put("pictures/plan.png", b"\x89PNG")
    return empty
