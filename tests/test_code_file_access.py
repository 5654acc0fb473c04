"""Which paths lead to a file: the rulings' order of refusals, links, and what is swapped while somebody looks."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from carrel import directory as directory_module
from carrel.code.file_access import MAX_FILE_BYTES, DenyList, FileOpener, OpenedFile, Reason, Refusal
from carrel.code.reader import CodeReader
from carrel.toolsets.code.results import refused
from tests.vaults import without_privileges

HIDDEN = "the text of another folder"
INVALID = "Invalid parameters"
ABSOLUTE = "Absolute paths not allowed"
TRAVERSAL = "Path traversal not allowed"
DENIED = "Permission denied"
MISSING = "File not found"
NO_FILE = "Not a file"
LARGE = "File too large"
BINARY = "Not a text file"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(HIDDEN, encoding="utf-8")
    root = tmp_path / "root"
    allowed = [
        "src/app.ts",
        "src/foo.env.ts",
        "docs/node_modules.md",
        ".github/workflows/ci.yml",
        ".gitignore",
        ".gitattributes",
        ".env.example",
        ".env.sample",
        ".env.template",
        "a b.txt",
        "grüße.txt",
        "..hidden",
        "a..b.txt",
        "..a/x.txt",
        "back\\slash.txt",
        "env",
        "git/config",
        "keys.py",
        "monkey",
        "rsa_id",
        "a:b.txt",
        "100%.txt",
        "environment.envoy",
        "carrel.toml.md",
        "my.carrel",
        "x.keys",
        "server.key.bakery",
    ]
    denied = [
        ".env",
        ".env.local",
        ".envrc",
        ".git/config",
        "node_modules/x/index.js",
        "server.pem",
        "server.key",
        "id_rsa",
        "id_rsa.pub",
        "id_ed25519",
        "deep/er/.git/config",
        "deep/node_modules/y.js",
        "vault/x.txt",
    ]
    for path in [*allowed, *denied]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{HIDDEN if path in denied else 'fine'}\n", encoding="utf-8")
    (root / "exact.txt").write_bytes(b"x" * MAX_FILE_BYTES)
    (root / "large.txt").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (root / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket"))
    links = {
        "link_in": "src/app.ts",
        "link_folder_in": "src",
        "link_up_and_in": "../root/src/app.ts",
        "src/link_absolute": str(root / "src" / "app.ts"),
        "link_out": "../outside/secret.txt",
        "link_folder_out": str(outside),
        "link_env": ".env",
        "link_chain": "link_env",
        "link_git": ".git",
        "link_broken": "nothing",
        "link_broken_out": "../nothing",
        "link_loop": "link_loop",
        "link_device": "/dev/zero",
        "innocent.txt": "server.pem",
        ".env.shared": "src/app.ts",
    }
    for path, target in links.items():
        (root / path).symlink_to(target)
    return root


VERDICTS = [
    # allowed
    ("src/app.ts", "src/app.ts"),
    ("./src//app.ts", "src/app.ts"),
    ("././src/./app.ts", "src/app.ts"),
    ("src/foo.env.ts", "src/foo.env.ts"),
    ("docs/node_modules.md", "docs/node_modules.md"),
    (".github/workflows/ci.yml", ".github/workflows/ci.yml"),
    (".gitignore", ".gitignore"),
    (".gitattributes", ".gitattributes"),
    (".env.example", ".env.example"),
    (".env.sample", ".env.sample"),
    (".env.template", ".env.template"),
    ("environment.envoy", "environment.envoy"),
    ("carrel.toml.md", "carrel.toml.md"),
    ("my.carrel", "my.carrel"),
    ("x.keys", "x.keys"),
    ("server.key.bakery", "server.key.bakery"),
    ("a b.txt", "a b.txt"),
    ("grüße.txt", "grüße.txt"),
    ("..hidden", "..hidden"),
    ("a..b.txt", "a..b.txt"),
    ("..a/x.txt", "..a/x.txt"),
    ("back\\slash.txt", "back\\slash.txt"),
    ("env", "env"),
    ("git/config", "git/config"),
    ("keys.py", "keys.py"),
    ("monkey", "monkey"),
    ("rsa_id", "rsa_id"),
    ("100%.txt", "100%.txt"),
    ("exact.txt", "exact.txt"),
    ("link_in", "link_in"),
    ("link_folder_in/app.ts", "link_folder_in/app.ts"),
    ("link_up_and_in", "link_up_and_in"),
    ("src/link_absolute", "src/link_absolute"),
    # no path at all
    ("", INVALID),
    ("a\0b", INVALID),
    ("\0", INVALID),
    ("src/app.ts\0.png", INVALID),
    ("/etc/passwd\0", INVALID),
    ("\ud800", INVALID),
    ("src/\udfffapp.ts", INVALID),
    # absolute
    ("/etc/passwd", ABSOLUTE),
    ("/", ABSOLUTE),
    ("//server/share", ABSOLUTE),
    ("\\\\server\\share\\x", ABSOLUTE),
    ("\\windows\\x", ABSOLUTE),
    ("\\\\?\\C:\\x", ABSOLUTE),
    ("C:\\windows\\x", ABSOLUTE),
    ("c:/x", ABSOLUTE),
    ("C:x", ABSOLUTE),
    ("a:b.txt", ABSOLUTE),
    ("C:\\..\\x", ABSOLUTE),
    ("~", ABSOLUTE),
    ("~/.ssh/id_rsa", ABSOLUTE),
    ("~root/x", ABSOLUTE),
    ("file:///etc/passwd", ABSOLUTE),
    ("FILE:/etc/passwd", ABSOLUTE),
    ("file:etc/passwd", ABSOLUTE),
    ("http://localhost/x", ABSOLUTE),
    ("https://example.com/../x", ABSOLUTE),
    ("data:text/plain,x", ABSOLUTE),
    ("git+ssh://host/x", ABSOLUTE),
    ("/../x", ABSOLUTE),
    # traversal
    ("..", TRAVERSAL),
    ("../outside/secret.txt", TRAVERSAL),
    ("src/../../outside/secret.txt", TRAVERSAL),
    ("src/../src/app.ts", TRAVERSAL),
    ("src/..", TRAVERSAL),
    ("..\\outside\\secret.txt", TRAVERSAL),
    ("src\\..\\..\\outside", TRAVERSAL),
    ("src/..\\../x", TRAVERSAL),
    ("./../x", TRAVERSAL),
    (".git/../src/app.ts", TRAVERSAL),
    ("../.env", TRAVERSAL),
    # denied
    (".env", DENIED),
    ("./.env", DENIED),
    (".env/", DENIED),
    (".ENV", DENIED),
    (".Env.Local", DENIED),
    (".env.local", DENIED),
    (".env.production", DENIED),
    (".env.example.local", DENIED),
    (".env.", DENIED),
    (".env ", DENIED),
    (".env. . ", DENIED),
    (".env\u00a0", DENIED),
    (".env\u3000", DENIED),
    (".e\u200bnv", DENIED),
    (".env\u200b", DENIED),
    ("\ufeff.env", DENIED),
    (".\u00adenv", DENIED),
    (".en\u2060v", DENIED),
    (".e\u200dnv.\u200c", DENIED),
    ("\uff0eenv", DENIED),
    (".\uff45\uff4e\uff56", DENIED),
    ("\u2024env", DENIED),
    (".\U0001d41env", DENIED),
    (".env\ufe0f", DENIED),
    (".envrc", DENIED),
    ("x\ny.key", DENIED),
    (".carrel", DENIED),
    (".carrel/carrel.db", DENIED),
    ("carrel.toml", DENIED),
    ("sub/Carrel.toml", DENIED),
    (".env-staging", DENIED),
    ("production.env", DENIED),
    ("sub/x.ENV", DENIED),
    ("x.p12", DENIED),
    ("x.pfx", DENIED),
    ("x.jks", DENIED),
    ("x.keystore", DENIED),
    ("id_dsa", DENIED),
    ("id_dsa.pub", DENIED),
    ("id_ecdsa", DENIED),
    ("id_ecdsa_sk", DENIED),
    (".netrc", DENIED),
    (".npmrc", DENIED),
    (".pypirc", DENIED),
    (".git-credentials", DENIED),
    (".htpasswd", DENIED),
    (".env~", DENIED),
    (".env.bak", DENIED),
    ("server.key.old", DENIED),
    ("server.pem.orig", DENIED),
    ("x.p12.save", DENIED),
    (".netrc.swp", DENIED),
    (".id_rsa.swp", DENIED),
    (".carrel.toml.swp", DENIED),
    ("carrel.toml~", DENIED),
    ("carrel.toml.bak.old", DENIED),
    (".carrel.bak/carrel.db", DENIED),
    (".git.old/config", DENIED),
    ("x.\u212aey.bak", DENIED),
    ("src/.env", DENIED),
    (".git", DENIED),
    (".git/config", DENIED),
    (".GIT/config", DENIED),
    (".Git", DENIED),
    (".git./config", DENIED),
    (".git /config", DENIED),
    (".g\u0456t", MISSING),  # a Cyrillic letter is another letter
    (".git\\config", DENIED),
    ("src\\.git\\config", DENIED),
    ("\uff0e\uff47\uff49\uff54/config", DENIED),
    ("deep/er/.git/config", DENIED),
    ("node_modules", DENIED),
    ("node_modules/x/index.js", DENIED),
    ("Node_Modules/x/index.js", DENIED),
    ("NODE\uff3fMODULES/x", DENIED),
    ("deep/node_modules/y.js", DENIED),
    ("deep/node_modules./y.js", DENIED),
    ("server.pem", DENIED),
    ("server.PEM", DENIED),
    ("server.pem.", DENIED),
    ("server.key", DENIED),
    ("server.\u212aey", DENIED),  # the sign of kelvin
    ("id_rsa", DENIED),
    ("ID_RSA.pub", DENIED),
    ("id_r\u017fa", DENIED),  # a long s
    ("id_ed25519", DENIED),
    ("id_ed25519_work", DENIED),
    ("id_ed\u00b2\u2075519", DENIED),
    ("vault/x.txt", DENIED),
    ("VAULT/x.txt", DENIED),
    # links
    ("link_out", DENIED),
    ("link_folder_out", DENIED),
    ("link_folder_out/secret.txt", DENIED),
    ("link_folder_out/nothing", DENIED),
    ("link_broken_out", DENIED),
    ("link_env", DENIED),
    ("link_chain", DENIED),
    ("link_git/config", DENIED),
    ("innocent.txt", DENIED),
    (".env.shared", DENIED),
    ("link_device", DENIED),
    # nothing there
    ("nothing", MISSING),
    ("src/nothing.ts", MISSING),
    ("nothing/at/all", MISSING),
    ("src/app.ts/x", MISSING),
    ("link_broken", MISSING),
    ("link_loop", MISSING),
    ("src\\app.ts", MISSING),
    ("%2e%2e/outside/secret.txt", MISSING),
    ("\uff0e\uff0e/outside/secret.txt", MISSING),
    ("x" * 300, MISSING),
    ("x/" * 3000 + "x", MISSING),
    (" ", MISSING),
    ("$HOME/.bashrc", MISSING),
    ("src/*.ts", MISSING),
    # no file
    (".", NO_FILE),
    ("./", NO_FILE),
    ("src", NO_FILE),
    ("src/", NO_FILE),
    ("link_folder_in", NO_FILE),
    ("pipe", NO_FILE),
    ("socket", NO_FILE),
    # no text
    ("large.txt", LARGE),
    ("image.png", BINARY),
]


@pytest.mark.rule(
    "code.paths.order", "code.denied.names", "code.denied.components", "code.denied.links", "code.denied.allowed"
)
def test_each_path_has_its_verdict(root: Path) -> None:
    reader = CodeReader(root, DenyList(["vault"]))
    wrong: list[tuple[str, str, str]] = []
    for path, expected in VERDICTS:
        found = reader.read_now(path, with_dependencies=False)
        if isinstance(found, Refusal):
            assert found.path == path
            assert HIDDEN not in str(found)
            verdict = refused(found)["error"]
        else:
            assert HIDDEN not in found.text.content
            verdict = found.path
        if verdict != expected:
            wrong.append((path, expected, verdict))
    assert wrong == []
    assert len(VERDICTS) >= 80


@pytest.mark.rule("code.paths.answer")
def test_a_refusal_names_the_path_as_given_and_the_size_or_kind(root: Path) -> None:
    reader = CodeReader(root, DenyList())

    def answer(path: str) -> object:
        found = reader.read_now(path, with_dependencies=False)
        assert isinstance(found, Refusal)
        return refused(found)

    assert answer("./nothing") == {"error": MISSING, "path": "./nothing"}
    assert answer("../x") == {"error": TRAVERSAL, "path": "../x"}
    assert answer("large.txt") == {
        "error": LARGE,
        "path": "large.txt",
        "details": "1048577 bytes, the limit is 1048576",
    }
    assert answer("image.png") == {"error": BINARY, "path": "image.png", "details": "image/png"}
    invalid = [{"path": ["path"], "message": "must not contain NUL"}]
    assert answer("a\0b") == {"error": INVALID, "path": "a\0b", "details": invalid}
    assert "\ufffd" in str(answer("a\ud800"))


@pytest.mark.rule("code.denied.settings")
def test_the_settings_deny_names_anywhere_and_paths_from_the_root() -> None:
    denied = DenyList(["*.Secret", "vault/", "conf/prod", "/top/x", "a/**/b", "logs/*.[lg]og", "deep/**"])
    for path in (
        "x.secret",
        "a/x.SECRET",
        "q/vault/x",
        "conf/prod",
        "conf/prod/x",
        "CONF/prod",
        "top/x",
        "a/b",
        "a/c/d/b/e",
    ):
        assert denied.path(path), path
    for path in ("secret", "vaults/x", "x/conf/prod", "conf/production", "q/top/x", "a/c", "logs/x/y.log", "deep"):
        assert not denied.path(path), path
    assert denied.path("logs/y.log")
    assert denied.path("logs/y.gog")
    assert denied.path("deep/er")
    assert denied.component("x.secret")
    assert not denied.component("prod")


@pytest.mark.rule("code.paths.bounded")
def test_a_file_over_the_limit_is_refused_unread_and_a_pipe_does_not_block(root: Path) -> None:
    with (root / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that would not fit anywhere
    opening = FileOpener(root, DenyList())
    start = time.monotonic()
    assert isinstance(found := opening.open("huge.bin"), Refusal)
    assert found.reason is Reason.TOO_LARGE
    assert isinstance(found := opening.open("pipe"), Refusal)
    assert found.reason is Reason.NOT_A_FILE
    assert time.monotonic() - start < 5


LONG = {
    "a/" * 1_500_000: Reason.NOT_FOUND,
    "a" + "\u0301\u0327" * 300_000: Reason.NOT_FOUND,
    "./" * 1_500_000 + "src/app.ts": Reason.NOT_FOUND,
    ".git/" + "a/" * 1_500_000: Reason.DENIED,
    "a/" * 1_500_000 + "..": Reason.TRAVERSAL,
    "a/" * 1_500_000 + "\0": Reason.INVALID,
}


@pytest.mark.rule("code.paths.long")
def test_a_path_that_no_system_opens_is_refused_in_a_moment(root: Path) -> None:
    opening = FileOpener(root, DenyList())
    for path, reason in LONG.items():
        started = time.process_time()
        found = opening.open(path)
        assert isinstance(found, Refusal)
        assert (found.reason, found.path) == (reason, path)
        assert time.process_time() - started < 2


def test_a_file_that_the_system_keeps_to_itself_is_denied() -> None:
    with without_privileges() as root:
        (root / "env").write_text("kept", encoding="utf-8")
        (root / "env").chmod(0)
        assert FileOpener(root, DenyList()).open("env") == Refusal(Reason.DENIED, "env")


def test_a_root_that_is_a_link_is_as_good_as_its_folder(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    opened = FileOpener(link, DenyList()).open("link_in")
    assert isinstance(opened, OpenedFile)
    assert (opened.path, opened.real, opened.content) == ("link_in", "src/app.ts", b"fine\n")


def test_without_descriptors_of_folders_the_verdicts_are_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [path for path, _ in VERDICTS]
    opening = FileOpener(root, DenyList())
    usual = [opening.open(path) for path in paths]
    monkeypatch.setattr(directory_module, "_HAS_DIR_FD", False)
    assert [_seen(opening.open(path)) for path in paths] == [_seen(each) for each in usual]


def _seen(found: OpenedFile | Refusal) -> object:
    return found.content if isinstance(found, OpenedFile) else found


SWAPPER = """
import os, sys
root, outside = sys.argv[1:]
os.chdir(root)
print("ready", flush=True)
while True:
    # A file and a link in its place, a folder and a link in its place, a link within and a link without.
    os.symlink(outside + "/secret.txt", "new"); os.replace("new", "file.txt")
    os.symlink(".env", "new"); os.replace("new", "within")
    os.rename("folder", "kept"); os.symlink(outside, "folder")
    os.symlink(".git", "new"); os.replace("new", "folder2")
    with open("new", "w") as file: file.write("fine")
    os.replace("new", "file.txt")
    os.symlink("fine.txt", "new"); os.replace("new", "within")
    os.unlink("folder"); os.rename("kept", "folder")
    os.symlink("folder", "new"); os.replace("new", "folder2")
