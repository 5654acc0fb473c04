"""Token ids against those of the reference: Hugging Face's `tokenizers` 0.23.3 with the model's own tokenizer.json."""

import time
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.search.providers.bundled import MAX_TEXT_CHARACTERS, WordPiece

UNKNOWN, FIRST, LAST = 100, 101, 102

# The marks of beginning and end left out. Special tokens in a text are read as text (encode_special_tokens = True).
AWKWARD: list[tuple[str, str]] = [
    ("", ""),
    (" ", ""),
    ("\t\n\r", ""),
    ("fish", "3869"),
    ("Fish FISH fIsH", "3869 3869 3869"),
    ("unbelievably", "4895 8671 2666 3567 6321"),
    ("embeddings tokenization", "7861 8270 4667 2015 19204 3989"),
    ("don't stop", "2123 1005 1056 2644"),
    ("can't won't it's", "2064 1005 1056 2180 1005 1056 2009 1005 1055"),
    ("U.S.A.", "1057 1012 1055 1012 1037 1012"),
    ("3.14159", "1017 1012 15471 28154"),
    ("1,000,000", "1015 1010 2199 1010 2199"),
    ("C++ and C#", "1039 1009 1009 1998 1039 1001"),
    ("user@example.com", "5310 1030 2742 1012 4012"),
    (
        "https://example.com/a?b=c&d=%20#x",
        "16770 1024 1013 1013 2742 1012 4012 1013 1037 1029 1038 1027 1039 1004 1040 1027 1003 2322 1001 1060",
    ),
    ("snake_case camelCase kebab-case", "7488 1035 2553 19130 18382 17710 3676 2497 1011 2553"),
    (
        'def f(x: int) -> str: return f"{x!r}"',
        "13366 1042 1006 1060 1024 20014 1007 1011 1028 2358 2099 1024 2709 1042 1000 1063 1060 999 1054 1065 1000",
    ),
    ("a\xa0b", "1037 1038"),
    ("a\u200bb", "11113"),
    ("a\u200db", "11113"),
    ("a\ufeffb", "11113"),
    ("a\x00b", "11113"),
    ("a\x0bb\x0cc", "5925"),
    ("a\x1fb\x7fc\x85d", "5925 2094"),
    ("a\ufffdb", "11113"),
    ("a\u2028b\u2029c", "1037 1038 1039"),
    ("a\u3000b", "1037 1038"),
    ("a\u1680b", "1037 1038"),
    ("\xad", ""),
    ("soft\xadhyphen", "3730 10536 8458 2368"),
    ("na\xefve caf\xe9 r\xe9sum\xe9", "15743 7668 13746"),
    ("nai\u0308ve", "15743"),
    ("\xc5ngstr\xf6m \xc5NGSTR\xd6M", "17076 15687 17076 15687"),
    ("stra\xdfe STRASSE \u1e9e", "2358 27807 2358 8180 3366 1096"),
    ("\u0130stanbul \u0131spanak", "9960 1104 13102 5162 2243"),
    (
        "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3 \u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
        "1173 18199 29733 29735 29736 29730 29733 1173 18199 29733 29735 29736 15297",
    ),
    ("\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac;", "1159 29727 29727 24824 16177 18199 29726 14608 1025"),
    ("\u037e\u1fef", "1025 1036"),
    (
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430",
        "1194 16856 10325 25529 15290 22919 1010 1191 10325 16856 999 1185 29436 28598",
    ),
    ("\u0110or\u0111e \u0141\xf3d\u017a \xd8re \xc6sir", "1102 2953 29671 2063 17814 1100 2890 1097 29481"),
    ("\ufb01 \ufb02 \ufb00", "1984 1985 100"),
    ("\xbd \xb2 \u2122 \u2103 \u2167", "1092 1082 1580 100 100"),
    ("\u4f60\u597d\u4e16\u754c", "100 100 1745 100"),
    ("\u6f22\u5b57\u3068\u304b\u306a\u30ab\u30ca", "1904 100 1666 30177 30193 30226 30241"),
    ("\u65e5\u672c\u8a9e text\u6df7\u5728abc", "1864 1876 1950 3793 100 100 5925"),
    (
        "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
        "1469 30006 30021 29991 30014 30020 29999 30008 1459 30014 30021 30000 30006 30025",
    ),
    ("\uac00\u1100\u1161", "1455 30006 29991 30006"),
    (
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
        "1327 29867 29874 29859 1325 29863 29877 29868 29876",
    ),
    (
        "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u064e\u0651\u0629",
        "1270 23673 29830 17149 29816 14498 19433",
    ),
    ("\u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea", "1259 29789 29811 29796 29813"),
    ("\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "100"),
    ("\U0001f600", "100"),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family", "100 2155"),
    ("\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea", "100 100"),
    ("a\U0001f600b", "100"),
    (
        "\u201cquoted\u201d \u2018single\u2019 \u2013 \u2014 \u2026 \xabx\xbb",
        "1523 9339 1524 1520 2309 1521 1516 1517 1529 1077 1060 1090",
    ),
    ("\xbfQu\xe9? \xa1S\xed!", "1094 10861 1029 1067 9033 999"),
    (
        "$5 \xa36 \u20ac7 \xa58 + < = > ^ ` | ~",
        "1002 1019 1069 2575 1574 2581 1071 2620 1009 1026 1027 1028 1034 1036 1064 1066",
    ),
    (
        "[CLS] [SEP] [MASK] [UNK] [PAD]",
        "1031 18856 2015 1033 1031 19802 1033 1031 7308 1033 1031 4895 2243 1033 1031 11687 1033",
    ),
    ("##ing ## #", "1001 1001 13749 1001 1001 1001"),
    ("\U00020000\U0002f800\U0002b820", "100 100 100"),
    ("\ue000 private", "2797"),
    ("zz\u0301\u0302\u0303zz", "1062 13213 2480"),
    ("don\u2019t", "2123 1521 1056"),
    ("e=mc\xb2", "1041 1027 11338 10701"),
    ("\\n \\t", "1032 1050 1032 1056"),
    ("._-!", "1012 1035 1011 999"),
    ("\u0e01\u0e33", "100"),
    ("\u1e9b\u0323", "100"),
    ("\U0001d518\U0001d52b\U0001d526\U0001d520\U0001d52c\U0001d521\U0001d522 \u2115", "100 100"),
    ("\uff21\uff22\uff23\u3000\uff11\uff12\uff13\uff01", "100 100 1986"),
    ("\u2160\u24b6", "100"),
    ("\u01c4 \u01c5 \u01c6", "100 100 100"),
    ("a\uf900b \ufa0ec", "1037 100 1038 100 1039"),
    ("a\u0378b \U000e01f0c", "100 100"),
    ("a\u4dbfb\u9fffc\u9fa5", "1037 100 1038 100 1039 100"),
]

_vocabulary = files("carrel.search.providers").joinpath("minilm/vocab.txt").read_text(encoding="utf-8").split()
_wordpiece = WordPiece(_vocabulary)


def ids(text: str) -> list[int]:
    return _wordpiece.encode(text, 1000)[1:-1]


@pytest.mark.parametrize(("text", "expected"), AWKWARD)
def test_awkward_texts_have_the_ids_of_the_reference(text: str, expected: str) -> None:
    assert ids(text) == [int(number) for number in expected.split()]


def test_the_marks_stand_around_every_text() -> None:
    assert _wordpiece.encode("", 128) == [FIRST, LAST]
    assert _wordpiece.encode("fish", 128) == [FIRST, 3869, LAST]


def test_a_long_text_is_cut_to_its_length_with_both_marks() -> None:
    found = _wordpiece.encode("fish " * 1000, 128)
    assert found == [FIRST, *[3869] * 126, LAST]


def test_a_word_of_a_hundred_characters_is_split_and_a_longer_one_is_unknown() -> None:
    assert ids("x" * 100) == [22038, *[20348] * 49]
    assert ids("x" * 101) == [UNKNOWN]
    assert ids("a" * 99 + "\u00e9") == ids("a" * 99 + "e")


def test_a_word_with_one_unknown_character_is_unknown_as_a_whole() -> None:
    assert ids("fish\u16a0 fish") == [UNKNOWN, 3869]


def test_what_lies_beyond_the_read_part_is_not_looked_at() -> None:
    """A text of many megabytes must not cost more than one of a few pages."""
    huge = "\u00e9" * 50_000_000
    start = time.perf_counter()
    assert _wordpiece.encode(huge, 128) == [FIRST, UNKNOWN, LAST]
    assert time.perf_counter() - start < 1
    assert ids(" " * MAX_TEXT_CHARACTERS + "fish") == []


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_text_has_ids_within_the_vocabulary(text: str) -> None:
    found = _wordpiece.encode(text, 128)
    assert 2 <= len(found) <= 128
    assert all(0 <= number < len(_vocabulary) for number in found)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_gives_what_the_general_way_gives(text: str) -> None:
    """One accented word at the end forces the general way."""
    assert ids(text + " \u00e9") == [*ids(text), *ids("e")]
