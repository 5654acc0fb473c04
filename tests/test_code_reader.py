"""read_file's result: content, facts, encoding, metadata, and the limits on what comes with it."""

import asyncio
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from carrel.code.file_access import DenyList, Refusal
from carrel.code.languages import language_of
from carrel.code.metadata import Modules, role_of, shared_folder
from carrel.code.reader import CodeReader, ReadFile
from carrel.code.text_decoder import DecodedText, NotText, decode_text
from carrel.toolsets.code import results

SERVICE = 'import { T } from "./TokenManager";\nimport "../users/UserRepository";\n'


def written(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def read(root: Path, path: str, *, deps: bool = False, depth: int = 1, **more: Any) -> dict[str, Any]:
    found = asyncio.run(CodeReader(root, DenyList(), **more).read(path, include_deps=deps, max_depth=depth))
    assert isinstance(found, ReadFile), found
    return results.read_file(found)


@pytest.mark.rule("code.read.result")
def test_the_result_has_the_contracts_fields_in_its_order(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "src/server/auth/AuthService.ts": SERVICE,
            "src/server/auth/TokenManager.ts": "export const T = 1;\n",
            "src/server/users/UserRepository.ts": "export {};",
            "tests/auth.test.ts": "",
        },
    )
    os.utime(tmp_path / "src/server/auth/AuthService.ts", ns=(0, 1_736_931_600_007_999_999))
    found = read(tmp_path, "./src/server//auth/AuthService.ts", deps=True)
    assert found == {
        "file": {
            "path": "src/server/auth/AuthService.ts",
            "content": SERVICE,
            "size": 70,
            "lines": 2,
            "language": "typescript",
        },
        "dependencies": [
            {
                "path": "src/server/auth/TokenManager.ts",
                "type": "import",
                "level": 1,
                "content": "export const T = 1;\n",
                "size": 20,
                "lines": 1,
                "language": "typescript",
            },
            {
                "path": "src/server/users/UserRepository.ts",
                "type": "import",
                "level": 1,
                "content": "export {};",
                "size": 10,
                "lines": 1,
                "language": "typescript",
            },
        ],
        "metadata": {"module": "auth", "role": "core", "lastModified": "2025-01-15T09:00:00.007Z"},
    }
    assert list(found) == ["file", "dependencies", "metadata"]
    assert list(found["file"]) == ["path", "content", "size", "lines", "language"]
    assert list(found["dependencies"][0]) == ["path", "type", "level", "content", "size", "lines", "language"]
    assert list(found["metadata"]) == ["module", "role", "lastModified"]


@pytest.mark.rule("code.read.without_dependencies")
@pytest.mark.parametrize(("deps", "depth"), [(False, 1), (False, 0), (True, 0)])
def test_dependencies_are_empty_unless_asked_for_at_depth_1(tmp_path: Path, deps: bool, depth: int) -> None:
    written(tmp_path, {"a.py": "import b\nimport (", "b.py": ""})
    found = read(tmp_path, "a.py", deps=deps, depth=depth)
    assert found["dependencies"] == []
    assert "warnings" not in found


@pytest.mark.rule("code.read.lines")
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\nb", 2),
        (b"a\r\nb\r\n", 2),
        (b"a\rb", 1),
        (b"\n\n", 2),
        (b"a\x0cb\x0b", 1),
    ],
)
def test_lines_are_line_feeds_and_one_more_for_an_unterminated_last_line(
    tmp_path: Path, content: bytes, lines: int
) -> None:
    file = read(written(tmp_path, {"x.txt": content}), "x.txt")["file"]
    assert (file["lines"], file["size"], file["content"]) == (lines, len(content), content.decode())