"""


@pytest.mark.rule("code.denied.race")
def test_five_seconds_of_swapped_links_leak_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (outside, root / "folder", root / ".git"):
        folder.mkdir(parents=True)
    for path in (outside / "secret.txt", root / ".env", root / ".git" / "secret.txt"):
        path.write_text(HIDDEN, encoding="utf-8")
    for path in (root / "folder" / "secret.txt", root / "fine.txt", root / "file.txt"):
        path.write_text("fine", encoding="utf-8")
    (root / "within").symlink_to("fine.txt")
    (root / "folder2").symlink_to("folder")
    opening = FileOpener(root, DenyList())
    seen: dict[str, int] = {}
    command = [sys.executable, "-c", SWAPPER, str(root), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            end = time.monotonic() + 5
            while time.monotonic() < end:
                for path in ("file.txt", "folder/secret.txt", "within", "folder2/secret.txt"):
                    found = opening.open(path)
                    verdict = refused(found)["error"] if isinstance(found, Refusal) else found.content.decode()
                    seen[verdict] = seen.get(verdict, 0) + 1
            assert swapper.poll() is None
        finally:
            swapper.kill()
    assert set(seen) <= {"fine", DENIED, MISSING}
    assert seen["fine"] > 100
    assert seen[DENIED] > 100
