"""Links: resolving targets to notes, and rewriting them when a note is renamed."""

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from carrel.notes.note_names import SUFFIX, is_note, key, name_of, stem
from carrel.notes.parser import Link, decoded, encoded, parse

NodeNumbers = int | tuple[int, ...]
"""One node's number, as nearly always, or those of several."""


class NameMap:
    """Node numbers by a name that several nodes may share."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: MutableMapping[str, NodeNumbers | None] = {}
        """None is only in an overlay: what has the name beneath it has it no more."""

    def get(self, name: str) -> tuple[int, ...]:
        """Return the nodes of this name."""
        found = self.numbers.get(name)
        if found is None:
            return ()
        return (found,) if isinstance(found, int) else found

    def add(self, name: str, number: int) -> None:
        """Add a node to a name."""
        before = self.numbers.get(name)
        if before is None:
            self.numbers[name] = number
        else:
            self.numbers[name] = (*((before,) if isinstance(before, int) else before), number)

    def remove(self, name: str, number: int) -> None:
        """Remove a node from a name."""
        left = tuple(each for each in self.get(name) if each != number)
        if len(left) > 1:
            self.numbers[name] = left
        elif left:
            self.numbers[name] = left[0]
        else:
            self.numbers.pop(name, None)

    def overlay(self) -> "NameMap":
        """Return a copy-on-write view."""
        names = _NameMapOverlay()
        names.numbers = ChainMap({}, self.numbers)
        return names


class _NameMapOverlay(NameMap):
    __slots__ = ()

    def remove(self, name: str, number: int) -> None:
        left = tuple(each for each in self.get(name) if each != number)
        self.numbers[name] = left if len(left) > 1 else left[0] if left else None


class NameIndex:
    """Nodes by every name that a link can use for them. All names are keys, see `carrel.notes.note_names.key`."""

    __slots__ = ("_id", "_path", "by_alias", "by_name", "by_stem", "by_tail", "by_title")

    def __init__(self, id_of: Callable[[int], str], path_of: Callable[[int], str]) -> None:
        self._id = id_of
        self._path = path_of
        self.by_stem = NameMap()
        """By the whole path, without `.md`."""
        self.by_tail = NameMap()
        """By file name and the folder that it is in."""
        self.by_name = NameMap()
        self.by_title = NameMap()
        """Where it is not the file name."""
        self.by_alias = NameMap()

    def overlay(self, number: int, node_id: str, path: str) -> "NameIndex":
        """Return a copy-on-write view in which one node has another ID and path."""
        overlay = NameIndex(
            lambda each: node_id if each == number else self._id(each),
            lambda each: path if each == number else self._path(each),
        )
        for names in ("by_stem", "by_tail", "by_name", "by_title", "by_alias"):
            setattr(overlay, names, getattr(self, names).overlay())
        return overlay

    def add(self, number: int, stem: str, title: str, aliases: Iterable[str]) -> None:
        """Add a node by its path, title and aliases."""
        self.by_stem.add(stem, number)
        name, tail = _name_and_tail(stem)
        self.by_name.add(name, number)
        if tail:
            self.by_tail.add(tail, number)
        self.add_titles(number, name, title, aliases)

    def remove(self, number: int, stem: str, title: str, aliases: Iterable[str]) -> None:
        """Remove a node from all its names."""
        self.by_stem.remove(stem, number)
        name, tail = _name_and_tail(stem)
        self.by_name.remove(name, number)
        if tail:
            self.by_tail.remove(tail, number)
        self.remove_titles(number, name, title, aliases)

    def add_titles(self, number: int, name: str, title: str, aliases: Iterable[str]) -> None:
        """Add a node by its title and aliases only."""
        if title != name:
            self.by_title.add(title, number)
        for alias in aliases:
            self.by_alias.add(alias, number)

    def remove_titles(self, number: int, name: str, title: str, aliases: Iterable[str]) -> None:
        """Remove a node's title and aliases."""
        if title != name:
            self.by_title.remove(title, number)
        for alias in aliases:
            self.by_alias.remove(alias, number)

    def resolve(self, target: str, folder: str) -> int | None:
        """Return the node that a link in `folder` leads to. Of several at one step, one in the same folder wins, then
        the fewest folders, then the first ID."""
        if "/" not in target and not target.endswith(SUFFIX):
            found = self._resolve_name(target, folder)
        else:
            found = self.by_stem.numbers.get(target.removesuffix(SUFFIX))  # the first step, of a path without detours
            if found is None:
                found = self.matches(target, folder) or None
        if found is None or isinstance(found, int):
            return found
        return found[0] if len(found) == 1 else min(found, key=lambda number: self._preference(number, folder))

    def matches(self, target: str, folder: str) -> tuple[int, ...]:
        """Return all nodes of the first step that matches any."""
        return next(filter(None, self._matches_by_step(target, folder)), ())

    def _resolve_name(self, target: str, folder: str) -> NodeNumbers | None:
        """Resolve a bare name, as in most links, without the generality of `_matches_by_step`."""
        found = self.by_stem.numbers.get(target)
        if found is None and folder:
            found = self.by_stem.numbers.get(folder + target)
        if found is None:
            found = self.by_name.numbers.get(target)
        if found is None:
            found = self.by_title.numbers.get(target)
        if found is None:
            found = self.by_alias.numbers.get(target)
        return found

    def _matches_by_step(self, target: str, folder: str) -> Iterator[tuple[int, ...]]:
        """Yield the matching nodes in the contract's order: path from the vault, path from the folder, end of a path or
        file name, title, alias."""
        endings = (target[: -len(SUFFIX)], target) if target.endswith(SUFFIX) else (target,)
        for ending in endings:
            yield self.by_stem.get(normalize_path(ending))
        for ending in endings:
            if folder and (path := join_path(folder, ending)) is not None:
                yield self.by_stem.get(path)
        for ending in endings:
            if "/" in ending:
                end = f"/{ending}"
                tail = self.by_tail.get(_name_and_tail(ending)[1])
                yield tuple(number for number in tail if self._path(number).endswith(end))
            else:
                yield self.by_name.get(ending)
        yield self.by_title.get(target)
        yield self.by_alias.get(target)

    def _preference(self, number: int, folder: str) -> tuple[bool, int, str]:
        path, node_id = self._path(number), self._id(number)
        return path[: path.rfind("/") + 1] != folder, path.count("/"), node_id


