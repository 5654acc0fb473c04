"""tasks.md and its rulings, over every engine, transport and protocol revision."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.wire import MODERN, Wire, call, value

BAD_USER = {"error": "Bad Request", "details": "user_id must be a non-empty string"}
BAD_ID = {"error": "Invalid task ID"}
TOOLS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
BY_ID = ["complete_task", "delete_task", "update_task"]


def ok(wire: Wire, name: str, **arguments: Any) -> Any:
    result = call(wire, name, arguments)
    assert result.get("isError") in (False, None), result
    return value(result)


def error(wire: Wire, name: str, **arguments: Any) -> Any:
    result = call(wire, name, arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    return value(result)


def add(wire: Wire, user: str, title: str = "Buy milk", **more: Any) -> int:
    return ok(wire, "add_task", user_id=user, title=title, **more)["task_id"]


def listed(wire: Wire, user: str, **more: Any) -> list[dict[str, Any]]:
    return ok(wire, "list_tasks", user_id=user, **more)


# --- what is published


def contract() -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name to description, input schema and return schema, as written in this file's own copy of the contract."""
    text = (Path(__file__).parent / "contracts" / "tasks.json").read_text(encoding="utf-8")
    return {tool["name"]: (tool["description"], tool["parameters"], tool["returns"]) for tool in json.loads(text)}


@pytest.mark.rule("tasks.tools.inventory", "tasks.tools.schema", "common.schema.exact")
def test_the_five_tools_are_published_as_the_contract_has_them(wire: Wire) -> None:
    tools = wire.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        description, parameters, _ = contract()[tool["name"]]
        assert tool["description"] == description
        assert tool["inputSchema"] == parameters
        assert list(tool["inputSchema"]["properties"]) == list(parameters["properties"])


@pytest.mark.rule("tasks.tools.output", "common.result.output_schema")
def test_return_schemas_are_published_where_clients_can_take_them(wire: Wire) -> None:
    for tool in wire.request("tools/list")["result"]["tools"]:
        returns = contract()[tool["name"]][2]
        if returns["type"] == "array" and wire.era != MODERN:
            assert "outputSchema" not in tool
        else:
            assert tool["outputSchema"] == returns


@pytest.mark.rule("common.annotations.true")
def test_the_hints_say_what_each_tool_does(wire: Wire) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in wire.request("tools/list")["result"]["tools"]}
    names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    assert {name: tuple(each[key] for key in names) for name, each in hints.items()} == {
        "add_task": (False, False, False, False),
        "list_tasks": (True, False, True, False),
        "complete_task": (False, False, True, False),
        "delete_task": (False, True, True, False),
        "update_task": (False, True, True, False),
    }


# --- how results and errors look


@pytest.mark.rule("common.result.text", "common.result.structured", "tasks.add.created")
def test_a_result_is_compact_json_with_the_same_structured_content(wire: Wire, user: str) -> None:
    result = call(wire, "add_task", {"user_id": user, "title": "Купить «молоко»"})
    (block,) = result["content"]
    number = json.loads(block["text"])["task_id"]
    assert block["text"] == f'{{"task_id":{number},"status":"created","title":"Купить «молоко»"}}'
    assert result["structuredContent"] == {"task_id": number, "status": "created", "title": "Купить «молоко»"}


@pytest.mark.rule("common.result.structured", "tasks.list.empty")
def test_an_array_is_structured_content_for_modern_clients_only(wire: Wire, user: str) -> None:
    result = call(wire, "list_tasks", {"user_id": user})
    assert result["content"] == [{"type": "text", "text": "[]"}]
    if wire.era == MODERN:
        assert result["structuredContent"] == []
    else:
        assert "structuredContent" not in result


@pytest.mark.rule("common.error.shape")
def test_an_error_is_compact_json_text_and_nothing_else(wire: Wire, user: str) -> None:
    result = call(wire, "complete_task", {"user_id": user, "task_id": 123456789})
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": '{"error":"Task not found","task_id":123456789}'}]
    assert "structuredContent" not in result


@pytest.mark.rule("common.error.unknown_tool")
def test_an_unknown_tool_is_a_protocol_error(wire: Wire) -> None:
    response = wire.request("tools/call", {"name": "drop_task", "arguments": {}})
    assert response["error"]["code"] == -32602
    assert "result" not in response


@pytest.mark.rule("common.error.malformed")
@pytest.mark.parametrize(
    "params", [{"name": 5, "arguments": {}}, {"arguments": {}}, {"name": "add_task", "arguments": [1]}]
)
def test_malformed_parameters_are_a_protocol_error_and_the_next_call_works(
    wire: Wire, user: str, params: dict[str, Any]
) -> None:
    assert wire.request("tools/call", params)["error"]["code"] in (-32602, -32020)
    assert listed(wire, user) == []


