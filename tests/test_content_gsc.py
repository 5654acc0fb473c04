"""Google Search Console's own tables as search performance."""

import json
from pathlib import Path

import pytest

from carrel.content.bundle.faults import ContentRefused
from carrel.content.bundle.search_console import (
    NumberError,
    SearchConsoleReport,
    import_table,
    page_key,
    parse_decimal,
    parse_share,
    parse_whole,
)
from carrel.errors import UsageError
from tests.bundles import Store, entity, project, uid
from tests.databases import prepare_sqlite
from tests.program import misused, run_carrel_here

ENGLISH = "Top queries,Clicks,Impressions,CTR,Position\n"
PAGES = "Top pages,Clicks,Impressions,CTR,Position\n"
ALL = """
    SELECT query, page_url, clicks, impressions, ctr, avg_position, date_start, date_end FROM search_performance
    ORDER BY query, page_url
"""
JANUARY = (1767225600000, 1769817600000)


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    store = Store(ready_url, tmp_path)
    store.load(
        {
            "projects": [project(), project("other")],
            "entities": [
                entity("guide:tide", id=uid(1), canonicalUrl="https://reef.example/tide/"),
                entity("guide:search", id=uid(2), canonicalUrl="http://REEF.example:80/find?q=tide#top"),
                entity("guide:none", id=uid(3)),
                {**entity("guide:far", id=uid(4), canonicalUrl="https://reef.example/far"), "project": "other"},
            ],
        }
    )
    return store


@pytest.fixture
def sqlite(tmp_path: Path) -> Store:
    prepare_sqlite(tmp_path / "carrel.db")
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load({"projects": [project()]})
    return store


def load(store: Store, text: str | bytes, *, dry_run: bool = False) -> SearchConsoleReport:
    path = store.folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_table(store.location, path, project="reef", start="2026-01-01", end="2026-01-31", dry_run=dry_run)


def faults(store: Store, text: str | bytes) -> list[str]:
    before = store.state()
    with pytest.raises(ContentRefused) as refused:
        load(store, text)
    assert store.state() == before
    return [str(fault).removeprefix(f"{store.folder}/") for fault in refused.value.faults]


@pytest.mark.rule("content.gsc.queries", "content.gsc.numbers", "content.gsc.days")
def test_a_table_of_queries_as_google_writes_it(store: Store) -> None:
    rows = ['"tide, ebb","1,234","12,345",9.99%,3.4', "Ébbe,0,7,0%,88", ""]
    found = load(store, "\r\n".join(["\ufeffTop queries,Clicks,Impressions,CTR,Position", *rows]))
    assert found.report.counts["searchPerformance"].added == 2
    assert (found.pages, found.matched) == (0, 0)
    assert store.query(ALL) == [
        ("tide, ebb", "", 1234, 12345, 0.0999, 3.4, *JANUARY),
        ("Ébbe", "", 0, 7, 0.0, 88.0, *JANUARY),
    ]


@pytest.mark.rule("content.gsc.pages", "content.gsc.match")
def test_pages_are_matched_with_the_entities_of_the_project(store: Store) -> None:
    pages = [
        "https://reef.example/tide",
        "http://Reef.Example:80/tide/#:~:text=x",
        "https://reef.example/find/?q=tide",
        "https://reef.example/find?q=tide",
        "https://reef.example/find",
        "https://reef.example/tide/ebb",
        "https://www.reef.example/tide",
        "https://reef.example:8443/tide",
        "https://reef.example/far",
    ]
    found = load(store, PAGES + "".join(f"{page},1,10,10%,2\n" for page in pages))
    assert (found.pages, found.matched) == (9, 4)
    sql = "SELECT s.page_url, e.id FROM search_performance s LEFT JOIN entity e ON e.pk = s.entity_pk"
    matched = dict(store.query(sql))
    assert matched == {
        **dict.fromkeys(pages),
        pages[0]: uid(1),
        pages[1]: uid(1),
        pages[2]: uid(2),
        pages[3]: uid(2),
    }


@pytest.mark.rule("content.gsc.match")
def test_a_page_of_two_entities_is_the_one_with_the_very_address_or_neither(store: Store) -> None:
    store.load({"entities": [entity("guide:twin", id=uid(9), canonicalUrl="http://reef.example/tide")]})
    found = load(store, PAGES + "http://reef.example/tide,1,10,10%,2\nhttps://REEF.example/tide,1,10,10%,2\n")
    sql = "SELECT s.page_url, e.id FROM search_performance s LEFT JOIN entity e ON e.pk = s.entity_pk ORDER BY 1"
    assert sorted(store.query(sql)) == [("http://reef.example/tide", uid(9)), ("https://REEF.example/tide", None)]
    (warning,) = found.report.warnings
    assert warning.message == "https://REEF.example/tide is the canonicalUrl of 2 entities: matched with none"


