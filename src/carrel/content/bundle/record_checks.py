"""Checks of a single record, and the row that it is staged as."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, cast

from carrel.content.bundle import values
from carrel.content.bundle.fields import ENTITIES, NOW, PERFORMANCE, PROJECTS, RELATIONS, Kind, Ref, compact
from carrel.content.bundle.values import InvalidValue, quoted
from carrel.content.field_types import ENTITY_TYPES, ITEM_KINDS, RELATION_ENDS

MIN_BLOCK_WORDS, MAX_BLOCK_WORDS = 25, 50
MAX_QUERY_AND_PAGE_BYTES = 2500  # bytes: both stand in one index, and PostgreSQL takes rows of 2,704 there

MessageSink = Callable[[str], None]
ProjectRef = tuple[str | None, str | None]
"""The id or the slug."""

_end_kind = values.one_of((*ENTITY_TYPES, *ITEM_KINDS))
_RELATION_PARTS = frozenset({"relationType", *(name for ref in RELATIONS.refs for name in ref.field_names)})


class Target(NamedTuple):
    """The record that a reference names, by id or by kind and key."""

    kind: str | None
    id: str | None
    key: str | None


NO_TARGET = Target(None, None, None)


class StagedRow(NamedTuple):
    """A record as it is staged."""

    given: int
    project: ProjectRef | None
    """None if the record names no project."""
    targets: Sequence[Target]
    columns: list[object]
    compared_with: Sequence[str]
    """Ids of the entities that a comparison names."""


def _new_ids() -> Iterator[str]:
    """Generate version 4 UUIDs, drawing randomness for a hundred at a time."""
    while True:
        digits = os.urandom(1600).hex()
        for at in range(0, len(digits), 32):
            d = digits[at : at + 32]
            variant = "89ab"[int(d[16], 16) & 3]
            yield f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{variant}{d[17:20]}-{d[20:]}"


class RecordChecker:
    """Checks records and turns them into rows; records without a creation time get the time of the import."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._new_ids = _new_ids()
        self._plans: dict[str, Sequence[_ColumnStep]] = {}

    def row(self, kind: Kind, record: Mapping[str, object], say: MessageSink, warn: MessageSink) -> StagedRow | None:
        """Return the row, or None after every fault of the record was reported."""
        parser = _RecordParser(kind, record, say)
        parsed = parser.fields()
        project = parser.project() if kind.in_project else None
        targets = [parser.target(ref, parsed) for ref in kind.refs]
        if not parser.is_valid:
            return None
        given = parser.reference_bits
        columns: list[object] = []
        for name, bit, spread, default in self._plans.get(kind.key) or self._plan(kind):
            if name in parsed:
                given |= bit
                columns += spread(parsed[name])
            elif name == "id":
                columns.append(next(self._new_ids))
            else:
                columns += default
        if kind.has_warnings:
            _warnings(kind, parsed, warn)
        return StagedRow(given, project, targets, columns, parsed.get("comparisonTargets") or ())

    def _plan(self, kind: Kind) -> "Sequence[_ColumnStep]":
        """Compute once how each field becomes columns: an import may have millions of records."""
        self._plans[kind.key] = plan = [
            _ColumnStep(
                name, kind.bits[name], field.spread, field.spread(self._now if field.default is NOW else field.default)
            )
            for name, field in kind.fields.items()
        ]
        return plan


class _ColumnStep(NamedTuple):
    field: str
    bit: int
    spread: Callable[[Any], tuple[object, ...]]
    default: tuple[object, ...]


