"""Random calls against a model: any argument of any type, and any interleaving of users and server processes."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.conftest import ENGINES, Servers
from tests.wire import ERAS, MODERN, Wire, call, value

# --- validation

TEXT = st.text(max_size=5) | st.sampled_from(["", " ", "x" * 200, "x" * 201, " " * 300, "é" * 1001, "\0", "a\u2028b"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
IDS = st.integers(-2, 3) | st.floats(-2, 3) | st.sampled_from([1.0, 10**25]) | ANYTHING
STATUSES = st.sampled_from(["all", "pending", "completed", "done"]) | ANYTHING


def arguments(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={**fields, "other": ANYTHING})


CALLS = st.one_of(
    st.tuples(st.just("add_task"), arguments(title=TEXT | ANYTHING, description=TEXT | ANYTHING)),
    st.tuples(st.just("list_tasks"), arguments(status=STATUSES)),
    st.tuples(st.just("complete_task"), arguments(task_id=IDS)),
    st.tuples(st.just("delete_task"), arguments(task_id=IDS)),
    st.tuples(st.just("update_task"), arguments(task_id=IDS, title=TEXT | ANYTHING, description=TEXT | ANYTHING)),
)


def expected(tool: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The contract read aloud: the error that a user without tasks gets, None for a success."""
    if "task_id" in given or tool in ("complete_task", "delete_task", "update_task"):
        number = given.get("task_id")
        if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number) or number < 1:
            return {"error": "Invalid task ID"}
    if tool == "list_tasks":
        if given.get("status", "all") in ("all", "pending", "completed"):
            return None
        return {"error": "Invalid status", "details": "status must be one of all, pending, completed"}
    if tool in ("add_task", "update_task"):
        problem = _text_problem("title", given) or _text_problem("description", given)
        if problem is not None:
            return problem
        if tool == "add_task":
            return None if given.get("title") is not None else {"error": "Title is required"}
        if given.get("title") is None and given.get("description") is None:
            return {"error": "At least title or description required"}
    return {"error": "Task not found", "task_id": int(given["task_id"])}


def _text_problem(field: str, given: dict[str, Any]) -> dict[str, Any] | None:
    text, limit, name = given.get(field), {"title": 200, "description": 1000}[field], field.capitalize()
    if text is None:
        return None
    if not isinstance(text, str):
        return {"error": "Bad Request", "details": f"{field} must be a string"}
    text = text.strip() if field == "title" else text
    if field == "title" and not text:
        return {"error": "Title is required"}
    if len(text) > limit:
        return {"error": f"{name} must be {limit} characters or less"}
    return {"error": f"{name} must not contain NUL or unpaired surrogates"} if "\0" in text else None


def precedence(tool: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """As `expected`, where an add lacks its title and something else is wrong too: the title comes first."""
    if tool == "add_task" and given.get("title") is None:
        return {"error": "Title is required"}
    title = _text_problem("title", given) if tool in ("add_task", "update_task") else None
    if title is not None and "NUL" in title["error"]:  # found by the domain, after the schema has had its say
        later = _text_problem("description", given)
        if later is not None and "NUL" not in later["error"] and expected(tool, {**given, "title": "x"}) == later:
            return later
    return expected(tool, given)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.rule("common.error.shape")
def test_any_argument_of_any_type_gets_the_contracts_answer(servers: Servers, engine: str, user: str) -> None:
    wire = servers.wire(engine, "stdio", MODERN)

    @settings(max_examples=300)
    @given(CALLS)
    def run(generated: tuple[str, dict[str, Any]]) -> None:
        tool, arguments = generated
        result = call(wire, tool, {"user_id": f"{user}-nobody" if tool != "add_task" else user, **arguments})
        error = precedence(tool, arguments)
        assert result["isError"] is (error is not None)
        if error is not None:
            assert value(result) == error

    run()


# --- sequences


@dataclass
class Kept:
    title: str
    description: str | None
    completed: bool = False


TITLES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    str.strip
)


