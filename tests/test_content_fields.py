"""A field of content is spelled in the schema, in the bundle's fields and in the row that is read: they agree."""

import pytest

from carrel.content.blocks import QuotableBlock
from carrel.content.bundle.fields import BLOCKS, ENTITIES, PERFORMANCE, PROJECTS, TABLES, Kind
from carrel.content.bundle.staging_tables import ref_columns
from carrel.content.entities import Entity
from carrel.content.performance import SearchPerformance
from carrel.content.projects import Project
from carrel.storage.schema import metadata

NOT_SHOWN = {"title_key", "head_fold", "summary_fold", "name_fold", "query_fold", "page_url_fold", "topic_fold"}
NOT_SHOWN |= {"project_pk", "text_digest"}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.table)
def test_the_bundle_fills_every_column_of_a_table_and_no_other(kind: Kind) -> None:
    plain = {column.name for column in kind.columns} - kind.hidden
    filled = (
        plain | {"pk"} | set(ref_columns(kind)) | kind.written.keys() | ({"project_pk"} if kind.in_project else set())
    )
    assert filled == {column.name for column in metadata.tables[kind.table].columns}


@pytest.mark.parametrize(
    ("kind", "row"),
    [(PROJECTS, Project), (ENTITIES, Entity), (PERFORMANCE, SearchPerformance), (BLOCKS, QuotableBlock)],
    ids=lambda each: getattr(each, "key", ""),
)
def test_a_row_that_is_read_has_every_column_that_is_shown(kind: Kind, row: type) -> None:
    names = {"entity_pk" if name == "entity_id" else name for name in row._fields}
    columns = {column.name for column in metadata.tables[kind.table].columns}
    assert names | {"pk"} == columns - NOT_SHOWN