@pytest.mark.rule("common.schema.extra")
def test_an_argument_that_the_contract_does_not_know_is_ignored(wire: Wire, user: str) -> None:
    number = add(wire, user, priority="high")
    assert listed(wire, user) == [{"id": number, "title": "Buy milk", "description": None, "completed": False}]


# --- users


@pytest.mark.rule("tasks.user.missing")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "given", [{}, {"user_id": ""}, {"user_id": None}, {"user_id": 5}, {"user_id": ["a"]}, {"user_id": "a\0b"}]
)
def test_a_call_without_a_proper_user_is_a_bad_request(wire: Wire, tool: str, given: dict[str, Any]) -> None:
    assert error(wire, tool, **given) == BAD_USER
    assert error(wire, tool, task_id=1, title="x", **given) == BAD_USER


@pytest.mark.rule("tasks.user.missing")
def test_a_user_of_any_length_is_answered_alike_on_every_engine(wire: Wire, user: str) -> None:
    longest = (user + "é" * 500)[:500]
    number = add(wire, longest)
    assert [task["id"] for task in listed(wire, longest)] == [number]
    too_long = {"error": "Bad Request", "details": "user_id must be 500 characters or less"}
    assert error(wire, "add_task", user_id=longest + "x", title="x") == too_long
    assert error(wire, "list_tasks", user_id="x" * 100_000) == too_long


@pytest.mark.rule("tasks.user.isolation")
@pytest.mark.parametrize(
    ("tool", "more"), [("complete_task", {}), ("delete_task", {}), ("update_task", {"title": "mine"})]
)
def test_another_users_task_is_answered_as_one_that_does_not_exist(
    wire: Wire, user: str, tool: str, more: dict[str, str]
) -> None:
    number = add(wire, user)
    theirs = call(wire, tool, {"user_id": f"{user}-other", "task_id": number, **more})
    nobodys = call(wire, tool, {"user_id": f"{user}-other", "task_id": 987654321, **more})
    assert json.dumps(theirs["content"]).replace(str(number), "987654321") == json.dumps(nobodys["content"])
    assert theirs["isError"] is nobodys["isError"] is True
    assert listed(wire, f"{user}-other") == []
    assert listed(wire, user) == [{"id": number, "title": "Buy milk", "description": None, "completed": False}]


# --- titles and descriptions


@pytest.mark.rule("tasks.title.stripped")
def test_white_space_around_a_title_is_dropped_before_anything_else(wire: Wire, user: str) -> None:
    answer = ok(wire, "add_task", user_id=user, title=" \t\u3000Call Ana\u00a0\n")
    assert answer["title"] == "Call Ana"
    padded = " " * 150 + "x" * 200 + " " * 150
    assert ok(wire, "update_task", user_id=user, task_id=answer["task_id"], title=padded)["title"] == "x" * 200
    assert listed(wire, user)[0]["title"] == "x" * 200


@pytest.mark.rule("tasks.title.required")
@pytest.mark.parametrize("given", [{}, {"title": None}, {"title": ""}, {"title": " \u2003\n"}])
def test_a_task_needs_a_title(wire: Wire, user: str, given: dict[str, Any]) -> None:
    assert error(wire, "add_task", user_id=user, **given) == {"error": "Title is required"}
    assert listed(wire, user) == []


@pytest.mark.rule("tasks.title.required")
@pytest.mark.parametrize("title", ["", "  "])
def test_a_title_cannot_be_updated_away(wire: Wire, user: str, title: str) -> None:
    number = add(wire, user)
    answer = error(wire, "update_task", user_id=user, task_id=number, title=title, description="new")
    assert answer == {"error": "Title is required"}
    assert listed(wire, user) == [{"id": number, "title": "Buy milk", "description": None, "completed": False}]


@pytest.mark.rule("tasks.title.long", "common.values.code_points")
@pytest.mark.parametrize("letter", ["x", "é", "😀", "e\u0301"])
def test_a_title_has_up_to_200_code_points(wire: Wire, user: str, letter: str) -> None:
    longest = (letter * 200)[:200]
    number = add(wire, user, longest)
    assert listed(wire, user)[0]["title"] == longest
    too_long = {"error": "Title must be 200 characters or less"}
    assert error(wire, "add_task", user_id=user, title=longest + "x") == too_long
    assert error(wire, "update_task", user_id=user, task_id=number, title=longest + "x") == too_long


@pytest.mark.rule("tasks.description.long")
def test_a_description_has_up_to_1000_code_points(wire: Wire, user: str) -> None:
    longest = "😀" * 1000
    number = add(wire, user, description=longest)
    assert listed(wire, user)[0]["description"] == longest
    too_long = {"error": "Description must be 1000 characters or less"}
    assert error(wire, "add_task", user_id=user, title="x", description=longest + "x") == too_long
    assert error(wire, "update_task", user_id=user, task_id=number, description=longest + "x") == too_long


