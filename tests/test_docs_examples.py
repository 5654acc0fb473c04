"""Calls and commands in the documentation get the answers that are shown there."""

import difflib

import pytest

from tests.docs_examples import CALL, DOCS, TOOLSETS, fresh_pages, matches, parsed, rendered, trimmed
from tests.generated import ROOT


def test_every_example_gets_the_answer_that_is_shown() -> None:
    changes = [
        line
        for page, text in fresh_pages().items()
        for line in difflib.unified_diff(page.read_text(encoding="utf-8").splitlines(), text.splitlines(), page.name)
    ]
    assert changes == [], "look at what has changed; python3 dev.py docs writes it into the pages"


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_every_tool_has_an_example(toolset: str) -> None:
    page = (DOCS / "toolsets" / f"{toolset}.md").read_text(encoding="utf-8")
    tools = {path.stem for path in (ROOT / "tests" / "snapshots" / toolset).glob("*.json")}
    assert tools - {call[2] for call in CALL.finditer(page)} == set()


ANSWER = {
    "id": "c6146b54-d354-5a18-9515-850d549b3085",
    "at": "2026-11-16T00:00:00.000Z",
    "text": 'a "b" c',
    "score": 0.5,
    "rows": [1, 2, 3],
}


@pytest.mark.parametrize(
    ("shown", "holds"),
    [
        ('{"id": "c6146b54-d354-5a18-9515-850d549b3085", ...}', True),
        ('{"text": "a ... c", "rows": [1, ...], ...}', True),
        ('{"rows": ..., ...}', True),
        ('{"at": "2025-01-01T09:09:09.000Z", "score": 0.52, ...}', True),
        ('{"at": "2025-01-01", ...}', False),
        ('{"score": 0.6, ...}', False),
        ('{"rows": [1, 2], ...}', False),
        ('{"rows": [1, 2, 3, ...], ...}', False),
        ('{"rows": [2, ...], ...}', False),
        ('{"text": "a ... d", ...}', False),
        ('{"rows": [1, 2, 3], "text": ..., ...}', False),
        ('{"id": ..., "at": ..., "text": ...}', False),
        ('{"missing": ..., ...}', False),
    ],
)
def test_an_answer_that_differs_where_something_is_shown_does_not_hold(shown: str, holds: bool) -> None:
    assert matches(parsed(shown), ANSWER, {}) is holds


def test_an_id_stands_for_one_id_only() -> None:
    one, other = ("00000000-0000-4000-8000-00000000000" + digit for digit in "12")
    assert matches([one, other, one], [other, one, other], {})
    assert not matches([one, one], [one, other], {})


def test_what_is_written_anew_holds() -> None:
    value = {"rows": [ANSWER] * 5, "text": "word " * 100, "empty": [], "none": None}
    shown = rendered(trimmed(value))
    assert shown.count("...") == 2
    assert max(map(len, shown.splitlines())) < 130
    assert matches(parsed(shown), value, {})