class Desk(RuleBasedStateMachine):
    """Three users, four server processes over one database, one model."""

    wires: list[Wire]
    prefix: str
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        Desk.runs += 1
        self.users = [f"{self.prefix}-{Desk.runs}-{name}" for name in ("ana", "ben", "eve")]
        self.model: dict[str, dict[int, Kept]] = {user: {} for user in self.users}
        self.highest = 0

    def call(self, wire: int, tool: str, **arguments: Any) -> tuple[bool, Any]:
        result = call(self.wires[wire % len(self.wires)], tool, arguments)
        return bool(result["isError"]), value(result)

    def someones(self, pick: int) -> int:
        """An id that exists for one of the users, or, if there is none, for nobody."""
        numbers = sorted(number for tasks in self.model.values() for number in tasks)
        return numbers[pick % len(numbers)] if numbers else 999_999_999

    who = st.integers(0, 2)
    where = st.integers(0, 3)
    which = st.integers(0, 50)

    @rule(who=who, where=where, title=TITLES, description=st.none() | TITLES)
    def add(self, who: int, where: int, title: str, description: str | None) -> None:
        failed, answer = self.call(where, "add_task", user_id=self.users[who], title=title, description=description)
        assert not failed
        assert answer["task_id"] > self.highest
        self.highest = answer["task_id"]
        self.model[self.users[who]][self.highest] = Kept(title.strip(), description)

    @rule(who=who, where=where, which=which)
    def complete(self, who: int, where: int, which: int) -> None:
        task = self.changed(who, where, which, "complete_task")
        if task is not None:
            task.completed = True

    @rule(who=who, where=where, which=which)
    def delete(self, who: int, where: int, which: int) -> None:
        number = self.someones(which)
        if self.changed(who, where, which, "delete_task") is not None:
            del self.model[self.users[who]][number]

    @rule(who=who, where=where, which=which, title=TITLES)
    def retitle(self, who: int, where: int, which: int, title: str) -> None:
        task = self.changed(who, where, which, "update_task", title=title)
        if task is not None:
            task.title = title.strip()

    @rule(who=who, where=where, which=which, description=TITLES | st.just(""))
    def describe(self, who: int, where: int, which: int, description: str) -> None:
        task = self.changed(who, where, which, "update_task", description=description)
        if task is not None:
            task.description = description or None

    def changed(self, who: int, where: int, which: int, tool: str, **more: str) -> Kept | None:
        number = self.someones(which)
        failed, answer = self.call(where, tool, user_id=self.users[who], task_id=number, **more)
        mine = self.model[self.users[who]].get(number)
        assert failed is (mine is None)
        if mine is None:
            assert answer == {"error": "Task not found", "task_id": number}
        return mine

    @invariant()
    def lists_agree(self) -> None:
        for place, user in enumerate(self.users):
            for status in ("all", "pending", "completed"):
                _, tasks = self.call(place, "list_tasks", user_id=user, status=status)
                assert tasks == [
                    {
                        "id": number,
                        "title": task.title,
                        "description": task.description,
                        "completed": task.completed,
                    }
                    for number, task in sorted(self.model[user].items())
                    if status == "all" or task.completed is (status == "completed")
                ], json.dumps(tasks)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.rule("tasks.user.isolation", "tasks.task_id.never_reused")
def test_any_sequence_of_operations_agrees_with_the_model(servers: Servers, engine: str, user: str) -> None:
    class OnEngine(Desk):  # hypothesis makes the instances, so what they need is on the class
        wires = [servers.wire(engine, transport, era) for transport in ("stdio", "http") for era in ERAS]  # noqa: RUF012 - made anew for each
        prefix = f"{user}-{engine}"

    run_state_machine_as_test(OnEngine, settings=settings(max_examples=12, stateful_step_count=25, deadline=None))