@pytest.mark.rule("content.gsc.both")
@pytest.mark.parametrize(
    "text",
    [
        "page,query,clicks,impressions,ctr,position\nhttps://r.example/a,tide,1,3,0.3333,2.5\n",
        "Position;CTR;Impressions;Clicks;Query;Page\n2.5;33.33%;3;1;tide;https://r.example/a\n",
        "Top pages\tTop queries\tClicks\tImpressions\tCTR\tPosition\nhttps://r.example/a\ttide\t1.0\t3\t33.33 %\t2.5\n",
        "Suchanfrage;Seite;Klicks;Impressionen;CTR;Position\ntide;https://r.example/a;1;3;33,33 %;2,5\n",
    ],
    ids=["api", "any order", "tabs", "german"],
)
def test_a_table_of_both_has_its_columns_in_any_order(sqlite: Store, text: str) -> None:
    load(sqlite, text)
    assert sqlite.query(ALL) == [("tide", "https://r.example/a", 1, 3, 0.3333, 2.5, *JANUARY)]


@pytest.mark.rule("content.gsc.ctr")
def test_the_click_through_rate_is_computed_only_where_it_is_absent(sqlite: Store) -> None:
    load(sqlite, "query,clicks,impressions,position\na,1,3,2\nb,0,0,1\n")
    load(sqlite, "query,clicks,impressions,ctr,position\nc,1,3,,2\nd,1,3,0.33,2\n")
    assert sqlite.query("SELECT query, ctr FROM search_performance ORDER BY query") == [
        ("a", 1 / 3),
        ("b", 0.0),
        ("c", 1 / 3),
        ("d", 0.33),
    ]


@pytest.mark.rule("content.gsc.twice", "content.gsc.side")
def test_the_same_tables_again_change_nothing_and_queries_and_pages_stand_side_by_side(store: Store) -> None:
    queries, pages = f"{ENGLISH}tide,1,10,10%,2\n", f"{PAGES}https://reef.example/tide,1,10,10%,2\n"
    load(store, queries)
    load(store, pages)
    before = store.state()
    assert len(before["search_performance"]) == 2
    assert [load(store, text).report.counts["searchPerformance"].unchanged for text in (queries, pages)] == [1, 1]
    assert store.state() == before
    assert load(store, queries.replace("1,10", "2,10")).report.counts["searchPerformance"].updated == 1
    assert store.query("SELECT total FROM search_performance_tally") == [(2,)]


@pytest.mark.rule("content.gsc.dry_run")
def test_a_dry_run_writes_nothing(store: Store) -> None:
    before = store.state()
    assert load(store, f"{ENGLISH}tide,1,10,10%,2\n", dry_run=True).report.counts["searchPerformance"].added == 1
    assert store.state() == before


@pytest.mark.rule("content.gsc.faults")
def test_every_line_that_is_wrong_is_told_and_nothing_is_written(store: Store) -> None:
    text = (
        f"{ENGLISH}ok,1,10,10%,2\n\nmany,11,10,110%,2\nwords,x,10,-1%,\nok,1,10,10%,2\n{'é' * 1001},1,1,1%,1\n"
        "zero,0,1,0%,0\nshort,1\n"
    )
    assert [fault.replace(f"{store.folder}/", "") for fault in faults(store, text)] == [
        "table.csv:4: ctr must be a percentage up to 100% or a number up to 1, not '110%'",
        "table.csv:4: clicks must not be more than impressions: 11 of 10",
        "table.csv:5: clicks must be a number, not 'x'",
        "table.csv:5: ctr must be a number, not '-1%'",
        "table.csv:5: position must be a number, not ''",
        "table.csv:6: ok is there already, at table.csv:2: leave one of them out",
        "table.csv:7: query must have 2000 bytes or less in UTF-8",
        "table.csv:8: avgPosition must be greater than 0, not 0.0",
        "table.csv:9: impressions must be a number, not ''",
        "table.csv:9: position must be a number, not ''",
    ]


@pytest.mark.rule("content.gsc.faults")
def test_what_is_not_csv_from_some_line_on_is_a_fault(sqlite: Store) -> None:
    (fault,) = faults(sqlite, f"{ENGLISH}tide,1,10,10%,2\n".encode() + b"\xff\xfe,1,1,1%,1\n" * 5000)
    assert fault == "table.csv:3: is not UTF-8"