@pytest.mark.rule("code.read.encoding")
@pytest.mark.parametrize(
    ("text", "codec", "mark", "encoding"),
    [
        ("grüße\n", "utf-8", b"", None),
        ("grüße\n", "utf-8", b"\xef\xbb\xbf", None),
        ("grüße\n", "utf-16-le", b"\xff\xfe", "utf-16le"),
        ("grüße\n", "utf-16-be", b"\xfe\xff", "utf-16be"),
        ("grüße\n", "utf-32-le", b"\xff\xfe\0\0", "utf-32le"),
        ("grüße\n", "utf-32-be", b"\0\0\xfe\xff", "utf-32be"),
        ("# Schöne Grüße aus München, weiß er\n", "latin-1", b"", "windows-1252"),
        ("# café\nprint('é')\n", "latin-1", b"", "windows-1252"),
        ("it\u2019s \u201cquoted\u201d\n", "cp1252", b"", "windows-1252"),
        ("日本語のテキストです。これは試験です。\n", "shift_jis", b"", "cp932"),
        ("日本語のテキストです。これは試験です。\n", "euc-jp", b"", "euc-jp"),
        ("Привет, мир! Как дела сегодня?\n", "cp1251", b"", "windows-1251"),
        ("def f():\n    return 1\n", "utf-16-le", b"", "utf-16le"),
    ],
)
def test_text_is_decoded_by_mark_then_utf_8_then_detection(
    tmp_path: Path, text: str, codec: str, mark: bytes, encoding: str | None
) -> None:
    content = mark + text.encode(codec)
    file = read(written(tmp_path, {"x.txt": content}), "x.txt")["file"]
    assert file["content"] == text
    assert file["size"] == len(content)
    assert file.get("encoding") == encoding
    assert ("encoding" in file) == (encoding is not None)


@pytest.mark.rule("code.read.not_text")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 20, "application/x-elf"),
        (b"PK\x03\x04\x14\0\0\0\x08\0" + bytes(range(128, 200)), "application/zip"),
        (b"abc\0def" * 20, "application/octet-stream"),
        (bytes(range(256)) * 4, "application/octet-stream"),
        (b"\xff\xfea\0b", "application/octet-stream"),
    ],
)
def test_what_is_no_text_is_refused_with_its_kind(content: bytes, kind: str) -> None:
    found = decode_text(content)
    assert isinstance(found, NotText)
    assert found.kind == kind or found.kind == "application/octet-stream"


def test_a_text_of_odd_characters_is_still_text() -> None:
    assert decode_text(b"\x1b[31mred\x1b[0m \x07\x0c\n") == DecodedText("\x1b[31mred\x1b[0m \x07\x0c\n")


@pytest.mark.rule("code.read.language")
@pytest.mark.parametrize(
    ("path", "text", "language"),
    [
        ("a.ts", "", "typescript"),
        ("a.TSX", "", "typescript"),
        ("a.d.ts", "", "typescript"),
        ("a.mjs", "", "javascript"),
        ("a.jsx", "", "javascript"),
        ("a.py", "", "python"),
        ("a.pyi", "", "python"),
        ("a.go", "", "go"),
        ("a.rs", "", "rust"),
        ("a.java", "", "java"),
        ("a.c", "", "c"),
        ("a.h", "int f(void);\n", "c"),
        ("a.h", "namespace a {\nclass B;\n}\n", "cpp"),
        ("a.cpp", "", "cpp"),
        ("a.rb", "", "ruby"),
        ("a.php", "", "php"),
        ("a.md", "", "markdown"),
        ("a.json", "", "json"),
        ("a.yml", "", "yaml"),
        ("a.sh", "", "shell"),
        ("Dockerfile", "", "dockerfile"),
        ("docker/Dockerfile.dev", "", "dockerfile"),
        ("Makefile", "", "makefile"),
        ("Gemfile", "", "ruby"),
        ("run", "#!/usr/bin/env python3\n", "python"),
        ("run", "#!/usr/bin/env -S node --flag\n", "javascript"),
        ("run", "#!/bin/bash\n", "shell"),
        ("run", "#!/usr/bin/python3.11 -I\n", "python"),
        ("run", "hello", "text"),
        ("a.txt", "", "text"),
        ("a.unknown", "", "text"),
        ("LICENSE", "", "text"),
        (".py", "", "text"),
    ],
)
def test_the_language_is_the_common_name(path: str, text: str, language: str) -> None:
    assert language_of(path, text) == language


