"""Texts that were made to keep a reader busy, and files that come and go."""

import asyncio
import json
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from carrel.code.dependencies import scanner as scanning
from carrel.code.dependencies.lexer import Import, ScanResult, ScanWarning
from carrel.code.dependencies.resolver import resolve_imports
from carrel.code.dependencies.root_files import RootFiles, ScanJob, joined
from carrel.code.dependencies.scanner import Scanner, scan
from carrel.code.file_access import DenyList, FileOpener, Refusal
from carrel.code.reader import CodeReader
from tests.code_trees import imports_of, tree
from tests.databases import prepare_desk
from tests.wire import MODERN, HttpServer, HttpWire, call, value

SIZE = 64 * 1024
BOMBS = {
    "python": ["-", "(", "not ", "lambda:", "a.", "a+", "from . import a\n", "import a.", "[", "if a:\n ", "'"],
    "typescript": [
        "import,",
        "import as ",
        "`",
        "`${",
        "/",
        '"\\"',
        "'\\'",
        "import{",
        "({[",
        "/* ",
        "require(",
        "export *",
    ],
    "vue": ["<script>", "<script "],
    "go": ["import (", "`", 'import "', "/*"],
    "rust": ["/*", "/* */", '"\\"', 'r#"', 'r"', "use a::{", "mod a{", "'", "#[path=", '/*"\\"'],
    "java": ["import ", '"""', "import a."],
    "c": ["#include /* ", "\n#include /* ", 'R"(', '"\\"', "'", '\n#include "a', "/*\n"],
    "ruby": ["<<A\n", '"\\"', "'\n", "=begin\n", "require ", "require '"],
    "php": [
        "<?php ",
        "<?php '\\'",
        "<?php //\n",
        "<?php <<<A\n",
        "<?php use ",
        "<?php use a{",
        "<?php include ",
        "<? ?>",
    ],
}


@pytest.mark.rule("code.dependencies.bounded")
@pytest.mark.parametrize(("language", "piece"), [(language, piece) for language in BOMBS for piece in BOMBS[language]])
@pytest.mark.no_cover  # which makes it several times slower
def test_a_text_that_is_read_here_is_read_once_whatever_it_repeats(language: str, piece: str) -> None:
    start = time.process_time()
    scan(language, (piece * SIZE)[:SIZE])
    assert time.process_time() - start < 2


@pytest.mark.no_cover  # which makes it several times slower
def test_many_different_ends_that_are_missing_are_not_all_looked_for() -> None:
    start = time.process_time()
    scan("ruby", "".join(f"<<A{number}\n" for number in range(9000)))
    assert time.process_time() - start < 2


@pytest.mark.rule("code.dependencies.bounded")
def test_a_large_text_is_read_in_a_process_that_is_ended_when_it_takes_too_long() -> None:
    text = "import os\n" + "x = 1\n" * 20_000
    assert Scanner(seconds=60).scan("python", text).imports == (Import("os"),)
    assert Scanner(seconds=60).scan("python", text + "def (").error_line == 20_002
    scanner = Scanner(seconds=0.001)
    late = scanner.scan("python", text)
    assert late.imports == ()
    assert late.warnings == (ScanWarning(1, "Imports were not read within 0.001 seconds"),)
    scanner._seconds = 60  # pyright: ignore[reportPrivateUsage]
    assert scanner.scan("python", text).imports == (Import("os"),)


def test_a_process_that_breaks_down_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning.sys, "executable", "/bin/false")
    assert Scanner().scan("go", " " * (SIZE + 1)).warnings == (ScanWarning(1, "Imports could not be read"),)


@pytest.mark.rule("code.dependencies.bounded")
def test_when_time_runs_out_what_was_found_is_told(tmp_path: Path) -> None:
    tree(tmp_path, "a.ts b.ts")
    files = RootFiles(FileOpener(tmp_path, DenyList()))
    imports = [Import("./a"), *(Import(f"./none{number}") for number in range(1000)), Import("./b")]
    assert resolve_imports(files, "typescript", "main.ts", imports) == ({"a.ts": "import", "b.ts": "import"}, False)
    files = RootFiles(FileOpener(tmp_path, DenyList()), job=ScanJob(seconds=-1))
    found, is_late = resolve_imports(files, "typescript", "main.ts", imports)
    assert (found, is_late) == ({}, True)