@pytest.mark.rule("content.gsc.header")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"PK\x03\x04....", "is a zip archive: unzip it, and import its Queries.csv or Pages.csv"),
        (b"\xff\xfeT\x00", "is not UTF-8: save it as CSV in UTF-8"),
        (b"", "its first line has no column for query or page, clicks, impressions, position"),
        (b"Country,Clicks,Impressions,CTR,Position\n", "column 'Country' is not known"),
        (b"Top queries,Clicks,Impressions,CTR\n", "its first line has no column for position"),
        (b"CTR,Clicks,Impressions,Position\n", "its first line has no column for query or page"),
        (b"Top queries,Last 3 months Clicks,Previous 3 months Clicks\n", "is there twice: export without a comparison"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_with_what_to_do(sqlite: Store, text: bytes, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(sqlite, text)
    assert message in str(refused.value)


@pytest.mark.rule("content.gsc.days")
def test_days_and_project_must_be_there(sqlite: Store, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(ENGLISH, encoding="utf-8")

    def run(project: str = "reef", start: str = "2026-01-01", end: str = "2026-01-31") -> None:
        import_table(sqlite.location, tmp_path / "q.csv", project=project, start=start, end=end)

    run()
    with pytest.raises(UsageError, match=r"--from must be a day as YYYY-MM-DD, not 1\.1\.2026"):
        run(start="1.1.2026")
    with pytest.raises(UsageError, match="--to must be a day"):
        run(end="2026-01-31T00:00:00Z")
    with pytest.raises(UsageError, match="--from must not be after --to"):
        run(start="2026-02-01")
    with pytest.raises(UsageError, match="there is no project none: create it with carrel content add-project"):
        run(project="none")


@pytest.mark.rule("content.gsc.numbers")
@pytest.mark.parametrize(
    ("text", "english", "elsewhere"),
    [
        ("1234", 1234, 1234),
        ("1,234", 1234, 1234),
        ("1,234,567", 1234567, 1234567),
        ("1.234", None, 1234),
        ("1.234.567", None, 1234567),
        ("1\u202f234", 1234, 1234),
        ("12\u00a0345", 12345, 12345),
        ("1 234 567", 1234567, 1234567),
        ("12.0", 12, 12),
        ("1,23", None, None),
        ("1 23", None, None),
        ("12,34,567", None, None),
        ("-5", None, None),
        ("", None, None),
        ("١٢", None, None),
    ],
)
def test_whole_numbers_with_separators(text: str, english: int | None, elsewhere: int | None) -> None:
    for is_english, expected in (True, english), (False, elsewhere):
        if expected is None:
            with pytest.raises(NumberError):
                parse_whole(text, is_english=is_english)
        else:
            assert parse_whole(text, is_english=is_english) == expected


@pytest.mark.rule("content.gsc.numbers")
def test_decimal_numbers_are_taken_only_where_they_are_clear() -> None:
    assert parse_decimal("3.45", is_english=True) == parse_decimal("3,45", is_english=False) == 3.45
    assert parse_decimal("3.45", is_english=False) == 3.45
    assert parse_decimal("1,234.5", is_english=True) == parse_decimal("1.234,5", is_english=False) == 1234.5
    assert parse_decimal("1.234", is_english=True) == 1.234
    with pytest.raises(NumberError, match="could be two numbers"):
        parse_decimal("1.234", is_english=False)
    for text in ("3,45", "1.234,5", "1e5", "NaN"):
        with pytest.raises(NumberError):
            parse_decimal(text, is_english=True)
    assert parse_share("12.34%", is_english=True) == parse_share("12,34\u00a0%", is_english=False) == 0.1234
    assert parse_share("0.1234", is_english=True) == parse_share("0,12", is_english=False) + 0.0034
    assert parse_share("100%", is_english=True) == 1.0
    with pytest.raises(NumberError, match="up to 100%"):
        parse_share("12.34", is_english=True)


@pytest.mark.rule("content.gsc.match")
def test_addresses_of_one_page() -> None:
    same = ["https://a.example/x/", "HTTP://A.Example:80/x#y", "https://u@a.example:443/x", " https://a.example/x "]
    assert {page_key(each) for each in same} == {"a.example/x"}
    different = [
        "https://a.example/X",
        "https://a.example/x?",
        "https://a.example/x?a",
        "https://a.example:80/x",
        "/x",
        "http://[x",
    ]
    assert len({page_key(each) for each in different}) == 6


@pytest.mark.rule("content.gsc.command")
def test_the_command_tells_what_it_did(tmp_path: Path) -> None:
    store = Store("sqlite:///.carrel/carrel.db", tmp_path)
    store.load({"projects": [project()], "entities": [entity("guide:a", canonicalUrl="https://r.example/a")]})
    path = tmp_path / "Pages.csv"
    path.write_text(f"{PAGES}https://r.example/a,1,10,10%,2\nhttps://r.example/b,1,10,10%,2\n", encoding="utf-8")
    words = ["import", "gsc", path, "--project", "reef", "--from", "2026-01-01", "--to", "2026-01-31"]
    done = run_carrel_here(*words, "--json", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["counts"]["searchPerformance"] == {"added": 2, "updated": 0, "unchanged": 0}
    assert (answer["pages"], answer["matchedPages"], answer["dryRun"]) == (2, 1, True)
    done = run_carrel_here(*words, cwd=tmp_path)
    assert done.returncode == 0
    assert "1 of 2 pages are entities of reef" in done.stdout
    assert store.query("SELECT count(*) FROM search_performance") == [(2,)]
    path.write_text(f"{PAGES}https://r.example/a,x,10,10%,2\n", encoding="utf-8")
    misused(run_carrel_here(*words, cwd=tmp_path), "nothing was written: 1 fault", "Pages.csv:2: clicks", status=1)
    done = run_carrel_here(*words, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["faultsInAll"] == 1
