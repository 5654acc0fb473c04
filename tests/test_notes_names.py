"""What notes are called: the file name of a title, and what names are compared by."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.notes.note_names import folder_of, is_note, key, name_from, name_of, stem

TITLES = [
    ("Meeting Notes 2024-01-15", "meeting-notes-2024-01-15"),
    ("GraphCore", "graphcore"),
    ("a  b \t c", "a-b-c"),
    ("line\nbreak", "line-break"),
    ("no\u00a0break", "no-break"),
    ("wide\u3000blank", "wide-blank"),
    ("  around  ", "around"),
    ("C# and F#", "c-and-f"),
    ("What? Why!", "what-why!"),
    ("a/b\\c:d*e?f", "abcdef"),
    ('"quoted" <tag> |pipe|', "quoted-tag-pipe"),
    ("caret^ and [brackets]", "caret-and-brackets"),
    ("[[link]]", "link"),
    ("...dots...", "dots"),
    ("--hyphens--", "hyphens"),
    (".-.mixed.-.", "mixed"),
    (".hidden", "hidden"),
    ("v1.2.3", "v1.2.3"),
    ("file.md", "file.md"),
    ("../../etc/passwd", "etcpasswd"),
    ("C:\\Windows", "cwindows"),
    ("under_score", "under_score"),
    ("it's", "it's"),
    ("100% (sure) & more; $5 = 5+0 @home", "100%-(sure)-&-more;-$5-=-5+0-@home"),
    ("~tilde `tick` {brace}, comma", "~tilde-`tick`-{brace},-comma"),
    ("naïve CAFÉ", "naïve-café"),
    ("cafe\u0301", "café"),
    ("ÄÖÜ ẞ ß", "äöü-ß-ß"),
    ("ΑΣ ΟΔΟΣ", "ας-οδος"),
    ("İstanbul", "i̇stanbul"),
    ("日本語 の ノート", "日本語-の-ノート"),
    ("Заметка Встречи", "заметка-встречи"),
    ("ملاحظات", "ملاحظات"),
    ("हिन्दी नोट", "हिन्दी-नोट"),
    ("한국어", "한국어"),
    ("🎉 Party", "🎉-party"),
    ("Å \u212b", "å-å"),
    ("ﬁne", "ﬁne"),
    ("a\x00b\x07c\x7fd\x9fe", "abcde"),
    ("a\x1fb", "a-b"),
    ("con", "con"),
    ("TRUE", "true"),
    ("007", "007"),
    ("x" * 120, "x" * 120),
    ("x" * 121, "x" * 120),
    ("..-" + "x" * 121, "x" * 120),
    ("é" * 61, "é" * 60),
    ("日" * 41, "日" * 40),
    ("🎉" * 31, "🎉" * 30),
    ("a" * 119 + "é", "a" * 119),
    ("a" * 119 + " tail", "a" * 119),
    ("a" * 118 + ".. tail", "a" * 118),
    ("", ""),
    ("   ", ""),
    ("...", ""),
    ("-", ""),
    ('/\\:*?"<>|#^[]', ""),
    ("\x00", ""),
]


@pytest.mark.rule("notes.create.file_name")
@pytest.mark.parametrize(("title", "name"), TITLES)
def test_the_file_name_of_a_title(title: str, name: str) -> None:
    assert name_from(title) == name


@pytest.mark.no_cover  # coverage makes it several times slower, and it adds none
@pytest.mark.rule("notes.create.file_name")
@given(st.text(max_size=200))
def test_a_file_name_is_one_that_any_file_system_takes(title: str) -> None:
    if any("\ud800" <= each <= "\udfff" for each in title):
        return
    name = name_from(title)
    assert len(name.encode()) <= 120
    assert name == unicodedata.normalize("NFC", name) == name.strip(".-")
    assert not set(name) & set('/\\:*?"<>|#^[] \t\n')
    assert not any(unicodedata.category(each) == "Cc" for each in name)


@given(st.text(max_size=60).filter(lambda text: text.isprintable()))
def test_a_file_name_gives_itself(title: str) -> None:
    assert name_from(name_from(title)) == name_from(title)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Ärger", "a\u0308rger"), ("STRASSE", "straße"), ("Σίσυφος", "ΣΊΣΥΦΟΣ"), ("K", "\u212a"), ("a/B.md", "A/b.MD")],
)
def test_names_are_the_same_whatever_their_case_and_form(one: str, other: str) -> None:
    assert key(one) == key(other)
    assert key(key(one)) == key(one)


def test_the_parts_of_an_id() -> None:
    assert (stem("a/b/c.md"), name_of("a/b/c.md"), folder_of("a/b/c.md")) == ("a/b/c", "c", "a/b/")
    assert (stem("c.MD"), name_of("c.MD"), folder_of("c.MD")) == ("c", "c", "")
    assert [is_note(name) for name in ("a.md", "a.MD", "a.Md", "a.markdown", "a.md.txt", "md")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
