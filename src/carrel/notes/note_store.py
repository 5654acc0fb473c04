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
"""Of a note, some link of which leads nowhere."""
ORPHAN = 2
"""Of a note that no link leads from or to."""


class OverviewNote(NamedTuple):
    id: str
    title: str
    flags: int


class Overview(NamedTuple):
    notes: list[OverviewNote]
    links: list[int]
    """Places in `notes`: where one begins, where it ends, where the next begins and so on."""
    total: int
    """Notes that there are."""


class NodeSnapshot(NamedTuple):
    """A note as it was at one moment."""

    id: str
    title: str
    is_broken: bool
    number: int
    out: "array[int]"
    degree: int


def snapshot(graph: Graph) -> list[NodeSnapshot]:
    """All notes of a graph, to be looked at while it changes; no more is done at once than must be."""
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
    """Where there are more notes than `most`, those with most links."""
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
    return (BROKEN if is_broken else 0) | (0 if is_linked else ORPHAN)


class NotesError(CarrelError):
    """What keeps the notes did not do what it was asked; the text says what to do."""


class LinkView(NamedTuple):
    id: str
    title: str


class NoteView(NamedTuple):
    id: str
    title: str
    content: str
    """All of it, or its first `carrel.notes.parser.EXCERPT_LENGTH` characters in a list."""
    tags: Sequence[str]
    links: Sequence[LinkView]
    warnings: Sequence[str] = ()


Listener = Callable[[Sequence[str], Sequence[str], bool], None]
"""Is told the ids of notes that have changed or are new, of those that are gone, and whether there are others now."""


class Completions(NamedTuple):
    ids: list[str]
    total: int
    """How many there would be without a limit."""


class Neighbor(NamedTuple):
    note: NoteView
    direction: Direction


@dataclass(frozen=True, slots=True)
class Neighborhood:
    neighbors: Sequence[Neighbor]
    """Outgoing first, in the order of the links, then incoming by id; each once."""
    incoming: int
    outgoing: int


class Hub(NamedTuple):
    id: str
    title: str
    score: int


class Refusal(NamedTuple):
    """Why a note was not written; nothing was changed."""

    code: Literal["INVALID_PARAMS", "NODE_EXISTS", "NODE_NOT_FOUND"]
    message: str


class WriteObserver(NamedTuple):
    """Whoever waits for a change that may take long."""

    progress: AsyncProgress | None = None
    """Is told how much of how much is done."""
    committed: Callable[[], None] = lambda: None
    """Is called when the change will be made, and can no longer be given up."""


NO_OBSERVER = WriteObserver()


class NoteStore(Protocol):
    """Raises `NotesError`."""

    async def get(self, note_id: str) -> NoteView | None: ...

    async def get_many(self, ids: Sequence[str]) -> list[NoteView]:
        """Those of them that are there, in this order."""
        ...

    async def neighborhood(self, note_id: str, direction: Direction, limit: int) -> Neighborhood | None: ...

    async def path(self, source: str, target: str) -> list[str] | None: ...

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]: ...

    async def find_by_tags(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]: ...

    async def random(self, tags: Sequence[str] | None) -> NoteView | None: ...

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refusal: ...

    async def update(
        self,
        note_id: str,
        *,
        title: str | None,
        content: str | None,
        tags: Sequence[str] | None,
        observer: WriteObserver = NO_OBSERVER,
    ) -> NoteView | Refusal: ...

    async def delete(self, note_id: str) -> bool: ...

    async def page(self, after: str, limit: int) -> list[LinkView]:
        """Notes in the order of their ids, from the first one behind the id `after` on."""
        ...

    async def overview(self, most: int) -> Overview:
        """All notes and their links; where there are more than `most`, the best linked ones."""
        ...

    async def completions(self, start: str, limit: int) -> Completions:
        """Ids that begin so, by id; then those of which a folder or the file name does. Case does not matter."""
        ...

    def listen(self, listener: Listener) -> None:
        """Tell of what is changed here, and of what is noticed of others' changes."""
        ...

    def watch(self) -> Callable[[], None]:
        """Look for others' changes without being asked anything, until what this returns is called."""
        ...

    def take_warnings(self) -> list[str]:
        """What has been found wrong since this was last asked for."""
        ...

    async def close(self) -> None: ...
