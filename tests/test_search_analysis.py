"""Text as terms and as passages."""

import pytest

from carrel.search.analysis import MAX_TERM_CHARACTERS, normalized_title, query_terms, terms
from carrel.search.documents import MAX_PASSAGE_CHARACTERS, TARGET_PASSAGE_CHARACTERS, split


@pytest.mark.rule("search.words.stemming", "search.words.identifiers", "search.words.accents", "search.words.cjk")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("connections", "each connection is closed"),
        ("opening files", "It opens the file."),
        ("getUserName", "def get_user_name(self):"),
        ("get_user_name", "the getUserName method"),
        ("user name", "getUserName"),
        ("HTTP server", "class HTTPServer2:"),
        ("naive cafe", "naïve café"),
        ("Überraschung", "uberraschung"),
        ("\uff26\uff35\uff2c\uff2c width", "full width"),
        ("東京都", "私は東京都に住んでいます"),
        ("猫", "黒猫が好き"),
        ("서울", "대한민국 서울"),
        ("ภาษา", "เรียนภาษาไทย"),
        ("sha256", "the SHA256 digest"),
    ],
)
def test_a_query_finds_the_text(query: str, text: str) -> None:
    assert set(query_terms(query)) <= set(terms(text))


def test_words_of_every_text_are_left_out_of_a_query_unless_it_has_no_others() -> None:
    assert query_terms("how do I open the file") == ["open", "file"]
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert query_terms("?! ...") == []


def test_two_characters_of_a_script_without_spaces_are_looked_for_together() -> None:
    assert query_terms("東京都") == ["東京", "京都"]
    assert query_terms("猫") == ["猫"]


def test_what_is_too_long_for_a_word_is_none() -> None:
    assert terms(f"key {'a' * MAX_TERM_CHARACTERS} {'b' * (MAX_TERM_CHARACTERS + 1)}") == [
        "key",
        "a" * MAX_TERM_CHARACTERS,
    ]


def test_titles_are_compared_without_case_accents_and_extra_blanks() -> None:
    assert normalized_title("  The   CAFÉ\n") == normalized_title("the café") == "the cafe"


def test_a_short_text_is_one_passage() -> None:
    assert split("  One paragraph.\n\nAnother.  ") == ["One paragraph.\n\nAnother."]
    assert split("") == split(" \n ") == [""]


@pytest.mark.rule("search.passages.split")
@pytest.mark.parametrize("separator", ["\n\n", "\n", ". ", " ", ""])
def test_a_long_text_is_parted_at_the_best_place_there_is(separator: str) -> None:
    pieces = [f"piece{number:04}" + "x" * 40 for number in range(100)]
    passages = split(separator.join(pieces))
    assert all(len(passage) <= MAX_PASSAGE_CHARACTERS for passage in passages)
    assert len(passages) <= 2 * len(separator.join(pieces)) / TARGET_PASSAGE_CHARACTERS + 1
    assert "".join("".join(passages).split()) == "".join(separator.join(pieces).split())
    if separator:
        assert all(passage.startswith("piece") for passage in passages)
