"""The kinds of record in a bundle: their fields, and the columns that store them.

A field is described here once: what a bundle may give, the columns it fills, and how they are folded for search.
Staging, checks, matching, writing and export derive from it. A new column is one line here, one in the row type that
lists it (`Entity` and so on), and one in the schema with its migration; `tests/test_content_fields.py` fails until all
agree.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from carrel.content.bundle import values
from carrel.content.bundle.values import Parse
from carrel.content.field_types import (
    CLAIM_TYPES,
    CONCEPT_KINDS,
    DIFFICULTIES,
    DISTRIBUTION,
    ENTITY_TYPES,
    RELATION_TYPES,
    SOURCE,
    STATUSES,
    VIDEO,
    fold,
)

NOW = object()  # a default: the time of the import
ID_BIT = 1
ID_WIDTH = 36

# Parts of an entity's keys: the title key is the folded title, a separator and the id.
_TITLE_FOLD = f"substr(t.title_key, 1, length(t.title_key) - {ID_WIDTH + 1})"
_SLUG_FOLD = f"substr(t.head_fold, length(t.title_key) - {ID_WIDTH - 1})"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str = "text"
    stored: str = ""
    """Its expression over a stored row `t`, if the table has no column of this name."""

    @property
    def in_stored(self) -> str:
        return self.stored or f"t.{self.name}"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    parse: Parse
    columns: tuple[Column, ...]
    spread: Callable[[Any], tuple[object, ...]]
    """Converts the parsed value to the values of the columns."""
    needed: bool = False
    """Whether a new record must have it."""
    nullable: bool = False
    default: object = None


def _single(value: Any) -> tuple[object, ...]:
    return (value,)


def _plain(
    name: str, parse: Parse, kind: str = "text", *, needed: bool = False, nullable: bool = False, default: object = None
) -> Field:
    return Field(name, parse, (Column(snake(name), kind),), _single, needed, nullable, default)


def _folded(name: str, parse: Parse, fold_column: Column, *, needed: bool = False, nullable: bool = False) -> Field:
    def spread(value: str | None) -> tuple[object, ...]:
        return value, None if value is None else fold(value)

    return Field(name, parse, (Column(snake(name)), fold_column), spread, needed, nullable)


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def compact(value: object) -> str:
    """Return compact JSON, as columns store it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to another record: by its id, or by its kind and key as in "guide:intro"."""

    name: str
    id_name: str
    type_name: str = ""
    nullable: bool = False
    needed: bool = True
    to_items: bool = False

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.name, self.id_name, self.type_name)))


@dataclass(frozen=True, slots=True)
class Key:
    """A unique key; rows with NULL in one of its columns are exempt."""

    columns: tuple[str, ...]
    where: str = ""
    """A condition on the rows that the key covers; `{0}` is the alias."""


@dataclass(frozen=True)
class Kind:
    key: str
    """The array's name in a bundle."""
    one: str
    """The singular, in JSON Lines and in messages."""
    table: str
    fields: Mapping[str, Field]
    keys: tuple[Key, ...]
    parked: str
    """The key column that can hold a placeholder while rows swap their keys."""
    refs: tuple[Ref, ...] = ()
    in_project: bool = True
    item_kind: str = ""
    written: Mapping[str, str] = field(default_factory=dict[str, str])
    """Columns computed from the staged row `s`."""
    insert_order: tuple[str, ...] = ()
    """Columns to sort new rows by before inserting them: those of the largest indexes."""
    hidden: frozenset[str] = frozenset()
    """Staged columns that the table does not have."""

    @cached_property
    def staged(self) -> str:
        return f"stage_{self.table}"

    @cached_property
    def ready(self) -> str:
        return f"ready_{self.table}"

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for each in self.fields.values() for column in each.columns)

    @cached_property
    def bits(self) -> Mapping[str, int]:
        """The bit of `given` for each field, reference and project that a record has."""
        names = [*self.fields, *(ref.name for ref in self.refs), *(["project"] if self.in_project else [])]
        return {name: 1 << place for place, name in enumerate(names)}

    @cached_property
    def given_fields(self) -> Mapping[str, Field]:
        """The fields that a record gives under their own names."""
        made = ("kind", "details") if self.is_open else ()
        return {name: each for name, each in self.fields.items() if name not in made}

    @cached_property
    def names(self) -> Mapping[str, None]:
        """Every name that a field of a record may have, in order."""
        refs = [name for ref in self.refs for name in ref.field_names]
        projects = ("project", "projectId") if self.in_project else ()
        return dict.fromkeys((*self.given_fields, *refs, *projects))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields.values() if each.needed)

    @cached_property
    def has_warnings(self) -> bool:
        return self.table in ("entity", "quotable_block")

    @cached_property
    def stamp(self) -> str | None:
        """The field with the time of the last change, if the kind has one."""
        return next((name for name in ("updatedAt", "capturedAt") if name in self.fields), None)

    @property
    def is_open(self) -> bool:
        return bool(self.item_kind)


def _fields(*fields: Field) -> dict[str, Field]:
    return {each.name: each for each in fields}


_ID = _plain("id", values.identifier)
_CREATED = _plain("createdAt", values.time, "bigint", default=NOW)
_UPDATED = _plain("updatedAt", values.time, "bigint", default=NOW)


def _optional_text(name: str) -> Field:
    return _plain(name, values.text, nullable=True)


def _optional_time(name: str) -> Field:
    return _plain(name, values.time, "bigint", nullable=True)


PROJECTS = Kind(
    "projects",
    "project",
    "project",
    _fields(
        _ID,
        _plain("slug", values.project_slug, needed=True),
        _folded("name", values.line(200), Column("name_fold"), needed=True),
        _optional_text("description"),
        _CREATED,
        _UPDATED,
    ),
    (Key(("slug",)),),
    "slug",
    in_project=False,
)


