"""How many rows there are of each sort, counted anew after a table was written to."""

from collections.abc import Mapping
from dataclasses import dataclass

from carrel.content.times import BEGINNING, DAY
from carrel.storage.bulk import Bulk


@dataclass(frozen=True, slots=True)
class Tally:
    table: str
    of: str
    columns: Mapping[str, str]
    """Its columns, each with what it holds of a row that is counted."""


TALLIES = (
    Tally(
        "entity_tally",
        "entity",
        {"entity_type": "entity_type", "status": "status", "concept_kind": "coalesce(concept_kind, '')"},
    ),
    Tally("search_performance_tally", "search_performance", {"date_start": "date_start", "date_end": "date_end"}),
    Tally(
        "quotable_block_expiry_tally",
        "quotable_block",
        {"verified_day": f"coalesce((verified_until - ({BEGINNING})) / {DAY}, -1)", "claim_type": "claim_type"},
    ),
)


def count_anew(bulk: Bulk, table: str, projects: str) -> None:
    """Bring a table's tallies up to date, for the projects that the query gives."""
    for tally in TALLIES:
        if tally.of == table:
            values = ", ".join(tally.columns.values())
            bulk.execute(f"DELETE FROM {tally.table} WHERE project_pk IN ({projects})")
            bulk.execute(f"""
                INSERT INTO {tally.table} (project_pk, {", ".join(tally.columns)}, total)
                SELECT project_pk, {values}, count(*) FROM {table}
                WHERE project_pk IN ({projects}) GROUP BY project_pk, {values}
            """)
