"""Content written by hand: each change is a bundle of one record, and is checked as one."""

from collections.abc import Mapping
from typing import Any

from carrel.content.bundle.fields import BLOCKS, ENTITIES, PERFORMANCE, PROJECTS, Kind
from carrel.content.bundle.importing import Report, bring_in
from carrel.content.bundle.staging import Stage
from carrel.content.looking import Found
from carrel.content.tallies import count_anew
from carrel.storage.bulk import Bulk


class _ByHand:
    is_lines = True

    def place(self, key: str, number: int) -> str:
        return ""


def write(bulk: Bulk, kind: Kind, record: Mapping[str, Any]) -> Report:
    """Add the record or bring it up to date; raises `ContentRefused` for one that is wrong."""

    def fill(stage: Stage) -> None:
        stage.begin(_ByHand())
        stage.add(kind, 1, record)

    bulk.roll_back()
    return bring_in(bulk, fill)


def remove(bulk: Bulk, found: Found) -> None:
    """Remove a record with everything that depends on it. Search performance of an entity stays, without the entity."""
    bulk.roll_back()
    bulk.begin_writing()
    values = {"pk": found.pk}
    if found.kind is PROJECTS:
        bulk.execute("DELETE FROM search_performance WHERE project_pk = :pk", values)
    elif found.kind is ENTITIES:
        bulk.execute(
            "UPDATE search_performance SET entity_pk = NULL WHERE project_pk = :project AND entity_pk = :pk",
            {**values, "project": found.project_pk},
        )
    bulk.execute(f"DELETE FROM {found.kind.table} WHERE pk = :pk", values)
    touched = {ENTITIES.key: (ENTITIES, BLOCKS), PERFORMANCE.key: (PERFORMANCE,), BLOCKS.key: (BLOCKS,)}
    for kind in touched.get(found.kind.key, ()):
        count_anew(bulk, kind.table, str(found.project_pk))
    bulk.commit()