def _targets(value: list[str] | None) -> tuple[object, ...]:
    return (None if value is None else compact(value),)


ENTITIES = Kind(
    "entities",
    "entity",
    "entity",
    _fields(
        _ID,
        _plain("entityType", values.one_of(ENTITY_TYPES), needed=True),
        _folded("slug", values.slug, Column("slug_fold", stored=_SLUG_FOLD), needed=True),
        _folded("title", values.line(500), Column("title_fold", stored=_TITLE_FOLD), needed=True),
        _folded("summary", values.text, Column("summary_fold"), nullable=True),
        _plain("difficulty", values.one_of(DIFFICULTIES), nullable=True),
        _plain("conceptKind", values.one_of(CONCEPT_KINDS), nullable=True),
        Field("comparisonTargets", values.identifiers, (Column("comparison_targets"),), _targets, nullable=True),
        _optional_text("repoUrl"),
        _optional_text("repoDefaultBranch"),
        _optional_text("license"),
        _plain("status", values.one_of(STATUSES), default="draft"),
        _optional_text("canonicalUrl"),
        _optional_text("contentRef"),
        _optional_time("publishedAt"),
        _optional_time("archivedAt"),
        _optional_time("lastVerifiedAt"),
        _CREATED,
        _UPDATED,
    ),
    (Key(("project_pk", "entity_type", "slug")),),
    "slug",
    written={
        "title_key": "s.title_fold || :separator || s.id",
        "head_fold": "s.title_fold || :separator || s.slug_fold",
    },
    hidden=frozenset({"title_fold", "slug_fold"}),
)


def _items(key: str, one: str, kind: str) -> Kind:
    return Kind(
        key,
        one,
        "item",
        _fields(
            _ID,
            Field("kind", values.text, (Column("kind"),), _single, default=kind),
            _plain("url", values.bounded(values.MAX_URL_BYTES), nullable=True),
            _plain("title", values.line(500), nullable=True),
            _plain("details", values.text, default="{}"),
            _CREATED,
            _UPDATED,
        ),
        (Key(("project_pk", "kind", "url")), Key(("project_pk", "kind", "title"), "{0}.url IS NULL")),
        "url",
        item_kind=kind,
    )


SOURCES = _items("sources", "source", SOURCE)
VIDEOS = _items("videos", "video", VIDEO)
DISTRIBUTIONS = _items("distributions", "distribution", DISTRIBUTION)

RELATIONS = Kind(
    "relations",
    "relation",
    "relation",
    _fields(
        _ID,
        _plain("relationType", values.one_of(RELATION_TYPES), needed=True),
        _optional_text("notes"),
        _CREATED,
    ),
    (
        Key(("project_pk", "from_pk", "to_pk", "relation_type")),
        Key(("project_pk", "from_item", "to_pk", "relation_type")),
        Key(("project_pk", "to_item", "from_pk", "relation_type")),
    ),
    "relation_type",
    insert_order=("from_pk", "to_pk"),
    refs=(
        Ref("from", "fromEntityId", "fromEntityType", to_items=True),
        Ref("to", "toEntityId", "toEntityType", to_items=True),
    ),
)

PERFORMANCE = Kind(
    "searchPerformance",
    "searchPerformance",
    "search_performance",
    _fields(
        _ID,
        _folded("pageUrl", values.bounded(values.MAX_URL_BYTES, empty=True), Column("page_url_fold"), needed=True),
        _folded("query", values.bounded(values.MAX_URL_BYTES, empty=True), Column("query_fold"), needed=True),
        _plain("impressions", values.integer, "bigint", needed=True),
        _plain("clicks", values.integer, "bigint", needed=True),
        _plain("ctr", values.share, "double precision", needed=True),
        _plain("avgPosition", values.position, "double precision", needed=True),
        _plain("dateStart", values.time, "bigint", needed=True),
        _plain("dateEnd", values.time, "bigint", needed=True),
        _plain("capturedAt", values.time, "bigint", default=NOW),
    ),
    (Key(("project_pk", "date_start", "date_end", "query", "page_url")),),
    "query",
    insert_order=("date_start", "date_end", "query"),
    refs=(Ref("entity", "entityId", nullable=True, needed=False),),
)


def _digested(value: str | None) -> tuple[object, ...]:
    return value, None if value is None else sha256(value.encode()).hexdigest()


def _tagged(value: str | None) -> tuple[object, ...]:
    return value, fold(value or "")


BLOCKS = Kind(
    "quotableBlocks",
    "quotableBlock",
    "quotable_block",
    _fields(
        _ID,
        Field("text", values.non_empty_text, (Column("text"), Column("text_digest")), _digested, needed=True),
        _plain("claimType", values.one_of(CLAIM_TYPES), needed=True),
        _optional_text("sourceCitation"),
        _optional_time("verifiedUntil"),
        Field("topicTag", values.line(200), (Column("topic_tag"), Column("topic_fold")), _tagged, nullable=True),
        _CREATED,
        _UPDATED,
    ),
    (Key(("project_pk", "entity_pk", "claim_type", "text_digest")),),
    "claim_type",
    refs=(Ref("entity", "entityId"),),
)

KINDS = (PROJECTS, ENTITIES, SOURCES, VIDEOS, DISTRIBUTIONS, RELATIONS, PERFORMANCE, BLOCKS)
BY_KEY = {kind.key: kind for kind in KINDS}
BY_NAME = BY_KEY | {kind.one: kind for kind in KINDS}
TABLES = (PROJECTS, ENTITIES, SOURCES, RELATIONS, PERFORMANCE, BLOCKS)
"""One kind for each table, in an order in which they can be filled."""