@pytest.mark.rule("code.metadata.role")
@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("src/app.ts", "core"),
        ("src/config/loader.ts", "core"),
        ("lib/license.py", "core"),
        ("main.go", "core"),
        ("schema.sql", "core"),
        ("src/styles.css", "core"),
        ("tests/helpers.py", "test"),
        ("pkg/test_x.py", "test"),
        ("conftest.py", "test"),
        ("src/app.test.ts", "test"),
        ("src/app.spec.jsx", "test"),
        ("src/__tests__/app.ts", "test"),
        ("pkg/x_test.go", "test"),
        ("src/test/java/a/FooTest.java", "test"),
        ("spec/models/user_spec.rb", "test"),
        ("package.json", "config"),
        ("tsconfig.build.json", "config"),
        ("pyproject.toml", "config"),
        (".eslintrc.js", "config"),
        (".gitignore", "config"),
        ("vite.config.ts", "config"),
        (".github/workflows/ci.yml", "config"),
        ("Dockerfile", "config"),
        ("requirements.txt", "config"),
        ("go.mod", "config"),
        ("README.md", "docs"),
        ("docs/guide.html", "docs"),
        ("docs/conf.py", "docs"),
        ("LICENSE", "docs"),
        ("CHANGELOG", "docs"),
        ("notes.txt", "docs"),
        ("scripts/build.ts", "script"),
        ("bin/run.py", "script"),
        ("setup.py", "script"),
        ("deploy.sh", "script"),
        ("package-lock.json", "generated"),
        ("uv.lock", "generated"),
        ("dist/app.js", "generated"),
        ("src/api.pb.go", "generated"),
        ("a_pb2.py", "generated"),
        ("static/jquery.min.js", "generated"),
    ],
)
def test_the_role_follows_the_path(path: str, role: str) -> None:
    assert role_of(path) == role


@pytest.mark.rule("code.metadata.role")
def test_the_role_follows_how_a_file_begins() -> None:
    assert role_of("a.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\n") == "generated"
    assert role_of("a.ts", "/** @generated */") == "generated"
    assert role_of("tool", "#!/usr/bin/env python3\n") == "script"


@pytest.mark.rule("code.metadata.module")
def test_the_module_is_the_first_folder_below_the_source_root(tmp_path: Path) -> None:
    files = ["src/server/auth/x.ts", "src/server/auth/deep/y.ts", "src/server/users/z.ts", "src/server/main.ts"]
    noise = [
        "tests/a.test.ts",
        "README.md",
        "package.json",
        "vite.config.ts",
        "scripts/x.ts",
        "dist/a.js",
        "node_modules/a/b.js",
    ]
    written(tmp_path, dict.fromkeys([*files, *noise], "x"))

    def modules(*roots: str) -> list[str | None]:
        known = Modules(str(tmp_path), DenyList(), roots)
        return [known.module_of(path) for path in [*files, "tests/a.test.ts"]]

    assert shared_folder(str(tmp_path), DenyList()) == "src/server"
    assert modules() == ["auth", "auth", "users", None, None]
    assert modules("src/server") == modules("./src/server/") == ["auth", "auth", "users", None, None]
    assert modules("src") == ["server", "server", "server", "server", None]
    assert modules("src", "src/server/auth") == [None, "deep", "server", "server", None]
    assert modules(".") == ["src", "src", "src", "src", "tests"]
    assert read(tmp_path, "src/server/users/z.ts")["metadata"]["module"] == "users"
    assert CodeReader(tmp_path, DenyList()).module_of("src/server/users/z.ts") == "users"


def test_the_text_of_a_file_is_there_for_others_who_index_it(tmp_path: Path) -> None:
    reader = CodeReader(written(tmp_path, {"a.txt": "text", "b.png": b"\x89PNG\r\n\x1a\n\0", ".env": "x"}), DenyList())
    assert [reader.text(path) for path in ("a.txt", "b.png", ".env", "none")] == ["text", None, None, None]


@pytest.mark.rule("code.metadata.module")
def test_the_shared_folder_follows_the_files_after_a_few_seconds(tmp_path: Path) -> None:
    written(tmp_path, {"src/a/x.py": "", "src/b/y.py": ""})
    modules = Modules(str(tmp_path), DenyList())
    assert modules.module_of("src/a/x.py") == "a"
    written(tmp_path, {"lib/z.py": ""})
    assert modules.module_of("src/a/x.py") == "a"
    modules._cached_at = time.monotonic() - 60  # pyright: ignore[reportPrivateUsage]
    assert modules.module_of("src/a/x.py") == "src"
    assert Modules(str(tmp_path / "lib" / "none"), DenyList()).module_of("x.py") is None


