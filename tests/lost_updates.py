"""Two servers with workspaces of their own and an editor, all writing in one vault, and a judge of what was lost.

The servers change tags and titles of shared notes and rename notes that a board links to. The editor changes the text
of the shared notes and saves atomically; it exchanges files, so that it sees what it has overwritten itself. A change
is lost if it was acknowledged, is not in its file, was not followed by a newer one, and was not overwritten by the
editor.
"""

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from carrel.directory import Directory
from carrel.notes.replacement import read_content, write_durably
from tests.vaults import write
from tests.wire import MODERN, StdioWire, call, value

SHARED = 6
OWN = 3
TYPING_SECONDS = 0.003
SETTLING_SECONDS = 0.2
"""After which what a server has taken out for a moment is back in its place."""


@dataclass
class Outcome:
    tags: int = 0
    titles: int = 0
    renames: int = 0
    saves: int = 0
    overwritten: int = 0
    """Of the servers' changes, by the editor: it saved what it had read before them."""
    refused: int = 0
    """Calls that gave up because the note was changing all the time; nothing was acknowledged."""
    lost: list[str] = field(default_factory=list[str])

    @property
    def acknowledged(self) -> int:
        return self.tags + self.titles + self.renames + self.saves


class Scene:
    def __init__(self, folder: Path) -> None:
        own = {f"own-{server}-{number}-0.md": "x" for server in "ab" for number in range(OWN)}
        board = " ".join(f"[[{name.removesuffix('.md')}]]" for name in own)
        shared = {f"n{number}.md": "---\ntags:\n  - a0\ntitle: x\n---\nedit 0.\n" for number in range(SHARED)}
        self.vault = write(folder / "vault", {**own, **shared, "board.md": board})
        self.outcome = Outcome()
        self.directory = Directory(self.vault)
        self.taken_out: dict[str, list[str]] = {name: [] for name in shared}
        """What the editor has overwritten, by note."""
        self.latest: dict[tuple[str, str], str] = {}
        """What must be in a file, by who has written it and the file's name."""
        self.stopping = threading.Event()

    def check(self, who: str, name: str) -> bool:
        """Whether the writer's latest change is still there."""
        wanted = self.latest.get((who, name))
        if wanted is None or self.has(name, wanted):
            return True
        time.sleep(SETTLING_SECONDS)
        if self.has(name, wanted):
            return True
        if any(wanted in each for each in self.taken_out.get(name, ())):
            self.outcome.overwritten += 1
            return True
        self.outcome.lost.append(f"{name}: {wanted!r} of {who} is gone")
        return False

    def has(self, name: str, wanted: str) -> bool:
        with self.directory.folder() as folder:
            return wanted in (read_content(folder, name) or b"").decode()


class Client:
    """Of one server: its requests, one after the other."""

    def __init__(self, scene: Scene, who: str, folder: Path) -> None:
        workspace = write(folder / who, {"carrel.toml": f'[notes]\nvault = "{scene.vault.as_posix()}"\n'})
        self.wire = StdioWire(MODERN, "--toolsets", "notes", cwd=workspace, CARREL_EMBEDDINGS_PROVIDER="none")
        self.scene = scene
        self.who = who
        self.random = Random(who)
        self.number = 0

    def work(self, changes: int) -> None:
        kinds = [self.change_own_part, self.rename]
        while self.number < changes:
            self.number += 1
            self.random.choices(kinds, [5, 1])[0]()

    def change_own_part(self) -> None:
        """One server changes the tags, the other the title, which stays the same file's name."""
        name = f"n{self.random.randrange(SHARED)}.md"
        self.scene.check(self.who, name)
        if self.who == "a":
            tag = f"a{self.number}"
            if self.answer(name, tags=[tag]):
                self.scene.latest[self.who, name] = f"  - {tag}\n"
                self.scene.outcome.tags += 1
        else:
            title = f"{name.removesuffix('.md')} {in_brackets(self.number)}"
            if self.answer(name, title=title):
                self.scene.latest[self.who, name] = f"title: {title}\n"
                self.scene.outcome.titles += 1

    def rename(self) -> None:
        slot = self.random.randrange(OWN)
        key = (self.who, f"own {slot}")
        old = self.scene.latest.get(key, f"own-{self.who}-{slot}-0")
        new = f"own-{self.who}-{slot}-{self.number}"
        if not self.scene.has("board.md", f"[[{old}]]"):
            self.scene.outcome.lost.append(f"board.md: [[{old}]] is gone")
        if self.answer(f"{old}.md", title=new):
            self.scene.latest[key] = new
            self.scene.outcome.renames += 1

    def answer(self, note_id: str, **changes: Any) -> bool:
        result = call(self.wire, "update_node", {"id": note_id, **changes})
        if not result.get("isError"):
            return True
        assert "being changed by others" in str(value(result)), result
        self.scene.outcome.refused += 1
        return False


def in_brackets(number: int) -> str:
    """A number in characters that no file name has."""
    return re.sub("[01]", lambda digit: "<>"[int(digit[0])], f"{number:b}")


def edit(scene: Scene) -> None:
    """Save one note after the other, until told to stop."""
    random, number = Random("editor"), 0
    with scene.directory.folder() as folder:
        while not scene.stopping.is_set():
            number += 1
            name = f"n{random.randrange(SHARED)}.md"
            scene.check("editor", name)
            read = (read_content(folder, name) or b"").decode()
            time.sleep(random.uniform(0, TYPING_SECONDS))
            write_durably(folder, ".editor", re.sub(r"edit \d+\.", f"edit {number}.", read).encode())
            folder.exchange(".editor", name)
            taken_out = (read_content(folder, ".editor") or b"").decode()
            scene.taken_out[name] = [*scene.taken_out[name][-50:], *([taken_out] if taken_out != read else [])]
            folder.unlink(".editor")
            scene.latest["editor", name] = f"edit {number}."
            scene.outcome.saves += 1
            time.sleep(random.uniform(0, 2 * TYPING_SECONDS))


def run(folder: Path, changes: int, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Until the two servers have been asked for so many changes."""
    scene = Scene(folder)
    clients = [Client(scene, who, folder) for who in "ab"]
    with ThreadPoolExecutor(3) as threads:
        editor = threads.submit(edit, scene)
        working = [threads.submit(client.work, changes // 2) for client in clients]
        try:
            for client, each in zip(clients, working, strict=True):
                each.result()
                say(f"server {client.who} is done")
        finally:
            scene.stopping.set()
        editor.result()
    for who, name in list(scene.latest):
        if name in scene.taken_out:
            scene.check(who, name)
    for client in clients:
        for slot in range(OWN):
            name = scene.latest.get((client.who, f"own {slot}"), f"own-{client.who}-{slot}-0")
            if not scene.has("board.md", f"[[{name}]]") or not (scene.vault / f"{name}.md").exists():
                scene.outcome.lost.append(f"{name} or the link to it is gone")
        assert client.wire.close() == 0
    return scene.outcome