class _RecordParser:
    """The parser of one record."""

    __slots__ = ("_kind", "_record", "_say", "is_valid", "reference_bits")

    def __init__(self, kind: Kind, record: Mapping[str, object], say: MessageSink) -> None:
        self._kind = kind
        self._record = record
        self._say = say
        self.is_valid = True
        self.reference_bits = 0

    def wrong(self, message: str) -> None:
        self.is_valid = False
        self._say(message)

    def fields(self) -> dict[str, Any]:
        kind = self._kind
        parsed: dict[str, Any] = {}
        details: dict[str, object] = {}
        for name, value in self._record.items():
            field = kind.given_fields.get(name)
            if field is None:
                if name not in kind.names:
                    self._other(name, value, details)
            elif value is None and field.nullable:
                parsed[name] = None
            else:
                try:
                    parsed[name] = field.parse(value)
                except InvalidValue as wrong:
                    self.wrong(f"{name} {wrong}")
        if kind.is_open:
            parsed["kind"] = kind.item_kind
            if details:
                parsed["details"] = compact(details)
        if "id" not in self._record:
            self._new(parsed)
        if kind is PERFORMANCE:
            self._performance(parsed)
        return parsed

    def _other(self, name: str, value: object, details: dict[str, object]) -> None:
        kind = self._kind
        if not kind.is_open:
            near = get_close_matches(name, kind.names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kind.names)}"
            self.wrong(f"unknown field {quoted(name)}; {hint}")
        elif name in ("kind", "details"):
            self.wrong(f"a field of {kind.key} cannot be called {name}: call it something else")
        else:
            try:
                values.text(name)
                details[name] = values.open_value(value)
            except InvalidValue as wrong:
                self.wrong(f"{quoted(name)} {wrong}")

    def _new(self, parsed: Mapping[str, Any]) -> None:
        """Check that a record without an id, which must be new, is complete."""
        kind, record = self._kind, self._record
        for name in kind.needed:
            if name not in record:
                self.wrong(f"{name} is missing")
        if kind.is_open and not any(record.get(name) is not None for name in ("url", "title")):
            self.wrong("url or title is missing: one of them must be there")

    def _performance(self, parsed: Mapping[str, Any]) -> None:
        clicks, impressions = parsed.get("clicks"), parsed.get("impressions")
        if clicks is not None and impressions is not None and clicks > impressions:
            self.wrong(f"clicks must not be more than impressions: {clicks} of {impressions}")
        start, end = parsed.get("dateStart"), parsed.get("dateEnd")
        if start is not None and end is not None and start > end:
            self.wrong("dateStart must not be after dateEnd")
        query, page = parsed.get("query"), parsed.get("pageUrl")
        if query is None or page is None:
            return
        if not query and not page:
            self.wrong("query and pageUrl must not both be empty")
        if len(query.encode()) + len(page.encode()) > MAX_QUERY_AND_PAGE_BYTES:
            self.wrong(f"query and pageUrl must have {MAX_QUERY_AND_PAGE_BYTES} bytes or less together")

    def project(self) -> ProjectRef | None:
        record = self._record
        slug, identifier = record.get("project"), record.get("projectId")
        if slug is None and identifier is None:
            if "id" not in record:
                self.wrong("project is missing: give the project's slug, or projectId")
            return None
        self.reference_bits |= self._kind.bits["project"]
        try:
            if slug is None:
                return values.identifier(identifier), None
            if identifier is None:
                return None, _checked_slug(slug) if isinstance(slug, str) else values.project_slug(slug)
            raise InvalidValue("and projectId are both given: leave one out")
        except InvalidValue as wrong:
            self.wrong(f"{'projectId' if slug is None else 'project'} {wrong}")
            return None

    def target(self, ref: Ref, parsed: Mapping[str, Any]) -> Target:
        record = self._record
        by_id, by_key = ref.id_name in record, ref.name in record
        if not by_id and not by_key:
            if (ref.needed and "id" not in record) or self._is_part_of_a_relation():
                self.wrong(f"{ref.name} is missing: give {ref.name}, or {ref.id_name}")
            return NO_TARGET
        self.reference_bits |= self._kind.bits[ref.name]
        try:
            if by_id and by_key:
                raise InvalidValue(f"and {ref.id_name} are both given: leave one out")
            value = record[ref.id_name if by_id else ref.name]
            if value is None and ref.nullable:
                return NO_TARGET
            target = Target(None, values.identifier(value), None) if by_id else parsed_key(value, ref)
        except InvalidValue as wrong:
            self.wrong(f"{ref.name if by_key else ref.id_name} {wrong}")
            return NO_TARGET
        return self._fitting(ref, target, parsed) if ref.type_name else target

    def _is_part_of_a_relation(self) -> bool:
        """Whether a relation gives some of its ends and type; with an id it may leave out all three, but not some."""
        return self._kind is RELATIONS and not _RELATION_PARTS.isdisjoint(self._record)

    def _fitting(self, ref: Ref, target: Target, parsed: Mapping[str, Any]) -> Target:
        """Return the target with its kind, which the relation's type decides."""
        named = self._record.get(ref.type_name)
        if named is not None:
            try:
                target = target._replace(kind=_end_kind(named))
            except InvalidValue as wrong:
                self.wrong(f"{ref.type_name} {wrong}")
                return target
        relation_type = parsed.get("relationType")
        if relation_type is None:
            if "relationType" not in self._record and "id" in self._record and ref.name == "from":
                self.wrong("relationType is missing: a relation's ends and type are given together")
            return target
        kind = RELATION_ENDS[relation_type][ref.name == "to"]
        if target.kind is None:
            return Target(kind, target.id, None)
        if target.kind != kind:
            self.wrong(f"{relation_type} leads {ref.name} a {kind}, not {ref.name} a {target.kind}")
        return target


@lru_cache(maxsize=1024)
def _checked_slug(slug: str) -> str:
    return values.project_slug(slug)


def parsed_key(value: object, ref: Ref) -> Target:
    """Parse a key such as "guide:intro"."""
    kinds = (*ENTITY_TYPES, *ITEM_KINDS) if ref.to_items else ENTITY_TYPES
    kind, _, key = values.text(value).partition(":")
    if kind not in kinds or not key:
        raise InvalidValue(f'must be a type and a slug as in "guide:intro", the type one of {", ".join(kinds)}')
    return Target(kind, None, key)


def _warnings(kind: Kind, parsed: Mapping[str, Any], warn: MessageSink) -> None:
    if kind is ENTITIES:
        if parsed.get("conceptKind") and parsed.get("entityType", "concept") != "concept":
            warn(f"conceptKind is meant for concepts, and this is a {parsed['entityType']}")
    elif "text" in parsed:
        words = len(parsed["text"].split())
        if not MIN_BLOCK_WORDS <= words <= MAX_BLOCK_WORDS:
            warn(f"a block should have {MIN_BLOCK_WORDS} to {MAX_BLOCK_WORDS} words, and this has {words}")


def possible_names(kind: Kind, record: Mapping[str, object]) -> list[str]:
    """Return the names by which other records may refer to an invalid record, so that they are not faulted for it."""
    identifier = record.get("id")
    found = [identifier.lower()] if isinstance(identifier, str) else []
    if kind is PROJECTS:
        found.append(cast("str", record.get("slug")))
    elif kind is ENTITIES:
        found.append(f"{record.get('entityType')}:{record.get('slug')}")
    elif kind.is_open:
        found += [f"{kind.item_kind}:{record[name]}" for name in ("url", "title") if record.get(name)]
    return [name for name in found if type(name) is str]