def _name_and_tail(stem: str) -> tuple[str, str]:
    """The last part of a path, and the last two, if it has as many."""
    last = stem.rfind("/")
    if last < 0:
        return stem, ""
    return stem[last + 1 :], stem[stem.rfind("/", 0, last) + 1 :]


def normalize_path(path: str) -> str:
    """Resolve `.` and `..` in a path from the vault; return one that leads outside unchanged."""
    if path.startswith("/") or "./" in path or "//" in path:
        return join_path("", path.lstrip("/")) or path
    return path


def join_path(folder: str, path: str) -> str | None:
    """Join a folder and a path; return None if the result leads out of the vault."""
    if "./" not in path and "//" not in path and not path.startswith("/"):
        return folder + path
    if path.startswith("/"):
        return None
    parts = folder.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def names_in_targets(targets: Iterable[str]) -> set[str]:
    """Return every name whose notes can change what these targets lead to."""
    names = set(targets)
    for target in targets:
        if "/" in target or target.endswith(SUFFIX):
            name = target[target.rfind("/") + 1 :]
            names.add(name)
            names.add(name.removesuffix(SUFFIX))
    return names


_UNLINKABLE = frozenset("[]|#^\\\r\n")
_SPECIAL = re.compile(r"[\s()<>%\"\\]")


class NoteName(NamedTuple):
    """The ID and the title of a note."""

    id: str
    title: str


def links_to_change(
    text: str,
    *,
    resolves_now: Callable[[str], bool],
    resolves_after: Callable[[str], bool],
    before: NoteName,
    after: NoteName,
) -> dict[str, str]:
    """Return new texts for the links that lead to a note now, so that they lead to it after its rename. `resolves_now`
    and `resolves_after` take a target as a key."""
    changes: dict[str, str] = {}
    for link in _links(text):
        written = text[link.span.start : link.span.end]
        if written in changes or not resolves_now(key(link.target)):
            continue
        for choice in _rewrites(link, text, before, after):
            if resolves_after(key(_target_of(link, choice))):
                if choice != written:
                    changes[written] = choice
                break
    return changes


def rewritten(content: bytes, changes: Mapping[str, str]) -> bytes:
    """Replace these links, and not another byte."""
    text = decoded(content)
    parts: list[str] = []
    place = 0
    for link in _links(text):
        if (new := changes.get(text[link.span.start : link.span.end])) is not None:
            parts += text[place : link.span.start], new
            place = link.span.end
    return encoded("".join([*parts, text[place:]]))


def _links(text: str) -> Sequence[Link]:
    return parse(text, "").links


def _rewrites(link: Link, text: str, before: NoteName, after: NoteName) -> Iterator[str]:
    """Yield possible texts of a link after the rename, the most similar first."""
    written = text[link.span.start : link.span.end]
    stripped = written.strip()
    start = written.index(stripped)
    blanks = (written[:start], written[start + len(stripped) :])
    folders, last = stripped[: stripped.rfind("/") + 1], link.target[link.target.rfind("/") + 1 :]
    suffix = last[-len(SUFFIX) :] if is_note(last) else ""
    is_name = key(name_of(before.id)) in (key(last), key(last.removesuffix(suffix)))
    is_title = link.is_wiki and key(link.target) == key(before.title)
    options: list[str] = []
    is_titled = is_title and not (is_name and (link.target != before.title or link.target == name_of(before.id)))
    if is_titled and _is_linkable(after.title):
        options.append(after.title)
    if is_name:
        options.append(folders + _escaped(link, text, name_of(after.id)) + suffix)
    elif not is_title:
        options.append(stripped)  # an alias, which it keeps
    for name in (name_of(after.id), stem(after.id)):
        options.append(_escaped(link, text, name) + suffix)
    return (blanks[0] + each + blanks[1] for each in options)


def _target_of(link: Link, written: str) -> str:
    return written.strip() if link.is_wiki else unquote(written)


def _is_linkable(title: str) -> bool:
    return not _UNLINKABLE & set(title) and title == title.strip()


def _escaped(link: Link, text: str, name: str) -> str:
    """Percent-encode a name for a Markdown link, except between angle brackets."""
    if link.is_wiki or text[link.span.start - 1] == "<":
        return name
    return _SPECIAL.sub(lambda found: quote(found[0]), name)
