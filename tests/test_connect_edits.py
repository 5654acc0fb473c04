"""Clients' configuration files are changed in one place, and can be changed back."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import json5
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from carrel.client_config.clients import CLIENTS, Address, Client, Program
from carrel.client_config.config_file import ConfigFile, connect, disconnect
from carrel.errors import CarrelError

SAMPLES = sorted(path for path in (Path(__file__).parent / "clients").glob("*/*.*"))
PROGRAM = Program("/opt/ünï/bin/carrel", ("serve", "--workspace", 'C:\\a "b"\\c'))
ADDRESS = Address("https://desk.example.com/mcp")
CODE, CODEX = CLIENTS["claude-code"], CLIENTS["codex"]

samples = pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")


def independently(client: Client, data: bytes | None) -> dict[str, Any]:
    """What a file says, by a parser that is not ours."""
    text = (data or b"").decode("utf-8-sig")
    return tomllib.loads(text) if client.is_toml else json5.loads(text) if text.strip() else {}


def adding(client: Client, server: Program | Address = PROGRAM, name: str = "carrel") -> Callable[[str], str]:
    return lambda text: connect(text, client, name, client.entry(server))


def removing(client: Client, name: str = "carrel") -> Callable[[str], str]:
    return lambda text: disconnect(text, client, name)


@pytest.mark.rule("connect.edits.kept", "connect.edits.undone", "connect.edits.again")
@samples
def test_a_real_file_gets_one_entry_and_is_itself_again_without_it(path: Path) -> None:
    client = CLIENTS[path.parent.name]
    old = ConfigFile.read(path)
    before = independently(client, old.data)
    new = old.edited(adding(client))
    after = independently(client, new.data)
    assert after[client.key].pop("carrel") == client.entry(PROGRAM)
    assert (before.setdefault(client.key, {}), before) == (after[client.key], after)
    assert [*before] == [*after]
    lines = (old.data or b"").splitlines()
    added = [line for line in (new.data or b"").splitlines() if line not in lines]
    if b"\n" in (old.data or b"").strip():
        assert len(added) <= 8, added  # the entry's five, two around it, and one that got a comma
    assert (new.data or b"").count(b"\r\n") == ((new.data or b"").count(b"\n") if b"\r\n" in (old.data or b"") else 0)
    assert new.edited(adding(client)) == new
    assert new.edited(removing(client)).data == old.data


@pytest.mark.rule("connect.edits.undone")
@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
@pytest.mark.parametrize("data", [None, b"", b"\n", b"  \n\n", b"\xef\xbb\xbf"])
def test_no_file_and_an_empty_one_come_back_as_they_were(client: Client, data: bytes | None, tmp_path: Path) -> None:
    if client.is_toml and data == b"  \n\n":
        data = b"\n\n"
    old = ConfigFile(tmp_path / "x", data)
    new = old.edited(adding(client))
    assert independently(client, new.data) == {client.key: {"carrel": client.entry(PROGRAM)}}
    assert new.edited(removing(client)).data == data


@pytest.mark.rule("connect.edits.undone")
@samples
def test_removing_takes_nothing_else_where_more_was_added_since(path: Path) -> None:
    client = CLIENTS[path.parent.name]
    old = ConfigFile.read(path)
    later = old.edited(adding(client)).edited(adding(client, ADDRESS if not client.programs_only else PROGRAM, "later"))
    assert later.edited(removing(client, "later")).edited(removing(client)).data == old.data
    left = independently(client, later.edited(removing(client)).data)
    assert [*left[client.key]][-1] == "later"
    assert "carrel" not in left[client.key]
    none = independently(client, later.edited(removing(client)).edited(removing(client, "later")).data)
    assert {client.key: {}, **none} == {client.key: {}, **independently(client, old.data)}


TRIVIA = st.sampled_from(["", "", " ", "\n", "\n  ", "\n\t", " // } c\n", "/* { */", "/*\n*/", "\r\n", " //\r\n    "])
KEYS = st.sampled_from(["a", "b", "mcpServers", 'q"\\', "ü"])


@st.composite
def documents(draw: st.DrawFn, depth: int = 0) -> str:
    """Any object, written in any way."""
    text = draw(TRIVIA) + "{" + draw(TRIVIA)
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    for number, key in enumerate(keys):
        if depth < 2 and (key == "mcpServers" or draw(st.booleans())):
            value = draw(documents(depth + 1))
        else:
            value = draw(st.sampled_from(["1", "-2.5e3", "null", '"x, }"', "[1, {}, ]", "[ // ]\n]"]))
        is_last = number == len(keys) - 1
        comma = "," if not is_last or draw(st.booleans()) else ""
        text += '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"' + draw(TRIVIA) + ":" + draw(TRIVIA)
        text += value + draw(TRIVIA) + comma + draw(TRIVIA)
    return text + "}" + draw(TRIVIA)


@pytest.mark.rule("connect.edits.kept", "connect.edits.undone")
@given(documents())
def test_any_json_is_itself_again(text: str) -> None:
    new = adding(CODE)(text)
    expected = json5.loads(text)
    expected.setdefault("mcpServers", {})["carrel"] = CODE.entry(PROGRAM)
    assert json5.loads(new) == expected
    assert removing(CODE)(new) == text


STATEMENTS = st.sampled_from(
    [
        "",
        "# [mcp_servers.carrel]",
        "[a{n}] # ]",
        "[[l]]",
        "[mcp_servers.o{n}]",
        '[mcp_servers."o {n}".env]',
        'k{n} = "# \\" ]"',
        "k{n} = '''\n[mcp_servers.carrel]\n'''",
        'k{n} = """\n\\"""\n[x"""',
        "k{n}.'s p' = [ # [\n 1, { a = ']' },\n]",
        "  k{n} = 1979-05-27 07:32:00 # c",
    ]
)


