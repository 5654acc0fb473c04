"""What a model has to read before it can use the desk: every byte of it is paid for in every conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

TOOLSETS = Path(__file__).parents[1] / "src" / "carrel" / "toolsets"
DEFAULT = ("bridge", "notes", "tasks", "code")
MOST_BYTES = 14_000
MOST_BYTES_OF_ONE = 5_000


def seen_by_a_model(toolset: str) -> list[bytes]:
    """Each tool as a client hands it on: name, description and input schema, without a blank."""
    found: list[bytes] = []
    for path in sorted((TOOLSETS / toolset / "tools").glob("*.json")):
        tool: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        seen = {key: tool[key] for key in ("name", "description", "inputSchema")}
        found.append(json.dumps(seen, ensure_ascii=False, separators=(",", ":")).encode())
    return found


@pytest.mark.rule("common.definitions.small")
@pytest.mark.parametrize("toolset", ["catalog", *DEFAULT, "journal"])
def test_a_toolset_is_read_in_5_kilobytes(toolset: str) -> None:
    assert sum(map(len, seen_by_a_model(toolset))) <= MOST_BYTES_OF_ONE


@pytest.mark.rule("common.definitions.small")
def test_the_default_desk_is_read_in_14_kilobytes() -> None:
    tools = [tool for toolset in DEFAULT for tool in seen_by_a_model(toolset)]
    assert len(tools) == 24
    assert sum(map(len, tools)) <= MOST_BYTES
