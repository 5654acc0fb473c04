"""The settings: what they can be, where they come from, and how a mistake is told."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import SettingsError
from carrel.settings import FILE_NAME, Setting, Settings, all_settings, load
from carrel.storage.database import SqliteLocation
from carrel.workspace import find_workspace
from tests.program import misused, run_carrel, run_carrel_here

ALL = list(all_settings())


PATTERNED = {
    "content.backend_url": "https://desk.example:8765/base",
    "content.default_project": "00000000-0000-4000-a000-0000000000FF",
    "embeddings.model": "some/model:latest",
    "embeddings.url": "http://127.0.0.1:8080/v1",
    "embeddings.api_key_env": "SOME_KEY",
    "limits.redis_url": "rediss://desk.example:6379/1",
    "notes.neo4j_url": "bolt+s://desk.example:7687",
    "notes.neo4j_password_env": "SOME_PASSWORD",
    "server.public_url": "https://desk.example.com",
    "database.direct_url": "postgresql://desk@direct.example/desk",
    "database.replica_url": "postgresql://desk@replica.example/desk",
    "content.backend_token_env": "SOME_TOKEN",
    "auth.issuer": "https://id.example.com",
    "auth.jwks_url": "https://id.example.com/keys",
    "auth.projects_claim": "projects",
    "notes.neo4j_database": "notes",
}


def other_value(setting: Setting) -> tuple[object, str]:
    """A value that is not the default, and the text that says it in the environment."""
    if isinstance(setting.default, bool):
        return (not setting.default, str(not setting.default))
    if isinstance(setting.default, int):
        return (setting.default + 1, str(setting.default + 1))
    if isinstance(setting.default, tuple):
        return (("a", "b c"), " a, b c,")
    text = setting.choices[-1] if setting.choices else PATTERNED.get(setting.name, "something: else, % and =x")
    return (text, text)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / FILE_NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def loaded(folder: Path, overrides: Mapping[str, Any] | None = None, /, **environment: str) -> Settings:
    return load(folder, environment, overrides or {})


def value(settings: Settings, setting: Setting) -> object:
    return asdict(settings)[setting.section.replace(".", "_")][setting.key]


# --- mistakes, told by the program


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sever]\nport = 1", ["unknown section [sever]", "did you mean [server]?"]),
        (
            "[zzz]",
            ["unknown section [zzz]", "known: [audit], [auth], [code.limits], [code], [content], [database]"],
        ),
        ("[server]\nprot = 1", ["unknown key server.prot", "did you mean server.port?"]),
        ("[server]\nurl = 'x'", ["unknown key server.url", "did you mean database.url?"]),
        ("[server]\nqqqq = 1", ["unknown key server.qqqq", "server.port", "tasks.user"]),
        ("[content]\nbackend_url = 'ftp://ana:s3cret@x'", ["content.backend_url has a value that cannot be used"]),
        ("[content]\nbackend_url = 'https://'", ["content.backend_url has a value that cannot be used"]),
        ("[content]\ndefault_project = 'reef'", ["content.default_project has a value that cannot be used"]),
        ("[server.limits]\na = 1", ["unknown key server.limits"]),
        ("port = 1", ["unknown key port, outside any section", "did you mean server.port?"]),
        ("server = 1", ["[server] must be a section, not 1"]),
        ("[[server]]\nport = 1", ["[server] must be a section"]),
        ("[server]\nport = '1'", ["server.port must be a whole number from 0 to 65535, not '1'"]),
        ("[server]\nport = 70000", ["server.port must be a whole number from 0 to 65535, not 70000"]),
        ("[server]\nport = -1", ["server.port must be a whole number", "not -1"]),
        ("[server]\nport = true", ["server.port must be a whole number", "not True"]),
        ("[server]\nport = 1.0", ["server.port must be a whole number", "not 1.0"]),
        ("[server]\nworkers = 0", ["server.workers must be a whole number from 1 to 256, not 0"]),
        ("[server]\nread_only = 'yes'", ["server.read_only must be true or false, not 'yes'"]),
        ("[server]\nread_only = 1", ["server.read_only must be true or false, not 1"]),
        ("[server]\ntoolsets = 'tasks'", ["server.toolsets must be a list of strings, not 'tasks'"]),
        ("[server]\ntoolsets = [1]", ["server.toolsets must be a list of strings, not [1]"]),
        ("[tasks]\nuser = 5", ["tasks.user must be a string, not 5"]),
        ("[database]\nurl = ''", ["database.url must not be empty"]),
        ("[server]\nlog_level = 'inof'", ["server.log_level must be one of debug, info,", "did you mean info?"]),
        ("[server", ["cannot be read as TOML", "end of"]),
        ("[tasks]\nuser = 'a'\nuser = = 'b'", ["cannot be read as TOML", "line 3"]),
        (b"[tasks]\nuser = 'caf\xe9'", ["cannot be read as TOML", "utf-8"]),
        (f"a = {'[' * 5000}", ["cannot be read as TOML"]),
        (f"[server]\nport = {'9' * 5000}", ["cannot be read as TOML"]),
    ],
)
def test_a_mistake_in_the_file_is_told_with_file_key_and_nearest_key(
    tmp_path: Path, text: str | bytes, words: list[str]
) -> None:
    path = written(tmp_path, text)
    misused(run_carrel_here("serve", cwd=tmp_path), f"carrel: {path}: ", *words)


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("CARREL_SERVER_PROT", "1", ["unknown variable CARREL_SERVER_PROT", "did you mean CARREL_SERVER_PORT?"]),
        ("CARREL_SERVER_PORT", "http", ["CARREL_SERVER_PORT must be a whole number", "not 'http'"]),
        ("CARREL_SERVER_PORT", "", ["CARREL_SERVER_PORT must be a whole number", "not ''"]),
        ("CARREL_SERVER_PORT", "9" * 5000, ["CARREL_SERVER_PORT must be a whole number"]),
        ("CARREL_SERVER_READ_ONLY", "maybe", ["CARREL_SERVER_READ_ONLY must be true or false, not 'maybe'"]),
        ("CARREL_SERVER_LOG_FORMAT", "jsn", ["CARREL_SERVER_LOG_FORMAT must be one of", "did you mean json?"]),
        ("CARREL_DATABASE_URL", "", ["CARREL_DATABASE_URL must not be empty"]),
        ("CARREL_SERVER_HOST", "", ["CARREL_SERVER_HOST must not be empty"]),
    ],
)
def test_a_mistake_in_the_environment_is_told_with_the_variable(
    tmp_path: Path, variable: str, text: str, words: list[str]
) -> None:
    misused(run_carrel_here("serve", cwd=tmp_path, **{variable: text}), "carrel: environment: ", *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], ["server.port must be a whole number from 0 to 65535, not 70000"]),
        (["--workers", "0"], ["server.workers must be a whole number from 1 to 256, not 0"]),
        (["--database", ""], ["database.url must not be empty"]),
        (["--workspace", "nowhere"], ["--workspace: there is no folder nowhere"]),
        (["--workspace", "x" * 300], ["--workspace: there is no folder"]),
        (["--workspace", FILE_NAME], [f"--workspace: there is no folder {FILE_NAME}"]),
    ],
)
def test_a_mistake_on_the_command_line_is_told_with_the_key(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    written(tmp_path, "")
    misused(run_carrel_here("serve", *arguments, cwd=tmp_path), *words)


def test_the_program_itself_tells_of_a_mistake_and_ends_with_status_2(tmp_path: Path) -> None:
    path = written(tmp_path, "[server]\nprot = 1")
    done = run_carrel("serve", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"carrel: {path}: unknown key server.prot; did you mean server.port?\n"


def test_an_unknown_setting_of_an_embedding_program_is_told_too(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"unknown key database\.ulr; did you mean database\.url\?"):
        find_workspace(tmp_path, {"database": {"ulr": "x"}}, {})
    with pytest.raises(SettingsError, match=r"unknown section \[databse\]; did you mean \[database\]\?"):
        find_workspace(tmp_path, {"databse": {}}, {})


# --- where a value comes from


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_every_setting_can_be_given_in_the_environment(tmp_path: Path, setting: Setting) -> None:
    expected, text = other_value(setting)
    assert value(loaded(tmp_path), setting) == setting.default
    assert value(loaded(tmp_path, **{setting.variable: text}), setting) == expected


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_the_environment_beats_the_file_and_the_command_line_beats_both(tmp_path: Path, setting: Setting) -> None:
    other, text = other_value(setting)
    written(tmp_path, f"[{setting.section}]\n{setting.key} = {json.dumps(other)}\n")
    default = ",".join(setting.default) if isinstance(setting.default, tuple) else str(setting.default)
    assert value(loaded(tmp_path), setting) == other
    if default:
        assert value(loaded(tmp_path, **{setting.variable: default}), setting) == setting.default
    given = {setting.section: {setting.key: setting.default}}
    assert value(loaded(tmp_path, given, **{setting.variable: text}), setting) == setting.default


def test_the_program_takes_file_then_environment_then_command_line(tmp_path: Path) -> None:
    """An unknown toolset is refused by name, which shows whose word it was."""
    written(tmp_path, '[server]\ntoolsets = ["file"]')
    misused(run_carrel_here("serve", cwd=tmp_path), "unknown toolset 'file'")
    misused(run_carrel_here("serve", cwd=tmp_path, CARREL_SERVER_TOOLSETS="variable"), "unknown toolset 'variable'")
    both = run_carrel_here("serve", "--toolsets", "option", cwd=tmp_path, CARREL_SERVER_TOOLSETS="variable")
    misused(both, "unknown toolset 'option'")


@pytest.mark.parametrize("text", ["true", "True", "1", "yes", " YES "])
def test_truth_in_the_environment_has_a_few_spellings(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, CARREL_SERVER_READ_ONLY=text).server.read_only is True


def test_an_empty_variable_is_an_empty_value_where_there_can_be_one(tmp_path: Path) -> None:
    written(tmp_path, '[server]\ntoolsets = ["tasks"]\n[tasks]\nuser = "ana"')
    settings = loaded(tmp_path, CARREL_TASKS_USER="", CARREL_SERVER_TOOLSETS="")
    assert (settings.tasks.user, settings.server.toolsets) == ("", ())


def test_other_variables_of_the_environment_are_none_of_our_business(tmp_path: Path) -> None:
    assert loaded(tmp_path, PATH="/bin", CARRELS="1", MY_CARREL_X="1") == Settings()


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    written(tmp_path, b"\xef\xbb\xbf[tasks]\nuser = 'ana'")
    assert loaded(tmp_path).tasks.user == "ana"


# --- which folder


def test_without_a_file_every_setting_has_its_default_and_the_desk_is_served(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Settings()
    done = run_carrel("serve", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / ".carrel" / "carrel.db").is_file()


def test_the_nearest_folder_upwards_with_a_file_is_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    written(tmp_path, "[tasks]\nuser = 'too far'")
    written(tmp_path / "project", "[tasks]\nuser = 'ana'")
    monkeypatch.chdir(below)
    found = find_workspace(environment={})
    assert (found.folder, found.settings.tasks.user) == (tmp_path / "project", "ana")
    (tmp_path / "project" / FILE_NAME).write_text("[oops]")
    misused(run_carrel_here("db", "check", cwd=below), f"{tmp_path / 'project' / FILE_NAME}: unknown section [oops]")


def test_a_folder_that_is_named_is_the_workspace_whatever_is_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    written(tmp_path, "[tasks]\nuser = 'outer'")
    monkeypatch.chdir(tmp_path)
    found = find_workspace(Path("inner"), environment={})
    assert (found.folder, found.settings) == (inner, Settings())
    monkeypatch.chdir("/")
    assert found.location == SqliteLocation(inner / ".carrel" / "carrel.db")


# --- carrel init


def test_init_writes_a_file_that_says_the_defaults_commented_out_or_not(tmp_path: Path) -> None:
    done = run_carrel_here("init", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert FILE_NAME in done.stderr
    text = (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    assert loaded(tmp_path) == Settings()
    for setting in ALL:
        assert f"# {setting.doc}" in text
        line = next(line for line in text.splitlines() if line.startswith(f"# {setting.key} = "))
        text = text.replace(line, line.removeprefix("# "))
    said = tomllib.loads(text)
    limits = said["code"].pop("limits")
    said["code.limits"] = limits
    assert {f"{section}.{key}" for section, keys in said.items() for key in keys} == {each.name for each in ALL}
    written(tmp_path, text)
    assert loaded(tmp_path) == Settings()


def test_init_leaves_a_file_that_is_there_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "[tasks]\nuser = 'ana'")
    misused(run_carrel_here("init", cwd=tmp_path), f"{path} already exists")
    assert path.read_text() == "[tasks]\nuser = 'ana'"


def test_init_in_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    misused(run_carrel_here("init", "--workspace", "nowhere", cwd=tmp_path), "cannot write nowhere/carrel.toml")