@pytest.mark.rule("connect.edits.kept", "connect.edits.undone")
@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_toml_is_itself_again(statements: list[str], newline: str, ends: bool) -> None:
    text = "\n".join(each.replace("{n}", str(number)) for number, each in enumerate(statements))
    text = (text + ("\n" if ends else "")).replace("\n", newline)
    new = adding(CODEX)(text)
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["carrel"] = CODEX.entry(PROGRAM)
    assert tomllib.loads(new) == expected
    assert removing(CODEX)(new) == text


@pytest.mark.rule("connect.edits.undone")
@pytest.mark.parametrize("text", ["a = 1\n", "a = 1", "[a]\nb = 1\n", "[mcp_servers.o]\nb = 1\n", "[a]\r\nb = 1\r\n"])
def test_tomlkit_alone_leaves_more_than_there_was(text: str) -> None:
    """Why TOML is edited by code of ours. Where this fails, tomlkit has learned what `toml_edits` is for."""
    with_entry = tomlkit.parse(text)
    with_entry.setdefault(CODEX.key, tomlkit.table(is_super_table=True))["carrel"] = CODEX.entry(PROGRAM)
    without = tomlkit.parse(tomlkit.dumps(with_entry))
    del without[CODEX.key]["carrel"]  # pyright: ignore[reportIndexIssue, reportUnknownMemberType] - it is a table
    if not without[CODEX.key]:
        del without[CODEX.key]
    assert tomlkit.dumps(without) != text
    assert removing(CODEX)(adding(CODEX)(text)) == text


# --- an entry that is there


OWN_JSON = """{
  "mcpServers": {
    // ours
    "carrel": {
      "env": { "A": "1" }, // mine
      "type": "http",
      "url": "https://old.example.com/mcp", // old
      "headers": { "X-Team": "a", "Authorization": "Bearer ${OLD}" },
      "timeout": 5
    },
    "other": {}
  }
}
"""


