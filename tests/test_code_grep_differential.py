"""Generated trees, patterns and globs: ripgrep with what Carrel makes of it against the slow model."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from carrel.code.file_access import DenyList
from carrel.code.grep.globs import parse_glob
from carrel.code.grep.searcher import CodeSearcher, GrepResult
from carrel.toolsets.code.results import grep as as_told
from tests.reference.grep import Tree, grep, selects

pytestmark = [pytest.mark.anyio, pytest.mark.no_cover]  # coverage makes it several times slower, and it adds none

SEED = 20_266
TREES = int(os.environ.get("CARREL_GREP_TREES", "60"))
QUERIES = 8
GLOBS = 3_000

FOLDERS = [
    "src",
    "lib",
    "a",
    "b",
    "s",
    "sr",
    "srcx",
    "my-app",
    "dist",
    "build",
    ".next",
    ".context",
    ".carrel",
    ".github",
    "node_modules",
    "Dist",
    "vendor",
]
NAMES = [
    *[
        "a.ts",
        "b.ts",
        "c.py",
        "d.tsx",
        "README.md",
        ".env",
        ".env.example",
        ".ENV.local",
        "id_rsa.pub",
        "x.pem",
        "build",
        "dist",
        ".hidden",
        "A.TS",
        "src",
    ],
    *("-dash.ts", "é.ts", "a b.txt", "new\nline.ts", ".ignore", ".rgignore", "日本.py"),
]
IGNORED = [
    *[
        "*.py",
        "/src",
        "lib/",
        "!c.py",
        "a/*.ts",
        "**/b",
        "src/**",
        "!src/",
        "*.ts",
        "#",
        "a?.ts",
        "[ab].ts",
        "/a/b",
        "!*.md",
        "b/",
        ".hidden",
        "!dist/",
        "!.env",
        "*",
        "!*/",
    ],
    "",
]
GLOB_PARTS = [
    "src",
    "lib",
    "a",
    "b",
    "my-app",
    "**",
    "*",
    "*.ts",
    "*.py",
    "*.{ts,py}",
    "{a,b}.ts",
    "[ab]*",
    "?.ts",
    "[!a]*.ts",
    ".*",
    "{src,lib}",
    "a.ts",
    "s*",
    "*p*",
    "*s*t*",
]
WORDS = ["foo", "Foo", "bar", "token", "x", "xx", "12", "a_b", "é", "É", "日本", "😀", "(", ".", "\t"]
ATOMS = [
    r"foo",
    r"bar",
    r"x",
    r".",
    r"\.",
    r"[abx]",
    r"[^abx]",
    r"\w",
    r"\d",
    r"\s",
    r"é",
    r"日",
    r"😀",
    r"o+",
    r"x*",
    r".*",
    r"o?",
    r"(?:foo|bar)",
    r"\bx",
    r"^",
    r"$",
    r"\(",
    r"1|2",
    r"token",
]


def line(chance: random.Random) -> str:
    words = " ".join(chance.choices(WORDS, k=chance.randrange(6)))
    if chance.random() < 0.04:
        words = chance.choice("yé😀") * chance.randrange(1, 900) + words + chance.choice("z日") * chance.randrange(900)
    return words


def content(chance: random.Random) -> bytes:
    lines = [line(chance) for _ in range(chance.randrange(12))]
    end = chance.choice(["\n", "\n", "\r\n"])
    text = end.join(lines) + (end if chance.random() < 0.7 else "")
    match chance.randrange(20):
        case 0:
            return text.encode("utf-16")
        case 1:
            return b"\xfe\xff" + text.encode("utf-16-be")
        case 2:
            return b"\xef\xbb\xbf" + text.encode()
        case 3:
            return text.encode() + b"\0"
        case 4:
            return text.encode() * 40 + b"y" * 70_000 + b"\n\0foo"
        case 5:
            raw = bytearray(text.encode())
            for _ in range(4):
                raw.insert(chance.randrange(len(raw) + 1), chance.choice(b"\xff\x80\xe2\xf0\x9f\xc3"))
            return bytes(raw)
        case 6:
            return text.replace(" x ", " x\rx ").encode()
        case _:
            return text.encode()


def make_tree(chance: random.Random, root: Path) -> Tree:
    """Writes it as well. Some links lead to files and folders of the tree; a .gitignore above the root ignores all."""
    tree: Tree = {}
    folders = [""]
    for _ in range(chance.randrange(1, 8)):
        folders.append(f"{chance.choice(folders)}{chance.choice(FOLDERS)}/")
    for _ in range(chance.randrange(2, 20)):
        tree[chance.choice(folders) + chance.choice(NAMES)] = content(chance)
    for _ in range(chance.randrange(4)):
        tree[f"{chance.choice(folders)}.gitignore"] = "\n".join(chance.choices(IGNORED, k=3)).encode()
    for path in sorted(tree):
        place = root / path
        if place.is_dir() or any(parent.is_file() for parent in place.parents):
            del tree[path]
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(tree[path])
    root.mkdir(exist_ok=True)
    (root.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    for number, path in enumerate(list(tree)[:2]):
        (root / f"link{number}.ts").symlink_to(path)
        (root / f"folder{number}").symlink_to((root / path).parent)
    return tree


def make_glob(chance: random.Random) -> str:
    parts = chance.choices(GLOB_PARTS, k=chance.randrange(1, 5))
    glob = "/".join(parts)
    return chance.choice(["", "", "", "", "/", "./", "!"]) + glob + chance.choice(["", "", "", "", "/"])


async def test_generated_searches_answer_as_the_model_does(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    matched = 0
    for number in range(TREES):
        root = tmp_path / str(number) / "root"
        tree = make_tree(chance, root)
        searcher = CodeSearcher(root, DenyList(), seconds=60)
        queries: list[dict[str, Any]] = [
            {
                "pattern": "".join(chance.choices(ATOMS, k=chance.randrange(1, 4))),
                "file_pattern": make_glob(chance) if chance.random() < 0.5 else None,
                "case_sensitive": chance.random() < 0.5,
                "limit": chance.choice([1, 2, 5, 100]),
            }
            for _ in range(QUERIES)
        ]
        answers = await asyncio.gather(*(searcher.search(**query) for query in queries))
        for query, answer in zip(queries, answers, strict=True):
            assert isinstance(answer, GrepResult), (query, answer)
            told = as_told(query["pattern"], answer)
            told.pop("searchTime")
            assert told == grep(tree, **query), (number, query)
            matched += bool(answer.matches)
    assert matched > TREES


def test_generated_globs_select_as_the_model_does() -> None:
    chance = random.Random(SEED)
    selected = 0
    for _ in range(GLOBS):
        glob = make_glob(chance)
        parsed = parse_glob(glob)
        for _ in range(5):
            path = "/".join([*chance.choices(FOLDERS[:8], k=chance.randrange(4)), chance.choice(NAMES)])
            assert parsed.matches(path) is selects(glob, path), (glob, path)
            selected += selects(glob, path)
    assert selected > GLOBS // 2
