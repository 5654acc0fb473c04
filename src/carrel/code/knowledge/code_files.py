"""The files of a code base as documents to search: one for each function, class or block of lines."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from carrel.code.knowledge.knowledge_source import CODE, VAULT, CodeKey, code_key, filters_of
from carrel.code.knowledge.passages import CodePassage, code_passages
from carrel.search.documents import Document, Passage, split

PARSED_CACHE_SIZE = 2048


class ListedFile(NamedTuple):
    path: str
    """From the root, with `/`."""
    size: int
    mtime_ns: int

    @property
    def stamp(self) -> str:
        return f"{self.size}-{self.mtime_ns}"


class FileAccess(NamedTuple):
    """How files are found and read; all of it may wait for the disk, and runs on a thread."""

    files: Callable[[], Iterable[ListedFile]]
    """Those that may be read."""
    text: Callable[[str], str | None]
    """A file's text; None where there is none to be read, whatever the reason."""
    language: Callable[[str, str], str]
    """From a path and the text."""
    module: Callable[[str], str | None]
    is_of_vault: Callable[[str], bool] = lambda _: False
    """Whether a file lies among the notes, which not every caller may read."""


IndexedVersions = Callable[[], Awaitable[Mapping[str, str]]]
"""The version of each document that the collection has, by its id: `SearchEngine.versions`."""


class CodeFileSource:
    """A file that is indexed as it is now is not read again: the versions of its documents tell its size and time, and
    how many they are, so that one whose indexing was broken off is seen."""

    source = CODE

    def __init__(self, access: FileAccess, indexed: IndexedVersions) -> None:
        self._access = access
        self._indexed = indexed
        self._listed: dict[str, ListedFile] = {}
        self._empty: dict[str, str] = {}
        """The stamps of files that have no passages; nothing else remembers them."""
        self._parsed: dict[ListedFile, list[CodePassage]] = {}
        """Those of late, the oldest first."""

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        known: dict[str, dict[str, str]] = {}
        for document_id, version in (await self._indexed()).items():
            if (key := code_key(document_id)) is not None:
                known.setdefault(key.path, {})[document_id] = version
        listed = await asyncio.to_thread(lambda: {file.path: file for file in self._access.files()})
        self._listed = listed
        self._empty = {path: stamp for path, stamp in self._empty.items() if path in listed}
        for file in listed.values():
            there = known.get(file.path, {})
            if self._empty.get(file.path) == file.stamp:
                continue
            if not there or set(there.values()) != {self._version(file, len(there))}:
                passages = await asyncio.to_thread(self._passages, file)
                there = dict.fromkeys((_id(file.path, each) for each in passages), self._version(file, len(passages)))
                self._remember_empty(file, is_empty=not passages)
            for each in there.items():
                yield each

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        wanted: dict[str, set[str]] = {}
        for each in ids:
            if (key := code_key(each)) is not None and key.path in self._listed:
                wanted.setdefault(key.path, set()).add(each)
        found: list[Document] = []
        for path, those in wanted.items():
            found += await asyncio.to_thread(self._documents, self._listed[path], those)
        return found

    def _documents(self, file: ListedFile, ids: set[str]) -> list[Document]:
        passages = self._passages(file)
        version = self._version(file, len(passages))
        source = VAULT if self._access.is_of_vault(file.path) else CODE
        filters = filters_of(source, CODE, self._access.module(file.path))
        return [_document(file, each, version, filters) for each in passages if _id(file.path, each) in ids]

    def _version(self, file: ListedFile, documents: int) -> str:
        version = f"{file.stamp}/{documents}"
        return f"{version}/{VAULT}" if self._access.is_of_vault(file.path) else version

    def _passages(self, file: ListedFile) -> list[CodePassage]:
        """Of a file that is asked for twice, as each that has changed is, the second time without reading it."""
        if (kept := self._parsed.pop(file, None)) is not None:
            return kept
        text = self._access.text(file.path)
        found = code_passages(file.path, text, self._access.language(file.path, text)) if text else []
        self._parsed[file] = found
        if len(self._parsed) > PARSED_CACHE_SIZE:
            del self._parsed[next(iter(self._parsed))]
        return found

    def _remember_empty(self, file: ListedFile, *, is_empty: bool) -> None:
        if is_empty:
            self._empty[file.path] = file.stamp
        else:
            self._empty.pop(file.path, None)


def _document(file: ListedFile, found: CodePassage, version: str, filters: Mapping[str, str]) -> Document:
    """Found by its name or its path as by a title. The lines are in the id alone: code that moves keeps its vectors."""
    title, label = (found.name, file.path) if found.name else (file.path, "")
    passages = [Passage(part, label) for part in split(found.text)]
    return Document(_id(file.path, found), title, passages, version, file.mtime_ns // 1_000_000, filters)


def _id(path: str, passage: CodePassage) -> str:
    return CodeKey(path, passage.first, passage.last).id
