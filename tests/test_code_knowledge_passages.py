"""Files of code in passages: what is found in each language, and that nothing is lost, doubled or slow."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.code.knowledge import passages as passages_module
from carrel.code.knowledge.passages import MAX_DEFINITIONS, MAX_PASSAGE_LINES, CodePassage, code_passages

LANGUAGES = ("python", "typescript", "javascript", "go", "rust", "java", "c", "cpp", "ruby", "php", "kotlin", "text")

PYTHON = """\
import os

# Why this is.
@cache
def load(
    path: str,
) -> str:
    return "def not_this(): pass"

class Store:
    '''Keeps.'''
    def get(self): ...
    async def put(self): ...

if True:
    print(os)
"""
TYPESCRIPT = """\
import { a } from "b";

/** Says hello. */
export async function hello({ a }: P = {}): Promise<{ x: string }> {
  const s = `a ${"}"} {`;
  return /[{"'`]/.test(s) ? { x: s } : { x: "" };
}
const add = (x: number) => x + 1

export default class Auth<T> extends Base {
  private x = compute(1);
  constructor(private readonly a: A) { super(); }
  async login(user: string): Promise<void> {
    if (user) { go(); }
  }
}
export type T = {
  a: number;
};
describe("x", () => {
  it("works", () => { expect(1); });
});
"""
GO = """\
package main

// Serve serves.
func (s *Server) Serve(a int) error {
	fmt.Println(`{`, '{')
	return nil
}

type Server struct {
	a int
}
type ID string

func main() {
}
"""
RUST = """\
use a::b;

/// Doc.
#[derive(Debug)]
pub struct A<'a> { x: &'a str }

impl<'a> A<'a> {
    pub fn new(x: &'a str) -> Self { let c = '{'; A { x } }
    async fn go(&self) -> Result<(), E>
    where T: X
    {
        r#"}"}"#;
    }
}
mod tests;
pub(crate) fn free() {}
"""
JAVA = """\
package a;
/** Doc. */
@Service
public final class Auth<T> {
    private final int x = foo(1);
    public Auth(int x) { this.x = x; }
    public Map<String, List<T>> login(String a,
        int b) throws E {
        if (a) { return call(b); }
        return null;
    }
    abstract void later(int a);
}
"""
CPP = """\
#include <x>
#define X { \\
   {
namespace a::b {
template <typename T>
class Foo : public Bar {
  Foo(int a) : x_(a) {}
  int get() const { return x_; }
};
int Foo::size() const
{
  return 1'000;
}
}
static int *helper(char *a) {
  return 0;
}
int declared(int a);
"""
RUBY = """\
require "x"

module A
  # Doc.
  class B < C
    def self.x(a)
      if a
        1
      end
    end
  end
end
"""
PHP = """\
<?php
namespace A;
# A comment {
final class B {
    public function x(int $a): array { return ['}' => "{"]; }
}
function y() { }
"""


def found(text: str, language: str) -> list[tuple[str, str, int, int]]:
    return [(each.kind, each.name, each.first, each.last) for each in code_passages("x", text, language)]


@pytest.mark.rule("knowledge.passages.python")
def test_python_comes_apart_into_its_definitions() -> None:
    expected = [
        ("block", "", 1, 1),
        ("function", "load", 3, 8),
        ("class", "Store", 10, 13),
        ("block", "", 15, 16),
    ]
    assert found(PYTHON, "python") == expected
    assert found(PYTHON.replace("\n", "\r\n"), "python") == expected
    broken = PYTHON + "print 'two'\n"
    assert found(broken, "python") == [*expected[:3], ("block", "", 15, 17)]


@pytest.mark.rule("knowledge.passages.languages")
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "typescript",
            TYPESCRIPT,
            [
                ("block", "", 1, 1),
                ("function", "hello", 3, 7),
                ("function", "add", 8, 8),
                ("class", "Auth", 10, 16),
                ("type", "T", 17, 19),
                ("block", "", 20, 22),
            ],
        ),
        (
            "go",
            GO,
            [
                ("block", "", 1, 1),
                ("function", "Server.Serve", 3, 7),
                ("type", "Server", 9, 11),
                ("type", "ID", 12, 12),
                ("function", "main", 14, 15),
            ],
        ),
        (
            "rust",
            RUST,
            [
                ("block", "", 1, 1),
                ("struct", "A", 3, 5),
                ("impl", "A<'a>", 7, 14),
                ("block", "", 15, 15),
                ("function", "free", 16, 16),
            ],
        ),
        ("java", JAVA, [("block", "", 1, 1), ("class", "Auth", 2, 13)]),
        (
            "cpp",
            CPP,
            [("block", "", 1, 3), ("namespace", "a::b", 4, 14), ("function", "helper", 15, 17), ("block", "", 18, 18)],
        ),
        ("ruby", RUBY, [("block", "", 1, 1), ("module", "A", 3, 12)]),
        ("php", PHP, [("block", "", 1, 2), ("class", "B", 3, 6), ("function", "y", 7, 7)]),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_definitions_of_other_languages_are_found_with_their_comments(
    language: str, text: str, expected: list[tuple[str, str, int, int]]
) -> None:
    assert found(text, language) == expected


@pytest.mark.rule("knowledge.passages.python")
def test_a_heading_between_definitions_belongs_to_the_one_that_follows() -> None:
    text = "def a():\n    pass\n\n\n# --- the second part\n\n\ndef b():\n    pass\n"
    assert found(text, "python") == [("function", "a", 1, 2), ("function", "b", 5, 9)]


@pytest.mark.rule("knowledge.passages.languages")
def test_what_is_too_long_comes_apart_into_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages_module, "MAX_PASSAGE_LINES", 3)
    names = {language: [name for _, name, *_ in found(text, language)] for language, text in _TEXTS.items()}
    assert names["python"] == ["", *["load"] * 2, "Store", "Store.get", "Store.put", ""]
    assert {"Auth.constructor", "Auth.login"} <= set(names["typescript"])
    assert {"A<'a>.new", "A<'a>.go"} <= set(names["rust"])
    assert {"Auth.Auth", "Auth.login"} <= set(names["java"])
    assert "Auth.later" not in names["java"]
    assert {"Foo.Foo", "Foo.get", "Foo.size"} <= set(names["cpp"])
    assert "A.B.self.x" in names["ruby"]
    assert "B.x" in names["php"]


_TEXTS = {
    "python": PYTHON,
    "typescript": TYPESCRIPT,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "cpp": CPP,
    "ruby": RUBY,
    "php": PHP,
}


def check(text: str, passages: list[CodePassage]) -> None:
    """Every line with a word is in one passage, in order, with its own text, and none has too many."""
    lines = text.replace("\r\n", "\n").replace("\r", " ").split("\n")
    place = 0
    for each in passages:
        assert place < each.first <= each.last
        assert each.last - each.first < MAX_PASSAGE_LINES
        assert each.text == "\n".join(line[:400] for line in lines[each.first - 1 : each.last])
        assert not _has_word(lines[place : each.first - 1])
        place = each.last
    assert not _has_word(lines[place:])


def _has_word(lines: list[str]) -> bool:
    return any(character.isalnum() for line in lines for character in line[:400])


@pytest.mark.rule("knowledge.passages.lines")
def test_every_line_of_our_own_code_is_in_one_passage() -> None:
    root = Path(passages_module.__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        passages = code_passages(path.name, text, "python")
        check(text, passages)
        names = {each.name for each in passages}
        assert "_between" in names or path.name != "passages.py"


_FRAGMENTS = [
    *(
        "{",
        "}",
        "(",
        ")",
        ";",
        '"',
        "'",
        "`",
        '"""',
        "//",
        "/*",
        "*/",
        "#",
        "/",
        "\\",
        "\n",
        "\r",
        " ",
        "=",
        "=>",
        "[",
        "<",
    ),
    *(
        "function f",
        "class A",
        "def g",
        "func h",
        "fn i",
        "impl B",
        "end",
        "namespace n",
        "struct S",
        "template",
        "x\n\n",
    ),
    *("int main", "é", "\u2028", "\f", "const k = (", "    ", "\t", "1", "@a", "type T ="),
]


@pytest.mark.rule("knowledge.passages.lines", "knowledge.passages.hostile")
@settings(max_examples=150)
@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=120).map("".join), st.sampled_from(LANGUAGES))
def test_no_line_is_lost_or_doubled_whatever_the_text(text: str, language: str) -> None:
    check(text, code_passages("x", text, language))


@pytest.mark.rule("knowledge.passages.hostile")
@pytest.mark.parametrize("language", ["typescript", "cpp", "rust", "python", "ruby"])
@pytest.mark.no_cover  # which makes it several times slower
def test_the_time_for_a_hostile_file_is_bounded(language: str) -> None:
    size = 100_000
    patterns = (
        "{",
        "function f(){\n",
        "/* ",
        "`\\",
        '"""',
        "=/[",
        "(/",
        "class A {\n",
        "def f(:\n",
        "impl<",
        "''",
        'r#"',
        " ",
    )
    for pattern in patterns:
        text = pattern * (size // len(pattern))
        started = time.perf_counter()
        passages = code_passages("x", text, language)
        assert time.perf_counter() - started < 5, "a fifth of a second where nothing goes back over the text"
        assert len(passages) <= MAX_DEFINITIONS + size // 40


def test_deep_nesting_is_no_stack_of_ours() -> None:
    for language, text in (
        ("cpp", "namespace a {\n" * 3000),
        ("ruby", "".join(f"{' ' * n}module A\n" for n in range(900))),
    ):
        check(text, code_passages("x", text, language))
    check("(" * 5000, code_passages("x", "(" * 5000, "python"))