@pytest.mark.rule("code.read.limits")
def test_past_fifty_files_dependencies_come_without_content(tmp_path: Path) -> None:
    names = [f"m{number:02}" for number in range(53)]
    written(tmp_path, {f"{name}.py": f"# {name}\n" for name in names} | {"main.py": f"import {', '.join(names)}\n"})
    found = read(tmp_path, "main.py", deps=True)
    assert [each["path"] for each in found["dependencies"]] == [f"{name}.py" for name in names]
    assert ["content" in each for each in found["dependencies"]] == [True] * 50 + [False] * 3
    assert list(found["dependencies"][52]) == ["path", "type", "level", "size", "lines", "language"]
    assert found["truncated"] is True
    assert list(found) == ["file", "dependencies", "metadata", "truncated"]


@pytest.mark.rule("code.read.limits")
def test_past_a_mebibyte_dependencies_come_without_content(tmp_path: Path) -> None:
    half = "#" * (512 * 1024)
    files = {"main.py": "import a, b, c, d, e\n", "a.py": half, "b.py": half[:-1], "c.py": "#", "d.py": "#", "e.py": ""}
    found = read(written(tmp_path, files), "main.py", deps=True)
    assert ["content" in each for each in found["dependencies"]] == [True, True, True, False, False]
    assert found["truncated"] is True
    (tmp_path / "d.py").unlink()
    assert "truncated" not in read(tmp_path, "main.py", deps=True)


def test_a_dependency_that_cannot_be_shown_is_listed_and_one_that_may_not_is_not(tmp_path: Path) -> None:
    files = {
        "main.ts": 'import "./a.png"; import "./large"; import "./secret.pem"; import "./link"; import "./.env.js";\n',
        "a.png": b"\x89PNG\r\n\x1a\n\0",
        "large.ts": "//" + "x" * (1 << 20),
        "secret.pem": "x",
        ".env.js": "x",
    }
    written(tmp_path / "root", files)
    (tmp_path / "outside.ts").write_text("x", encoding="utf-8")
    (tmp_path / "root" / "link.ts").symlink_to(tmp_path / "outside.ts")
    found = read(tmp_path / "root", "main.ts", deps=True)
    assert found["dependencies"] == [
        {"path": "a.png", "type": "import", "level": 1, "size": 9},
        {"path": "large.ts", "type": "import", "level": 1, "size": 1048578},
    ]
    assert found["truncated"] is True


@pytest.mark.rule("code.read.parse_error")
def test_python_that_does_not_parse_is_the_contracts_error_with_the_line(tmp_path: Path) -> None:
    written(tmp_path, {"bad.py": "import os\n\ndef f(:\n    pass\n"})
    found = asyncio.run(CodeReader(tmp_path, DenyList()).read("./bad.py", include_deps=True, max_depth=1))
    assert isinstance(found, Refusal)
    expected = {"error": "Failed to parse imports", "path": "./bad.py", "details": "Syntax error at line 3"}
    assert results.refused(found) == expected
    assert list(results.refused(found)) == list(expected)


@pytest.mark.rule("code.read.warnings")
def test_other_languages_are_read_tolerantly_with_a_warning_that_names_the_line(tmp_path: Path) -> None:
    written(tmp_path, {"a.ts": 'import "./b";\n\n/* no end', "b.ts": ""})
    found = read(tmp_path, "a.ts", deps=True)
    assert [each["path"] for each in found["dependencies"]] == ["b.ts"]
    assert found["warnings"] == [{"line": 3, "message": "Unterminated comment"}]
    assert list(found) == ["file", "dependencies", "metadata", "warnings"]


def test_the_event_loop_is_free_while_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    reader = CodeReader(written(tmp_path, {"a.py": ""}), DenyList())
    read_now = reader.read_now

    def seen(path: str, **more: Any) -> ReadFile | Refusal:
        threads.append(threading.get_ident())
        return read_now(path, **more)

    monkeypatch.setattr(reader, "read_now", seen)
    asyncio.run(reader.read("a.py", include_deps=True, max_depth=1))
    assert threads != [threading.get_ident()]