def test_a_file_of_many_imports_answers_with_what_there_is(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"main.ts": "".join(f'import "./m{number}";\n' for number in range(2500)), "m7.ts": "", "m2400.ts": ""},
    )
    assert list(imports_of(tmp_path, "main.ts")) == ["m2400.ts", "m7.ts"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f"import {'a.' * 5000}a\nfrom {'a.' * 5000}a import b\nfrom {'.' * 9000} import x\n"),
        ("a.ts", f'import "./{"a/" * 5000}a"; import "{"a/" * 5000}a"; import "{"../" * 5000}a";'),
        ("a.go", f'package a\nimport "./{"a/" * 5000}"\nimport "m/{"a/" * 5000}"\n'),
        ("a.rs", f"use crate::{'a::' * 5000}a;\nuse {'super::' * 2000}a;\nmod {'a' * 5000};\n"),
        ("a.java", f"import {'a.' * 9000}A;\nimport {'b.' * 5000}*;\n"),
        ("a.c", f'#include "{"a/" * 2000}a.h"\n'),
        ("a.rb", f"require '{'a/' * 5000}a'\nrequire_relative '{'../' * 5000}a'\n"),
        ("a.php", f"<?php require '{'a/' * 5000}a';\nuse {'A' + chr(92)}{('A' + chr(92)) * 5000}A;\n"),
    ],
)
def test_names_that_go_on_and_on_lead_nowhere(tmp_path: Path, name: str, text: str) -> None:
    files = {name: text, "go.mod": "module m\n", "composer.json": '{"autoload": {"psr-4": {"A\\\\": "."}}}'}
    assert imports_of(tree(tmp_path, files), name) == {}


@pytest.mark.rule("code.dependencies.cached")
def test_a_scan_is_kept_by_content_and_files_are_looked_for_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[str] = []
    real = scanning.scan

    def counted(language: str, text: str) -> ScanResult:
        scans.append(text)
        return real(language, text)

    monkeypatch.setattr(scanning, "scan", counted)
    reader = CodeReader(tree(tmp_path, {"a.py": "import b\n", "c.py": "import b\n"}), DenyList())

    def found(path: str) -> list[str]:
        answer = reader.read_now(path, with_dependencies=True)
        assert not isinstance(answer, Refusal)
        return [each.path for each in answer.dependencies]

    assert found("a.py") == []
    tree(tmp_path, "b.py")
    assert found("a.py") == ["b.py"]
    (tmp_path / "b.py").unlink()
    assert found("a.py") == found("c.py") == []
    assert len(scans) == 1
    tree(tmp_path, {"a.py": "import c\n"})
    assert found("a.py") == ["c.py"]
    assert len(scans) == 2


@pytest.mark.rule("code.dependencies.denied")
def test_settings_and_targets_outside_or_denied_are_not_followed(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "root/tsconfig.json": """{"extends": "../secret.json",
                "compilerOptions": {"paths": {"@/*": ["../*"], "~/*": ["./*"]}}}""",
            "root/main.ts": """import "@/x"; import "~/node_modules/y/index"; import "../x";
                import "~/.git/hook"; import "y";""",
            "root/main.c": '#include "../x.h"\n#include "/etc/passwd"\n#include "link/x.h"\n',
            "root/main.py": "import link.x\nfrom ... import x\nfrom .... import y\n",
            "secret.json": '{"compilerOptions": {"paths": {"~/*": ["./ok/*"]}}}',
            "x.ts": "",
            "x.h": "",
            "x.py": "",
            "root/node_modules/y/index.js": "",
            "root/.git/hook.ts": "",
        },
    )
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    for name in ("main.ts", "main.c", "main.py"):
        assert imports_of(tmp_path / "root", name) == {}
    assert [joined("a", each) for each in ("../b", "../..", "/etc", ".", "..", "b/../c", "")] == [
        *("b", None, None, "a", "", "a/c", "a"),
    ]


