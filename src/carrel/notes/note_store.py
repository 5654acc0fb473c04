"""The interface of a store of notes, with the values that it returns, wherever the notes are kept."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

from carrel.common import AsyncProgress
from carrel.errors import CarrelError
from carrel.notes.graph import Direction, Graph, Metric

BROKEN = 1
"""Flag of a note with a broken link."""
ORPHAN = 2
"""Flag of a note without any link from or to it."""


class OverviewNote(NamedTuple):
    """A node of the overview, with the flags `BROKEN` and `ORPHAN`."""

    id: str
    title: str
    flags: int


class Overview(NamedTuple):
    """All notes and the links between them, for the page's graph."""

    notes: list[OverviewNote]
    links: list[int]
    """Places in `notes`: where one begins, where it ends, where the next begins and so on."""
    total: int
    """Notes that there are."""


class NodeSnapshot(NamedTuple):
    """A node's values at one moment, to be read on another thread while the graph changes."""

    id: str
    title: str
    is_broken: bool
    number: int
    out: "array[int]"
    degree: int


def snapshot(graph: Graph) -> list[NodeSnapshot]:
    """Copy all nodes of a graph; all that must happen on the event loop before `overview_of`."""
    return [
        NodeSnapshot(
            node.id,
            node.facts.title,
            node.unresolved,
            node.number,
            node.out[:],
            len(node.out) + len(node.into),
        )
        for node in graph
    ]


def overview_of(snapshots: list[NodeSnapshot], most: int) -> Overview:
    """Build the overview of at most `most` notes, those with most links first if there are more."""
    total = len(snapshots)
    if total > most:
        snapshots = sorted(snapshots, key=attrgetter("id"))
        snapshots.sort(key=attrgetter("degree"), reverse=True)
        del snapshots[most:]
    places = {note.number: place for place, note in enumerate(snapshots)}
    links: list[int] = []
    for place, note in enumerate(snapshots):
        for number in note.out:
            if number in places:
                links += (place, places[number])
    notes = [
        OverviewNote(note.id, note.title, flags(is_broken=note.is_broken, is_linked=note.degree > 0))
        for note in snapshots
    ]
    return Overview(notes, links, total)


def flags(*, is_broken: bool, is_linked: bool) -> int:
    """Combine the flags of a note."""
    return (BROKEN if is_broken else 0) | (0 if is_linked else ORPHAN)


class NotesError(CarrelError):
    """The store of the notes has failed; the message says what to do."""


class LinkView(NamedTuple):
    """A linked note."""

    id: str
    title: str


class NoteView(NamedTuple):
    """A note as the tools return it."""

    id: str
    title: str
    content: str
    """All of it, or its first `carrel.notes.parser.EXCERPT_LENGTH` characters in a list."""
    tags: Sequence[str]
    links: Sequence[LinkView]
    warnings: Sequence[str] = ()


Listener = Callable[[Sequence[str], Sequence[str], bool], None]
"""Called with the IDs of changed and new notes, the IDs of removed ones, and whether notes came or went."""


class Completions(NamedTuple):
    """IDs that complete a prefix."""

    ids: list[str]
    total: int
    """How many there would be without a limit."""


class Neighbor(NamedTuple):
    """A neighbor and the direction of its link."""

    note: NoteView
    direction: Direction


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """The neighbors of a note, and how many there are in all."""

    neighbors: Sequence[Neighbor]
    """Outgoing first, in the order of the links, then incoming by id; each once."""
    incoming: int
    outgoing: int


class Hub(NamedTuple):
    """A note with its degree."""

    id: str
    title: str
    score: int


class Refusal(NamedTuple):
    """The reason why a note was not written; nothing was changed."""

    code: Literal["INVALID_PARAMS", "NODE_EXISTS", "NODE_NOT_FOUND"]
    message: str


class WriteObserver(NamedTuple):
    """The callbacks of a caller that waits for a write which may take long."""

    progress: AsyncProgress | None = None
    """Progress callback: done, total, message."""
    committed: Callable[[], None] = lambda: None
    """Called when the write can no longer be canceled."""


NO_OBSERVER = WriteObserver()


class NoteStore(Protocol):
    """A store of notes. Methods raise `NotesError`."""

    async def get(self, note_id: str) -> NoteView | None:
        """Return a note with its full content; None if there is none."""
        ...

    async def get_many(self, ids: Sequence[str]) -> list[NoteView]:
        """Return those of these notes that exist, in this order, with excerpts for content."""
        ...

    async def neighborhood(self, note_id: str, direction: Direction, limit: int) -> Neighborhood | None:
        """Return a note's neighbors; None if there is no such note."""
        ...

    async def path(self, source: str, target: str) -> list[str] | None:
        """Return the IDs of the shortest path along links; None if there is none."""
        ...

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]:
        """Return the notes with the most links."""
        ...

    async def find_by_tags(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
        """Return the notes that have one of the tags, or all of them, by ID."""
        ...

    async def random(self, tags: Sequence[str] | None) -> NoteView | None:
        """Return a note with one of the tags, or any note, each with the same probability."""
        ...

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refusal:
        """Write a new note."""
        ...

    async def update(
        self,
        note_id: str,
        *,
        title: str | None,
        content: str | None,
        tags: Sequence[str] | None,
        observer: WriteObserver = NO_OBSERVER,
    ) -> NoteView | Refusal:
        """Change title, content or tags of a note; a new title may change its ID and the links to it."""
        ...

    async def delete(self, note_id: str) -> bool:
        """Delete a note; return whether there was one."""
        ...

    async def page(self, after: str, limit: int) -> list[LinkView]:
        """Return notes in order of their IDs, beginning after the ID `after`."""
        ...

    async def overview(self, most: int) -> Overview:
        """Return all notes and links, or the `most` best linked notes."""
        ...

    async def completions(self, start: str, limit: int) -> Completions:
        """Return IDs with this prefix, then those with a folder or file name that has it, ignoring case."""
        ...

    def listen(self, listener: Listener) -> None:
        """Call the listener on every change, of this process or another."""
        ...

    def watch(self) -> Callable[[], None]:
        """Look for other processes' changes without being queried, until the returned function is called."""
        ...

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call, and clear them."""
        ...

    async def close(self) -> None:
        """Finish writes in progress, and release everything."""
        ...