@pytest.mark.rule("connect.edits.again")
def test_an_entry_is_brought_up_to_date_and_what_the_user_put_in_it_stays() -> None:
    token = adding(CODE, Address("https://new.example.com/mcp", "NEW"))(OWN_JSON)
    assert token == OWN_JSON.replace("old.", "new.").replace("{OLD}", "{NEW}")
    without = json5.loads(adding(CODE, ADDRESS)(OWN_JSON))["mcpServers"]["carrel"]
    assert without["headers"] == {"X-Team": "a"}
    program = adding(CODE)(OWN_JSON)
    entry = json5.loads(program)["mcpServers"]["carrel"]
    assert entry == {"env": {"A": "1"}, "timeout": 5, **CODE.entry(PROGRAM)}
    assert "// ours" in program
    assert "// mine" in program
    assert adding(CODE)(program) == program


@pytest.mark.rule("connect.edits.again")
def test_a_table_is_brought_up_to_date_and_what_the_user_put_in_it_stays() -> None:
    own = (
        '[mcp_servers . "carrel"] # ours\ncommand = "old" # c\nargs = [\n  "x", # y\n]\nstartup_timeout_sec = 3\n'
        '[mcp_servers.carrel.env]\nA = "1"\n\n# about z\n[z]\nq = 1'
    )
    new = adding(CODEX)(own)
    assert tomllib.loads(new)["mcp_servers"]["carrel"] == {
        **CODEX.entry(PROGRAM),
        "startup_timeout_sec": 3,
        "env": {"A": "1"},
    }
    assert "# ours" in new
    assert '" # c\n' in new
    to_url = tomllib.loads(adding(CODEX, Address("https://x.example.com", "T"))(own))["mcp_servers"]["carrel"]
    assert to_url == {
        "url": "https://x.example.com",
        "bearer_token_env_var": "T",
        "startup_timeout_sec": 3,
        "env": {"A": "1"},
    }
    gone = removing(CODEX)(new)
    assert tomllib.loads(gone) == {"z": {"q": 1}}
    assert "# about z" in gone


# --- what cannot be read


@pytest.mark.rule("connect.edits.broken")
@pytest.mark.parametrize(
    ("client", "data", "place"),
    [
        (CODE, b'{\n  "mcpServers": {,}\n}', ":2:18: expected a name in double quotes"),
        (CODE, b'{"a": 1 "b": 2}', ":1:9: expected ',' or '}'"),
        (CODE, b'{"a": [1 2]}', ":1:10: expected ',' or ']'"),
        (CODE, b'{"a" 1}', ":1:6: expected ':'"),
        (CODE, b'{"a": 01}', ":1:7: expected a value"),
        (CODE, b'{"a": nul}', ":1:7: expected a value"),
        (CODE, b'{"a": "b\nc"}', ":1:7: this string is not closed"),
        (CODE, b'{"a": "\\x"}', ":1:7: this string is not closed"),
        (CODE, b"{", ":1:2: expected a name in double quotes"),
        (CODE, b"{} {}", ":1:4: unexpected text after"),
        (CODE, b"{ /* }", ":1:3: this comment is not closed"),
        (CODE, b"[]", ":1:1: expected an object"),
        (CODE, b'{"mcpServers": null}', ':1:16: "mcpServers" is not an object'),
        (CODE, b'{"mcpServers": []}', ':1:16: "mcpServers" is not an object'),
        (CODE, b"[" * 9999, "nested deeper than 200"),
        (CODE, b'{"a": "\xff"}', "is not UTF-8 (byte 8)"),
        (CODE, "{}".encode("utf-16"), "is not UTF-8 (byte 1)"),
        (CODEX, b'model = "x"\nbroken\n', ":2:7: Expected '='"),
        (CODEX, b"a = ", ":1:5: Invalid value"),
        (CODEX, b"mcp_servers = { a = { url = 'x' } }\n", "that Carrel cannot edit"),
        (CODEX, b"mcp_servers = 1\n", "that Carrel cannot edit"),
        (CODEX, b"[mcp_servers]\ncarrel = { command = 'x' }\n", ":1:1: mcp_servers.carrel is not written as a table"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(client: Client, data: bytes, place: str, tmp_path: Path) -> None:
    with pytest.raises(CarrelError) as caught:
        ConfigFile(tmp_path / "config", data).edited(adding(client))
    assert place in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value)
    assert "not changed" in str(caught.value)
