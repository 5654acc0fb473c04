"""Import of CSV tables that Google Search Console exports, as rows of search performance."""

import csv
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from carrel.common import StepProgress
from carrel.content.bundle.faults import SourceLocation
from carrel.content.bundle.fields import PERFORMANCE
from carrel.content.bundle.importer import READING, Report, ignore_progress, import_records
from carrel.content.bundle.staging_tables import Stage
from carrel.content.field_types import first_instant, fold
from carrel.errors import UsageError
from carrel.storage.bulk import open_bulk
from carrel.storage.database import Location

_BLANKS = re.compile("[\u00a0\u2009\u202f ](?=[0-9]{3})")
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*", re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


class NumberError(Exception):
    """A text is not an unambiguous number; the message follows the column's name."""


def parse_whole(text: str, *, is_english: bool) -> int:
    found = _number(text, text, is_english=is_english, is_whole=True)
    if found != found.to_integral_value():
        raise NumberError(f"must be a whole number, not {text!r}")
    return int(found)


def parse_decimal(text: str, *, is_english: bool) -> float:
    return float(_number(text, text, is_english=is_english, is_whole=False))


def parse_share(text: str, *, is_english: bool) -> float:
    """Parse a share of one, written as a percentage or as a number."""
    digits = text.removesuffix("%")
    found = _number(digits, text, is_english=is_english, is_whole=False)
    if digits != text:
        found /= 100
    if found > 1:
        raise NumberError(f"must be a percentage up to 100% or a number up to 1, not {text!r}")
    return float(found)


def _number(digits: str, text: str, *, is_english: bool, is_whole: bool) -> Decimal:
    """Parse a number: in English, commas group thousands; in other languages, a separator that could be both is
    refused."""
    digits = _BLANKS.sub("", digits).strip()
    if "," in digits and "." in digits:
        digits = _two_separators(digits, is_english=is_english)
    elif "," in digits or "." in digits:
        digits = _one_separator(digits, text, is_english=is_english, is_whole=is_whole)
    if not _PLAIN.fullmatch(digits):
        raise NumberError(f"must be a number, not {text!r}")
    return Decimal(digits)


def _two_separators(digits: str, *, is_english: bool) -> str:
    """Normalize a number with both separators, of which the last is the decimal point."""
    mark = "," if digits.rindex(",") > digits.rindex(".") else "."
    groups, _, rest = digits.rpartition(mark)
    if (is_english and mark == ",") or not _GROUPED.fullmatch(groups):
        return digits
    return f"{re.sub('[.,]', '', groups)}.{rest}"


def _one_separator(digits: str, text: str, *, is_english: bool, is_whole: bool) -> str:
    mark = "," if "," in digits else "."
    grouped = _GROUPED.fullmatch(digits) is not None
    if is_english and mark == ".":
        return digits
    if is_english or digits.count(mark) > 1:
        return digits.replace(mark, "") if grouped else digits
    if grouped and not is_whole:
        raise NumberError(
            f"could be two numbers, with thousands or with decimals: {text!r}; write it without a separator"
        )
    return digits.replace(mark, "") if grouped else digits.replace(mark, ".")


_DEFAULT_PORTS = {"http": 80, "https": 443}


