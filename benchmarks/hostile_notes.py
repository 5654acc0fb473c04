"""Vault files and frontmatter that attack whoever reads them, and swaps of folders and files for links.

    hostile_files(seed, count, largest=...)   yields `Hostile(kind, path, content)`: write the bytes to vault/path
    hostile_swaps(seed, count, outside=...)   yields `Hostile(kind, path, target)`: replace vault/path by a link to it
    hostile_texts(largest)                    every kind once, as `{kind: text}`: also good as `content` for create_node

The same seed gives the same files. `content` is bytes for a file and a `Path` for a link. `apply(vault, hostile)` puts
one in place atomically, as another program would, with the folders that it needs. Every path begins with `PREFIX`, and
`get_node(hostile.path)` reads a file. A file has at most `largest` bytes, but for the kinds in `HUGE`, which are as
large as their name says and come with `huge=True` alone.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PREFIX = "hostile/"
MAX_FILE_BYTES = 4 * 1024 * 1024
MARKS = "\u0301\u0327\u0323"
HUGE = ("text of 17 MB", "text of 100 MB", "frontmatter of 20 MB")


class Hostile(NamedTuple):
    kind: str
    path: str
    """From the vault, with `/`."""
    content: bytes | Path


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda size: unit * max(1, size // len(unit))


def _numbered(unit: str, joint: str = " ") -> Callable[[int], str]:
    return lambda size: joint.join(unit.format(n) for n in range(max(1, size // (len(unit) + len(joint) + 2))))


def _fenced(yaml: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: f"---\n{yaml(size)}\n---\nbody [[index]]\n"


def _pair(before: str, after: str, lead: str = "x: ") -> Callable[[int], str]:
    def made(size: int) -> str:
        count = max(1, size // (len(before) + len(after)))
        return lead + before * count + after * count

    return made


def _growing_ticks(size: int) -> str:
    """Runs of backticks, no two equally long: each looks in vain for its end."""
    found, length = [], 1
    while size > 0:
        found.append("`" * length + "a")
        size -= length + 1
        length += 1
    return "".join(found)


def _laughs(size: int) -> str:
    return "a0: &a0 [x, x]\n" + "\n".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, max(2, min(200, size // 30)))
    )


FRONTMATTER: dict[str, Callable[[int], str]] = {
    "brackets": _pair("[", "]"),
    "braces": _pair("{", "}"),
    "maps in maps": _pair("{a: ", "}"),
    "dashes": lambda size: "x:\n  " + "- " * (size // 2) + "a",
    "question marks": _repeated("? "),
    "indentation": lambda size: "\n".join(" " * n + "k:" for n in range(int((2 * size) ** 0.5))),
    "flow list": lambda size: "tags: [" + "a," * (size // 2) + "b]",
    "tags": lambda size: "tags: [" + ", ".join(f"t{n}" for n in range(size // 8)) + "]",
    "block tags": lambda size: "tags:\n" + "\n".join(f"- t{n}" for n in range(size // 8)),
    "aliases of notes": lambda size: "aliases: [" + ", ".join(f"n{n}" for n in range(size // 8)) + "]",
    "anchors": lambda size: "\n".join(f"k{n}: &a{n} v" for n in range(size // 14)),
    "alias flood": lambda size: "a: &a [x]\nb: [" + "*a," * (size // 3) + "]",
    "laughs": _laughs,
    "merge keys": lambda size: "a: &a {k: v}\n" + "\n".join(f"b{n}: &b{n} {{<<: [*a, *a]}}" for n in range(size // 25)),
    "self": lambda _size: "title: &a [*a]\ntags: &b {c: *b}",
    "node tags": lambda size: "\n".join(f"k{n}: !t{n} v" for n in range(size // 12)),
    "directives": lambda size: "%TAG !a! b\n" * (size // 11) + "--- a",
    "whole number": lambda size: "title: " + "9" * size,
    "base 60": lambda size: "title: 1" + ":1" * (size // 2),
    "date": lambda size: "title: 2024-01-01" + "0" * size,
    "title": lambda size: "title: " + "a" * size,
    "combining title": lambda size: "title: a" + MARKS * (size // 6),
    "keys": lambda size: "\n".join(f"k{n}: v" for n in range(size // 8)),
    "blank lines": lambda size: "a: |\n" + "\n" * size + "  x",
    "quoted escapes": lambda size: 'x: "' + "\\n" * (size // 2) + '"',
    "no end": lambda size: "a: b\n" * (size // 5),
}

TEXT: dict[str, Callable[[int], str]] = {
    "tags": _numbered("#tag{}"),
    "same tag": _repeated("#a "),
    "links": _numbered("[[n{}]]"),
    "same link": _repeated("[[index]] "),
    "relative links": _numbered("[a](n{}.md)"),
    "long links": lambda size: " ".join("[[" + "a" * 2000 + f"{n}]]" for n in range(size // 2008)),
    "combining links": lambda size: " ".join("[[a" + MARKS * 300 + f"{n}]]" for n in range(size // 1810)),
    "combining marks": lambda size: "[[a" + MARKS * (size // 6) + "]] #a" + MARKS,
    "brackets": _repeated("["),
    "closing brackets": _repeated("]"),
    "pairs of brackets": _pair("[", "]", lead=""),
    "brackets in brackets": _repeated("[x[b]"),
    "escaped brackets": lambda size: "[a" + "\\[" * (size // 2),
    "open links": _repeated("[[a"),
    "open links with headings": _repeated("[[a#"),
    "bars": lambda size: "[[a" + "|" * size,
    "open addresses": _repeated("[a](b"),
    "parentheses": lambda size: "[a](b" + "(c)" * (size // 3),
    "titles": _repeated("[a](b '"),
    "blank addresses": lambda size: "[a](" + " " * size,
    "addresses": _repeated("http://a"),
    "backticks": _repeated("` "),
    "growing backticks": _growing_ticks,
    "growing backticks, indented": lambda size: "    code\n\n" + _growing_ticks(size),
    "comments": _repeated("<!-- "),
    "comments after a list": lambda size: "- a\n\n" + "<!-- " * (size // 5),
    "comment blocks": lambda size: "- a\n" + "<!--\n" * (size // 5),
    "fences": _repeated("```\n"),
    "open fences": lambda size: "- a\n" + "~~~\na\n" * (size // 6),
    "quotes": _repeated("> "),
    "quotes on lines": _repeated("> > > > > > > > a\n"),
    "lists": _repeated("- "),
    "numbers": _repeated("1. "),
    "deep list": lambda size: "\n".join(" " * 2 * n + "- a" for n in range(int(size**0.5))),
    "deep list, then blank lines": lambda size: "- " * 200 + "a\n" + "\n" * size,
    "blank lines": _repeated("\n"),
    "lines": _repeated("a\n"),
    "blanks": _repeated(" "),
    "tabs": _repeated("\t"),
    "heading with blanks": lambda size: "# a" + " " * size + "x",
    "heading with signs": lambda size: "# a" + " #" * (size // 2) + "x",
    "headings": _repeated("# a\n"),
    "rules": _repeated("* * * * * * * * x\n"),
    "one word": _repeated("a"),
    "sentences": _repeated("A b. "),
    "ideographs": _repeated("\u6f22"),
    "capital I with dot": _repeated("\u0130"),
    "carriage returns": _repeated("\r"),
    "NUL": _repeated("\0"),
    "table": _repeated("| [[a\\|b]] "),
    "random": lambda size: "".join(random.Random(size).choices("[]()`#<!->|\\\n\t *_~ab\"'{}:,", k=size)),
}


def hostile_texts(largest: int = MAX_FILE_BYTES) -> dict[str, str]:
    """Every kind, of about that many bytes."""
    found = {f"frontmatter: {kind}": _fenced(make)(largest) for kind, make in FRONTMATTER.items()}
    found |= {f"text: {kind}": make(largest) for kind, make in TEXT.items()}
    return found


_MAKERS: Mapping[str, Callable[[int], str]] = {
    **{f"frontmatter: {kind}": _fenced(make) for kind, make in FRONTMATTER.items()},
    **{f"text: {kind}": make for kind, make in TEXT.items()},
}
KINDS = (*_MAKERS, "bytes", "UTF-16", "surrogates")


def _content(kind: str, size: int, choose: random.Random) -> bytes:
    if kind == "bytes":
        return choose.randbytes(size)
    if kind == "UTF-16":
        return ("[[index]] #a " * (size // 26)).encode("utf-16")
    if kind == "surrogates":
        return b"\xed\xa0\x80#a " * (size // 6)
    return _MAKERS[kind](size).encode()[:size]


def _huge(kind: str) -> bytes:
    if kind.startswith("text"):
        return b"[[index]] #a b\n" * (int(kind.split()[2]) * 1_000_000 // 15)
    return b"---\n" + b"k: v\n" * 4_000_000 + b"---\nbody"


def hostile_files(seed: int, count: int, *, largest: int = MAX_FILE_BYTES, huge: bool = False) -> Iterator[Hostile]:
    """Files of every kind in turn, of sizes that favor small ones; every hundredth has all of `largest`."""
    choose = random.Random(seed)
    kinds = [*KINDS, *(HUGE if huge else ())]
    choose.shuffle(kinds)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        size = largest if number % 100 == 99 else max(1, int(largest * choose.random() ** 30))
        content = _huge(kind) if kind in HUGE else _content(kind, size, choose)
        folder = choose.choice(("", "", "a/", "a/b/", "\u00e9/", "a b/"))
        yield Hostile(kind, f"{PREFIX}{folder}n{seed}-{number}.md", content)


SWAPS = ("folder", "folder above", "file", "folder and back", "chain", "loop", "relative", "through /proc")


def hostile_swaps(seed: int, count: int, *, outside: Path) -> Iterator[Hostile]:
    """Links to put in the place of folders (`hostile/s0`) and of notes in them (`hostile/s0/note.md`).

    `outside` is a folder that is not in the vault, with a `note.md` that nobody may read or change by way of the vault.
    For `folder and back` the target is the vault's own folder of another swap; `loop` leads to itself.
    """
    choose = random.Random(seed)
    for number in range(count):
        kind = SWAPS[number % len(SWAPS)]
        place = f"{PREFIX}s{choose.randrange(8)}"
        note = f"{place}/note.md"
        targets: dict[str, tuple[str, Path]] = {
            "folder": (place, outside),
            "folder above": (f"{place}/inner", outside.parent),
            "file": (note, outside / "note.md"),
            "folder and back": (place, Path(f"s{choose.randrange(8)}")),
            "chain": (f"{place}/chain", Path("../s0/chain")),
            "loop": (place, Path(Path(place).name)),
            "relative": (place, Path("..") / ".." / os.path.relpath(outside, outside.parent)),
            "through /proc": (place, Path("/proc/self/cwd")),
        }
        yield Hostile(f"swap: {kind}", *targets[kind])


def apply(vault: Path, hostile: Hostile) -> None:
    """Put it in place; what was there goes. One that cannot be (a folder above is a loop) is left out."""
    path = vault / hostile.path
    staged = vault / f".hostile-{secrets.token_hex(6)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(hostile.content, bytes):
            staged.write_bytes(hostile.content)
        else:
            staged.symlink_to(hostile.content)
            if path.is_dir() and not path.is_symlink():
                path.rename(vault / f".was-{secrets.token_hex(6)}")
        os.replace(staged, path)
    except OSError:
        staged.unlink(missing_ok=True)