MANY = 100_000
WHOLE = 1024 * 1024
HOSTILE = {
    "py": ["import a%\n", "(", "x = [", "'''", "a,", "def f():\n "],
    "ts": ['import "./a%";\n', "({[", "/* ", "`${", 'require("./b%");'],
    "go": ['import "./a%"\n', "import (", "`", "/*"],
    "rs": ["use crate::a%;\n", "mod a%;\n", "mod a{", 'r#"', "/*"],
    "java": ["import a.b%;\n", "import ", '"""', "/*"],
    "c": ['#include "a%.h"\n', "#include /* ", "'", "/*\n"],
    "cpp": ['#include "a%.h"\n', 'R"(', '"\\"', "/*\n"],
    "rb": ["require_relative 'a%'\n", "{A\n", "=begin\n", '"\\"'],
    "php": ["<?php require 'a%';\n", "<?php use A\\B%;\n", "<?php '", "<?php {<A\n"],
}


def whole(piece: str) -> str:
    """Just less than is read at the most; `%` is a number, so that no two imports are the same."""
    if "%" in piece:
        return "".join(piece.replace("%", str(number)) for number in range(MANY))[:WHOLE]
    return (piece * (WHOLE // len(piece) + 1))[:WHOLE]


@pytest.mark.rule("code.dependencies.unharmed")
@pytest.mark.no_cover  # which makes it several times slower
def test_whole_files_of_hostile_text_in_nine_languages_hold_up_nobody_else(tmp_path: Path) -> None:
    files = {
        f"h{number}.{ending}": whole(piece) for ending, pieces in HOSTILE.items() for number, piece in enumerate(pieces)
    }
    settings = "[code.limits]\nread_file = 0\ngrep_codebase = 0\n[embeddings]\nprovider = 'none'\n"
    tree(prepare_desk(tmp_path), files)
    tree(tmp_path, {"carrel.toml": settings, "plain.txt": "plain\n", "small.py": "import other\n", "other.py": ""})
    server = HttpServer("--toolsets", "code", cwd=tmp_path)
    took: list[float] = []
    others: list[float] = []
    waiting = list(files)

    def hostile() -> None:
        wire = HttpWire(MODERN, server.url)
        while waiting:
            start = time.monotonic()
            found = value(call(wire, "read_file", {"path": waiting.pop(), "includeDeps": True}))
            assert "file" in found or found["error"] == "Failed to parse imports", found["error"]
            took.append(time.monotonic() - start)
        wire.close()

    threads = [threading.Thread(target=hostile) for _ in range(3)]
    wire = HttpWire(MODERN, server.url)
    call(wire, "read_file", {"path": "small.py", "includeDeps": True})  # for what is loaded once
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        start = time.monotonic()
        assert value(call(wire, "read_file", {"path": "plain.txt"}))["file"]["content"] == "plain\n"
        others.append(time.monotonic() - start)
    wire.close()
    assert server.stop() == 143
    assert len(took) == len(files)
    assert max(took) < 15
    assert sorted(others)[len(others) * 9 // 10] < 0.5
    assert max(others) < 2


@pytest.mark.rule("code.dependencies.bounded")
def test_settings_that_refer_to_each_other_without_end_are_given_up(tmp_path: Path) -> None:
    names = [f"c{number}.json" for number in range(20)]
    settings = json.dumps({"extends": [f"./{name}" for name in names]})
    tree(tmp_path, {**dict.fromkeys([*names, "tsconfig.json"], settings), "main.ts": 'import "./a"; import "b";\n'})
    tree(tmp_path, "a.ts")
    start = time.monotonic()
    found = CodeReader(tmp_path, DenyList()).read_now("main.ts", with_dependencies=True)
    assert not isinstance(found, Refusal)
    assert found.is_truncated
    assert [each.path for each in found.dependencies] in (["a.ts"], [])
    assert time.monotonic() - start < 15


@pytest.mark.rule("code.dependencies.cancelled")
def test_a_call_that_is_cancelled_ends_the_process_that_scans_for_it(tmp_path: Path) -> None:
    tree(tmp_path, {"large.py": "x = [[], [], [[]]]\n" * 50_000, "other.py": ""})

    def is_scanning() -> bool:
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                if "carrel.code.dependencies.scanner" in " ".join(each.cmdline()):
                    return True
        return False

    def wait(wanted: bool, seconds: float) -> None:
        end = time.monotonic() + seconds
        while is_scanning() is not wanted:
            assert time.monotonic() < end

    async def read_and_cancel() -> None:
        reader = CodeReader(tmp_path, DenyList())
        task = asyncio.create_task(reader.read("large.py", include_deps=True, max_depth=1))
        await asyncio.to_thread(wait, True, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait, False, 0.5)

    asyncio.run(read_and_cancel())