def page_key(url: str) -> str:
    """Return a URL without what does not distinguish pages: scheme, host case, default port, fragment, final slash."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if not host:
        return url
    if port == _DEFAULT_PORTS.get(parts.scheme):
        port = None
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{f':{port}' if port else ''}{parts.path.removesuffix('/')}{query}"


class PageMatcher:
    """Matches the pages of a table with the entities that have their URL."""

    def __init__(self) -> None:
        self._entities: dict[str, list[tuple[str, str]]] = {}
        self._addresses = dict[str, None]()

    def add(self, page: str) -> None:
        self._addresses[page] = None
        self._entities.setdefault(page_key(page), [])

    def match(self, entities: Iterable[tuple[str, ...]]) -> None:
        """Remember the entities, given as (id, URL), that are pages of the table."""
        for identifier, address in entities:
            found = self._entities.get(page_key(address))
            if found is not None:
                found.append((identifier, address))

    @property
    def total(self) -> int:
        return len(self._addresses)

    @property
    def matched(self) -> int:
        return sum(self.entity(page) is not None for page in self._addresses)

    def entity(self, page: str) -> str | None:
        """Return the id of the page's entity: the one with exactly this URL, else the only candidate."""
        found = self._entities.get(page_key(page), [])
        same = [identifier for identifier, address in found if address == page] or [each[0] for each in found]
        return same[0] if len(same) == 1 else None

    def ambiguous(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the pages that match several entities."""
        for page in self._addresses:
            found = self._entities[page_key(page)]
            if len(found) > 1 and self.entity(page) is None:
                yield page, [identifier for identifier, _ in found]


# What Google calls its columns: parts of the words in the languages that share them.
_TITLE_PARTS: Mapping[str, Sequence[str]] = {
    "clicks": ("clic", "klick", "klik", "cliqu"),
    "impressions": ("impres", "vertoning"),
    "ctr": ("ctr",),
    "position": ("posi",),
    "query": ("quer", "suchanfrage", "requête", "consulta", "zoek"),
    "page": ("page", "seite", "págin", "pagin", "url"),
}
_REQUIRED_COLUMNS = ("clicks", "impressions", "position")
_PARSERS = {"clicks": parse_whole, "impressions": parse_whole, "ctr": parse_share, "position": parse_decimal}
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class SearchConsoleReport:
    report: Report
    pages: int
    """Distinct pages in the table."""
    matched: int
    """Pages that were matched with an entity of the project."""


class _Line(NamedTuple):
    number: int
    cells: Mapping[str, str]


class _Table:
    """A CSV file: its header decides what the columns are, and how numbers are written."""

    is_lines = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: dict[str, int] = {}
        self.is_english = True
        with self._opened() as file:
            header = _header(path, file.readline())
        self._delimiter = max(",;\t", key=header.count)
        self._read_titles(next(csv.reader([header], delimiter=self._delimiter)) if header else [])

    def place(self, key: str, number: int) -> str:
        return f"{self.path}:{number}"

    def lines(self) -> Iterator[_Line]:
        """Every row that is not empty. Raises `csv.Error` or `UnicodeError` where the file is no such table."""
        with self._opened() as file:
            reader = csv.reader((line.decode() for line in file), delimiter=self._delimiter)
            next(reader, None)
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    known = {name: cells[at].strip() if at < len(cells) else "" for name, at in self.columns.items()}
                    yield _Line(reader.line_num, known)

    @contextmanager
    def _opened(self) -> Generator[IO[bytes]]:
        try:
            with self.path.open("rb") as file:
                yield file
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from error

    def _read_titles(self, titles: Sequence[str]) -> None:
        for place, title in enumerate(titles):
            column = _column(title)
            if column is None:
                raise UsageError(
                    f"{self.path}: column {title.strip()!r} is not known; a table of queries, of pages, or of both "
                    "is needed, with clicks, impressions, CTR and position"
                )
            if column in self.columns:
                raise UsageError(f"{self.path}: column {title.strip()!r} is there twice: export without a comparison")
            self.columns[column] = place
            if column == "clicks":
                self.is_english = fold(title.strip()) == "clicks"
        missing = [name for name in _REQUIRED_COLUMNS if name not in self.columns]
        if self.columns.keys().isdisjoint(("query", "page")):
            missing.insert(0, "query or page")
        if missing:
            raise UsageError(f"{self.path}: its first line has no column for {', '.join(missing)}")


def _header(path: Path, line: bytes) -> str:
    if line.startswith(_ZIP):
        raise UsageError(f"{path} is a zip archive: unzip it, and import its Queries.csv or Pages.csv")
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: save it as CSV in UTF-8") from error


def _column(title: str) -> str | None:
    name = fold(title.strip())
    return next((column for column, words in _TITLE_PARTS.items() if any(word in name for word in words)), None)


def import_table(
    location: Location,
    path: Path,
    *,
    project: str,
    start: str,
    end: str,
    dry_run: bool = False,
    progress: StepProgress = ignore_progress,
) -> SearchConsoleReport:
    """Write the table's rows for the days from `start` to `end`; all of them or, where anything is wrong, nothing."""
    _check_days(start, end)
    table = _Table(path)
    with open_bulk(location, create=False) as bulk:
        found = bulk.first("SELECT pk FROM project WHERE slug = :slug", {"slug": project})
        bulk.roll_back()
        if found is None:
            raise UsageError(f"there is no project {project}: create it with carrel content add-project")
        pages = PageMatcher()
        for line in _readable(table):
            if line.cells.get("page"):
                pages.add(line.cells["page"])
        pages.match(bulk.rows(_ADDRESSES, {"project": found[0]}))
        bulk.roll_back()
        fixed: dict[str, object] = {"project": project, "dateStart": start, "dateEnd": end}
        report = import_records(
            bulk, lambda stage: _fill(stage, table, pages, fixed, progress), dry_run=dry_run, progress=progress
        )
    return SearchConsoleReport(report, pages.total, pages.matched)


_ADDRESSES = (
    "SELECT id, canonical_url FROM entity WHERE project_pk = :project AND canonical_url IS NOT NULL ORDER BY id"
)


def _check_days(start: str, end: str) -> None:
    for option, day in ("--from", start), ("--to", end):
        if "T" in day or first_instant(day) is None:
            raise UsageError(f"{option} must be a day as YYYY-MM-DD, not {day}")
    if start > end:
        raise UsageError(f"--from must not be after --to: {start} is after {end}")


def _readable(table: _Table) -> Iterator[_Line]:
    """Yield the lines up to the first that cannot be read; `_fill` reports that one."""
    try:
        yield from table.lines()
    except (csv.Error, UnicodeError):
        return


def _fill(stage: Stage, table: _Table, pages: PageMatcher, fixed: Mapping[str, object], progress: StepProgress) -> None:
    stage.begin(table)
    number = 1
    size = table.path.stat().st_size
    try:
        for number, cells in table.lines():
            record = _record(stage, number, cells, is_english=table.is_english)
            if record is not None:
                entity = pages.entity(cells.get("page", ""))
                stage.add(PERFORMANCE, number, {**fixed, **record, **({"entityId": entity} if entity else {})})
    except (csv.Error, UnicodeError) as error:
        problem = "is not UTF-8" if isinstance(error, UnicodeError) else f"is not CSV: {error}"
        stage.faults.add(SourceLocation((0, 0, number + 1), table.place("", number + 1)), problem)
    progress(READING, size, size)
    for page, ids in pages.ambiguous():
        stage.warnings.add(
            SourceLocation((0, 0, 0), str(table.path)),
            f"{page} is the canonicalUrl of {len(ids)} entities: matched with none",
        )


def _record(stage: Stage, number: int, cells: Mapping[str, str], *, is_english: bool) -> dict[str, object] | None:
    """Return a record of search performance; None after reporting faults."""
    numbers: dict[str, float] = {}
    for column, parse in _PARSERS.items():
        if column == "ctr" and not cells.get("ctr"):
            continue
        try:
            numbers[column] = parse(cells[column], is_english=is_english)
        except NumberError as unclear:
            stage.faults.add(stage.place(PERFORMANCE, number), f"{column} {unclear}")
    if not numbers.keys() >= set(_REQUIRED_COLUMNS):
        return None
    clicks, impressions = numbers["clicks"], numbers["impressions"]
    return {
        "query": cells.get("query", ""),
        "pageUrl": cells.get("page", ""),
        "clicks": clicks,
        "impressions": impressions,
        "ctr": numbers.get("ctr", min(clicks / impressions, 1.0) if impressions else 0.0),
        "avgPosition": numbers["position"],
    }
