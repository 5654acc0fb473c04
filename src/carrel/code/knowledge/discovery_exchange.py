"""Discoveries in and out as JSON Lines. Everything is brought in or, where anything is wrong, nothing."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from uuid import UUID

from carrel.code.knowledge.discoveries import (
    PAGE_SIZE,
    Discovery,
    DiscoveryRepository,
    FieldError,
    NewDiscovery,
    is_uuid,
    validated,
)
from carrel.common import INSTANT_FORMATS, Progress, instant, now
from carrel.errors import CarrelError
from carrel.untrusted import Unreadable, load_json

FIELDS = ("id", "type", "content", "module", "session", "date")
REQUIRED = ("type", "content")
MAX_SHOWN_ERRORS = 20


class LineError(NamedTuple):
    line: int
    message: str


class DiscoveryImportError(CarrelError):
    """Lines have faults, and nothing of them was written."""

    def __init__(self, errors: list[LineError]) -> None:
        self.errors = errors
        shown = [f"  line {fault.line}: {fault.message}" for fault in errors[:MAX_SHOWN_ERRORS]]
        more = [f"  and {len(errors) - MAX_SHOWN_ERRORS} more"] if len(errors) > MAX_SHOWN_ERRORS else []
        number = "1 fault" if len(errors) == 1 else f"{len(errors)} faults"
        super().__init__("\n".join([f"nothing was written: {number}", *shown, *more]))


class ImportedLine(NamedTuple):
    """A line that can be kept. One without an id has one that follows from what it says: the same line is the same
    discovery, however often it comes."""

    line: int
    id: str
    has_id: bool
    new_discovery: NewDiscovery
    date: int | None


@dataclass(slots=True)
class ImportReport:
    added: int = 0
    updated: int = 0
    unchanged: int = 0


def read_lines(lines: Iterable[bytes]) -> list[ImportedLine]:
    """Raises `DiscoveryImportError` with all that is wrong."""
    found: dict[str, ImportedLine] = {}
    errors: list[LineError] = []
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        read = _read(number, text)
        if not isinstance(read, ImportedLine):
            errors += [LineError(number, str(each)) for each in read]
        elif (first := found.setdefault(read.id, read)) is not read and first[1:] != read[1:]:
            errors.append(LineError(number, f"has the id of line {first.line}, and says something else"))
    if errors:
        raise DiscoveryImportError(errors)
    return list(found.values())


def _read(number: int, line: bytes) -> ImportedLine | list[FieldError]:
    try:
        record = load_json(line.decode())
    except UnicodeDecodeError:
        return [FieldError("it", "must be UTF-8")]
    except Unreadable:
        return [FieldError("it", "must be JSON")]
    if not isinstance(record, dict):
        return [FieldError("it", "must be a JSON object")]
    return _parse_record(number, cast("dict[str, Any]", record))


def _parse_record(number: int, record: Mapping[str, Any]) -> ImportedLine | list[FieldError]:
    type_, content, module, session = (record.get(name) for name in ("type", "content", "module", "session"))
    new_discovery = validated(_text(type_), _text(content), _text_or_none(module), _text_or_none(session))
    shape = list(_shape_faults(record))
    wrong = {fault.field for fault in shape}
    if not isinstance(new_discovery, NewDiscovery):
        return [*shape, *(fault for fault in new_discovery.errors if fault.field not in wrong)]
    if shape:
        return shape
    date = None if record.get("date") is None else instant(record["date"])
    id_ = record.get("id")
    return ImportedLine(
        number, derived_id(new_discovery, date) if id_ is None else id_.lower(), id_ is not None, new_discovery, date
    )


def _text(value: object) -> str:
    """Anything else is a fault already."""
    return value if isinstance(value, str) else ""


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _shape_faults(record: Mapping[str, Any]) -> Iterator[FieldError]:
    """What can be told without knowing what the fields mean."""
    for name in record:
        if name not in FIELDS:
            yield FieldError(f"{name!r}", f"is unknown; known are {', '.join(FIELDS)}")
    for name in FIELDS:
        value = record.get(name)
        if value is None:
            if name in REQUIRED:
                yield FieldError(name, "is missing")
        elif not isinstance(value, str):
            yield FieldError(name, "must be a string")
        elif name == "id" and not is_uuid(value):
            yield FieldError(name, "must be a UUID")
        elif name == "date" and instant(value) is None:
            yield FieldError(name, f"must be {INSTANT_FORMATS}")


def derived_id(new_discovery: NewDiscovery, date: int | None) -> str:
    digest = blake2b(json.dumps([*new_discovery, date]).encode(), digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


async def import_discoveries(
    discoveries: DiscoveryRepository, incoming: Iterable[ImportedLine], progress: Progress
) -> ImportReport:
    """Within a transaction of the caller's. A line with the id of a discovery that is there changes it."""
    report, moment = ImportReport(), now()
    for each in incoming:
        wanted = Discovery(each.id, *each.new_discovery, moment if each.date is None else each.date)
        if await discoveries.insert(wanted):
            report.added += 1
        elif each.has_id and await _update(discoveries, wanted, has_date=each.date is not None):
            report.updated += 1
        else:
            report.unchanged += 1
        progress(1)
    return report


async def _update(discoveries: DiscoveryRepository, wanted: Discovery, *, has_date: bool) -> bool:
    there = await discoveries.get(wanted.id)
    if there is None:
        return await discoveries.insert(wanted)
    wanted = wanted if has_date else wanted._replace(date=there.date)
    return there != wanted and await discoveries.change(wanted)


async def export_lines(discoveries: DiscoveryRepository) -> AsyncIterator[str]:
    """A line for each discovery, in the order of ids; `read_lines` takes it back as it is."""
    after = ""
    while found := await discoveries.all_after(after, PAGE_SIZE):
        for each in found:
            yield json.dumps(each.as_json(), ensure_ascii=False)
        after = found[-1].id
