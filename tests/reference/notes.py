"""The graph of a vault once more, slowly and simply: all is worked out anew from the rulings for each question."""

import posixpath
import unicodedata
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple


class Reference(NamedTuple):
    """What a note says."""

    title: str
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """As they are written."""


def fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def without_suffix(path: str) -> str:
    return path[: -len(".md")]


class Model:
    def __init__(self, notes: Mapping[str, Reference]) -> None:
        self.notes = dict(sorted(notes.items()))
        self._folded = {each: fold(without_suffix(each)) for each in self.notes}
        self._out: dict[str, list[str]] = {}

    # --- links

    def resolve(self, source: str, link: str) -> str | None:
        folder = posixpath.dirname(fold(source))
        target = fold(link)
        wanted = [target.removesuffix(".md"), target] if target.endswith(".md") else [target]
        if posixpath.basename(target) in ("", ".", ".."):
            wanted = []  # a folder is no note
        steps = (
            *(partial(self._at, self._from_top(each)) for each in wanted),
            *(partial(self._at, self._from_folder(folder, each)) for each in wanted),
            *(partial(self._ending, each) for each in wanted),
            lambda: [each for each, note in self.notes.items() if fold(note.title) == target],
            lambda: [each for each, note in self.notes.items() if target in map(fold, note.aliases)],
        )
        for step in steps:
            if found := step():
                return min(found, key=lambda each: (posixpath.dirname(fold(each)) != folder, each.count("/"), each))
        return None

    def _from_top(self, target: str) -> str | None:
        path = posixpath.normpath(target.lstrip("/"))
        return None if path.startswith("../") else path

    def _from_folder(self, folder: str, target: str) -> str | None:
        if target.startswith("/"):
            return None
        path = posixpath.normpath(posixpath.join(folder, target))
        return None if path.startswith("../") else path

    def _at(self, path: str | None) -> list[str]:
        return [each for each, folded in self._folded.items() if folded == path]

    def _ending(self, target: str) -> list[str]:
        return [each for each, folded in self._folded.items() if f"/{folded}".endswith(f"/{target}")]

    def out(self, note_id: str) -> list[str]:
        if note_id not in self._out:
            found = [self.resolve(note_id, link) for link in self.notes[note_id].links]
            self._out[note_id] = list(dict.fromkeys(each for each in found if each is not None))
        return self._out[note_id]

    def into(self, note_id: str) -> list[str]:
        return [each for each in self.notes if note_id in self.out(each)]

    def has_broken(self, note_id: str) -> bool:
        return any(self.resolve(note_id, link) is None for link in self.notes[note_id].links)

    # --- questions

    def find(self, note_id: str) -> str | None:
        if note_id in self.notes:
            return note_id
        wanted = fold(note_id)
        found = [each for each in self.notes if wanted in (fold(each), fold(without_suffix(each)))]
        return found[0] if len(found) == 1 else None

    def neighbors(self, note_id: str, direction: str, limit: int) -> list[tuple[str, str]]:
        out, into = self.out(note_id), self.into(note_id)
        wanted = (out if direction != "in" else []) + (into if direction != "out" else [])
        ways = {(True, True): "both", (True, False): "out", (False, True): "in"}
        return [(each, ways[each in out, each in into]) for each in list(dict.fromkeys(wanted))[:limit]]

    def hubs(self, metric: str, limit: int) -> list[tuple[str, int]]:
        scores = {each: len(self.into(each) if metric == "in_degree" else self.out(each)) for each in self.notes}
        return sorted(((each, score) for each, score in scores.items() if score), key=lambda hub: (-hub[1], hub[0]))[
            :limit
        ]

    def tagged(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[str]:
        wanted = set(map(fold, tags))
        has = {each: set(map(fold, note.tags)) & wanted for each, note in self.notes.items()}
        return [each for each, found in has.items() if found and (not all_of_them or found == wanted)][:limit]

    def path(self, source: str, target: str) -> list[str] | None:
        """All shortest paths, level by level, and the first of them in the order of their ids."""
        paths = [[source]]
        seen = {source}
        while paths:
            if arrived := [path for path in paths if path[-1] == target]:
                return min(arrived)
            paths = [[*path, each] for path in paths for each in self.out(path[-1]) if each not in seen]
            seen |= {path[-1] for path in paths}
            first: dict[str, list[str]] = {}
            for path in sorted(paths):
                first.setdefault(path[-1], path)
            paths = list(first.values())
        return None