@pytest.mark.rule("tasks.add.description", "tasks.description.null")
def test_a_description_is_kept_and_null_counts_as_not_given(wire: Wire, user: str) -> None:
    add(wire, user, description=" as it is \n")
    add(wire, user, description=None)
    add(wire, user)
    assert [task["description"] for task in listed(wire, user)] == [" as it is \n", None, None]


@pytest.mark.rule("tasks.description.cleared")
def test_an_empty_description_clears_it(wire: Wire, user: str) -> None:
    number = add(wire, user, description="2 litres")
    ok(wire, "update_task", user_id=user, task_id=number, description="")
    assert listed(wire, user)[0]["description"] is None


@pytest.mark.rule("common.values.never_coerced")
@pytest.mark.parametrize(
    ("field", "bad"), [("title", 5), ("title", ["x"]), ("description", 5), ("description", {"a": 1})]
)
def test_a_value_of_another_type_is_refused_not_converted(wire: Wire, user: str, field: str, bad: Any) -> None:
    arguments = {"user_id": user, "title": "x", field: bad}
    expected = {"error": "Bad Request", "details": f"{field} must be a string"}
    assert error(wire, "add_task", **arguments) == expected
    assert error(wire, "update_task", task_id=1, **arguments) == expected
    assert listed(wire, user) == []


@pytest.mark.rule("common.error.no_leak")
@pytest.mark.parametrize("field", ["title", "description"])
def test_nul_is_refused_alike_on_every_engine(wire: Wire, user: str, field: str) -> None:
    answer = error(wire, "add_task", **{"user_id": user, "title": "x", field: "a\0b"})
    assert answer == {"error": f"{field.capitalize()} must not contain NUL or unpaired surrogates"}
    assert listed(wire, user) == []


# --- listing


@pytest.mark.rule("tasks.list.order")
def test_tasks_are_listed_in_order_of_id(wire: Wire, user: str) -> None:
    numbers = [add(wire, user, title) for title in ("b", "a", "c")]
    assert numbers == sorted(numbers)
    ok(wire, "update_task", user_id=user, task_id=numbers[0], title="z")
    ok(wire, "complete_task", user_id=user, task_id=numbers[1])
    tasks = listed(wire, user)
    assert [task["id"] for task in tasks] == numbers
    assert [list(task) for task in tasks] == [["id", "title", "description", "completed"]] * 3
    assert [task["completed"] for task in tasks] == [False, True, False]


@pytest.mark.rule("tasks.list.status")
def test_the_status_filters(wire: Wire, user: str) -> None:
    pending, done = add(wire, user, "pending"), add(wire, user, "done")
    ok(wire, "complete_task", user_id=user, task_id=done)
    found = {
        status: [task["id"] for task in listed(wire, user, status=status)] for status in ("all", "pending", "completed")
    }
    assert found == {"all": [pending, done], "pending": [pending], "completed": [done]}
    assert [task["id"] for task in listed(wire, user)] == [pending, done]


@pytest.mark.rule("tasks.list.unknown")
@pytest.mark.parametrize("status", ["done", "All", "", 5, None, ["all"]])
def test_an_unknown_status_is_invalid(wire: Wire, user: str, status: Any) -> None:
    assert error(wire, "list_tasks", user_id=user, status=status) == {
        "error": "Invalid status",
        "details": "status must be one of all, pending, completed",
    }


# --- ids


@pytest.mark.rule("tasks.task_id.invalid", "common.values.never_coerced")
@pytest.mark.parametrize("tool", BY_ID)
@pytest.mark.parametrize("given", [{}, *({"task_id": bad} for bad in (0, -1, "1", "", 1.5, True, None, [1], -(2**70)))])
def test_a_task_id_is_a_positive_integer(wire: Wire, user: str, tool: str, given: dict[str, Any]) -> None:
    assert error(wire, tool, user_id=user, **given) == BAD_ID
    assert error(wire, tool, user_id=user, title="", **given) == BAD_ID


@pytest.mark.rule("tasks.task_id.float")
def test_a_float_without_fraction_is_an_integer(wire: Wire, user: str) -> None:
    number = add(wire, user)
    result = call(wire, "complete_task", {"user_id": user, "task_id": float(number)})
    assert result["content"][0]["text"] == f'{{"task_id":{number},"status":"completed","title":"Buy milk"}}'


@pytest.mark.rule("tasks.task_id.huge")
@pytest.mark.parametrize("number", [2**31, 2**63 - 1, 2**63, 2**64, 10**30])
@pytest.mark.parametrize("tool", BY_ID)
def test_an_integer_beyond_any_id_is_not_found(wire: Wire, user: str, tool: str, number: int) -> None:
    assert error(wire, tool, user_id=user, task_id=number, title="x") == {
        "error": "Task not found",
        "task_id": number,
    }


