"""What was learned, and the code itself, as documents of one collection: so they are ranked together.

The id of a document says what it is: `discovery:<uuid>`, `session:<uuid>`, `code:<path>#<first line>-<last line>`.
Each has the filters `source` (discovery, session, code, or vault for code that lies among the notes), `type` (a
discovery's own, else the kind of document) and, where there is one, `module`.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from carrel.code.knowledge.code_base import DEFAULT_CODE_BASE
from carrel.code.knowledge.discoveries import Discovery, DiscoveryRepository
from carrel.code.knowledge.sessions import SessionRepository, SessionSummary
from carrel.search.documents import Document, Passage, split
from carrel.storage.database import Database, Session

T = TypeVar("T")

DISCOVERY, SESSION, CODE = "discovery", "session", "code"
VAULT = "vault"
"""The source of code that lies among the notes: who may not read notes is not shown it."""


def collection_of(code_base: str) -> str:
    """The collection of a code base. Where several share a database, each has its own."""
    return CODE if code_base == DEFAULT_CODE_BASE else f"{CODE}:{code_base}"


class SourcePart(Protocol):
    """One kind of document in a collection: a `carrel.search.engine.Source` whose ids begin with its name."""

    @property
    def source(self) -> str: ...

    def versions(self) -> AsyncIterator[tuple[str, str]]: ...

    async def documents(self, ids: Sequence[str]) -> list[Document]: ...


class CombinedSource:
    """Several kinds of documents as the one source of a collection."""

    def __init__(self, collection: str, *parts: SourcePart) -> None:
        self._collection = collection
        self._parts = {part.source: part for part in parts}

    @property
    def collection(self) -> str:
        return self._collection

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        for part in self._parts.values():
            async for each in part.versions():
                yield each

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        by_part: dict[str, list[str]] = {}
        for each in ids:
            by_part.setdefault(source_of(each), []).append(each)
        found: list[Document] = []
        for name, those in by_part.items():
            if name in self._parts:
                found += await self._parts[name].documents(those)
        return found


def source_of(document_id: str) -> str:
    return document_id.partition(":")[0]


def key_of(document_id: str) -> str:
    """What follows the source: a UUID, or a path with its lines."""
    return document_id.partition(":")[2]


class VersionedRepository(Protocol[T]):
    """A repository of one kind of what was learned."""

    async def versions_after(self, key: str, /) -> list[tuple[str, str]]: ...

    async def get_many(self, ids: Sequence[str], /) -> list[T]: ...


class RepositorySource(Generic[T]):
    """One kind of what was learned, as documents."""

    def __init__(
        self,
        source: str,
        database: Database,
        repository: Callable[[Session], VersionedRepository[T]],
        document: Callable[[T], Document],
    ) -> None:
        self.source = source
        self._database = database
        self._repository = repository
        self._document = document

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        after = ""
        while rows := await self._database.read(
            lambda session, key=after: self._repository(session).versions_after(key)
        ):
            for key, version in rows:
                yield f"{self.source}:{key}", version
            after = rows[-1][0]

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        keys = [key_of(each) for each in ids]
        return [
            self._document(each) for each in await self._database.read(lambda s: self._repository(s).get_many(keys))
        ]


def knowledge_sources(
    database: Database, code_base: str
) -> tuple[RepositorySource[tuple[Discovery, str]], RepositorySource[SessionSummary]]:
    """All that was learned about a code base: discoveries, and summaries of sessions."""
    return (
        RepositorySource(
            DISCOVERY, database, lambda session: DiscoveryRepository(session, code_base), _discovery_document
        ),
        RepositorySource(SESSION, database, lambda session: SessionRepository(session, code_base), _session_document),
    )


def _discovery_document(repository: tuple[Discovery, str]) -> Document:
    discovery, version = repository
    label = " ".join(part for part in (discovery.module, discovery.type) if part)
    passages = [Passage(part, label) for part in split(discovery.content)]
    filters = filters_of(DISCOVERY, discovery.type, discovery.module)
    return Document(f"{DISCOVERY}:{discovery.id}", "", passages, version, discovery.date, filters)


def _session_document(session: SessionSummary) -> Document:
    passages = [Passage(part, session.module or "") for part in split(session.content)]
    filters = filters_of(SESSION, SESSION, session.module)
    return Document(f"{SESSION}:{session.id}", session.title or "", passages, str(session.date), session.date, filters)


def filters_of(source: str, type_: str, module: str | None) -> dict[str, str]:
    filters = {"source": source, "type": type_}
    return {**filters, "module": module} if module else filters


class CodeKey(NamedTuple):
    """Where a passage of code is; what the id of its document says."""

    path: str
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{CODE}:{self.path}#{self.first}-{self.last}"

    @property
    def place(self) -> str:
        """As people and editors write it: `path:first-last`."""
        return f"{self.path}:{self.first}-{self.last}"


def code_key(document_id: str) -> CodeKey | None:
    """None for the id of anything but code."""
    path, hash_, lines = key_of(document_id).rpartition("#")
    first, dash, last = lines.partition("-")
    if source_of(document_id) != CODE or not (hash_ and dash and first.isdecimal() and last.isdecimal()):
        return None
    return CodeKey(path, int(first), int(last))