@pytest.mark.rule("tasks.task_id.never_reused")
def test_the_id_of_a_deleted_task_is_never_given_out_again(wire: Wire, user: str) -> None:
    first = add(wire, user)
    ok(wire, "delete_task", user_id=user, task_id=first)
    assert add(wire, user) > first


# --- completing, deleting, updating


@pytest.mark.rule("tasks.complete.completed")
def test_a_task_is_completed(wire: Wire, user: str) -> None:
    number = add(wire, user, description="d")
    answer = ok(wire, "complete_task", user_id=user, task_id=number)
    assert list(answer.items()) == [("task_id", number), ("status", "completed"), ("title", "Buy milk")]
    assert listed(wire, user) == [{"id": number, "title": "Buy milk", "description": "d", "completed": True}]


@pytest.mark.rule("tasks.complete.again")
def test_completing_again_succeeds_and_changes_nothing(wire: Wire, user: str) -> None:
    number = add(wire, user)
    first = ok(wire, "complete_task", user_id=user, task_id=number)
    before = listed(wire, user)
    assert ok(wire, "complete_task", user_id=user, task_id=number) == first
    assert listed(wire, user) == before


@pytest.mark.rule("tasks.delete.deleted")
def test_a_task_is_deleted(wire: Wire, user: str) -> None:
    number, kept = add(wire, user, "gone"), add(wire, user, "kept")
    answer = ok(wire, "delete_task", user_id=user, task_id=number)
    assert list(answer.items()) == [("task_id", number), ("status", "deleted"), ("title", "gone")]
    assert [task["id"] for task in listed(wire, user)] == [kept]


@pytest.mark.rule("tasks.update.updated", "tasks.update.partial")
def test_an_update_changes_only_what_is_given(wire: Wire, user: str) -> None:
    number = add(wire, user, "one", description="first")
    answer = ok(wire, "update_task", user_id=user, task_id=number, title="two")
    assert list(answer.items()) == [("task_id", number), ("status", "updated"), ("title", "two")]
    assert listed(wire, user) == [{"id": number, "title": "two", "description": "first", "completed": False}]
    answer = ok(wire, "update_task", user_id=user, task_id=number, title=None, description="second")
    assert answer["title"] == "two"
    assert listed(wire, user) == [{"id": number, "title": "two", "description": "second", "completed": False}]
    ok(wire, "update_task", user_id=user, task_id=number, title="three", description="third")
    assert listed(wire, user) == [{"id": number, "title": "three", "description": "third", "completed": False}]


@pytest.mark.rule("tasks.update.nothing")
@pytest.mark.parametrize("given", [{}, {"title": None}, {"description": None}, {"title": None, "description": None}])
def test_an_update_needs_something_to_update(wire: Wire, user: str, given: dict[str, Any]) -> None:
    number = add(wire, user)
    expected = {"error": "At least title or description required"}
    assert error(wire, "update_task", user_id=user, task_id=number, **given) == expected
    assert error(wire, "update_task", user_id=user, task_id=987654321, **given) == expected


@pytest.mark.rule("tasks.complete.missing", "tasks.delete.missing", "tasks.update.missing")
@pytest.mark.parametrize("tool", BY_ID)
def test_a_task_that_is_gone_is_not_found(wire: Wire, user: str, tool: str) -> None:
    number = add(wire, user)
    ok(wire, "delete_task", user_id=user, task_id=number)
    assert error(wire, tool, user_id=user, task_id=number, title="x") == {
        "error": "Task not found",
        "task_id": number,
    }


@pytest.mark.rule("common.error.no_leak")
@pytest.mark.parametrize(
    "text", ["'; DROP TABLE task; --", '"', "\\", "%s %(x)s :user_id", "${x}", "\u2028\ufeff\u202e"]
)
def test_sql_and_odd_characters_are_ordinary_text(wire: Wire, user: str, text: str) -> None:
    number = add(wire, user, "x" + text + "x", description=text)
    assert listed(wire, user) == [{"id": number, "title": "x" + text + "x", "description": text, "completed": False}]
    assert listed(wire, text + user) == []


def test_the_contract_copy_is_the_contract() -> None:
    """Where the contracts lie beside the repository, the copy that the tests use must still be theirs."""
    source = Path(__file__).parents[2] / "shared" / "contracts" / "tasks.md"
    if not source.exists():
        return
    blocks = [
        json.loads(block) for block in re.findall(r"```json\n(\{.*?)```", source.read_text(encoding="utf-8"), re.DOTALL)
    ]
    published = [block for block in blocks if "parameters" in block]
    assert {block["name"]: (block["description"], block["parameters"]) for block in published} == {
        name: (description, parameters) for name, (description, parameters, _) in contract().items()
    }
