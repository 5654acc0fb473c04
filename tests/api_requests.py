"""Requests made by schemathesis from the backend's own description, each answer held against it.

    python -m tests.api_requests PROJECT_ID ENTITY_ID TOKEN URL...

A program of its own, since schemathesis keeps what it has seen in memory, a gigabyte of it. Each request is made once
and sent to every server. Fails as soon as an answer is not what the description says, or the servers describe
themselves differently. TOKEN is empty for servers that ask for none.
"""

import sys
from typing import Any

import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import Case, GenerationMode

EXAMPLES = settings(
    max_examples=20,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

SHOWN: dict[str, str] = {}
"""Headers that every request has."""


def main(project_id: str, entity_id: str, token: str, *urls: str) -> None:
    if token:
        SHOWN["Authorization"] = f"Bearer {token}"
    schema: Any
    schema, *others = (schemathesis.openapi.from_url(f"{url}/api/openapi.json", headers=SHOWN) for url in urls)
    assert all(other.raw_schema == schema.raw_schema for other in others)
    for found in schema.get_all_operations():
        operation = found.ok()
        as_generated(operation, urls, GenerationMode.POSITIVE)
        as_generated(operation, urls, GenerationMode.NEGATIVE)
        about_what_is_there(operation, urls, project_id, entity_id)
        print(operation.label, flush=True)  # noqa: T201 - what the test reads


def as_generated(operation: Any, urls: tuple[str, ...], mode: GenerationMode) -> None:
    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case: Case) -> None:
        assume(not _is_backwards(case))
        assume(mode is GenerationMode.POSITIVE or not case.cookies)  # a cookie that is none does not arrive as one
        for url in urls:
            case.call_and_validate(base_url=url, headers=SHOWN)

    answered()


def about_what_is_there(operation: Any, urls: tuple[str, ...], project_id: str, entity_id: str) -> None:
    """Left to itself, schemathesis guesses no id that there is."""

    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def answered(case: Case) -> None:
        assume(not _is_backwards(case))
        case.headers["x-project-id"] = project_id
        case.headers.pop("x-carrel-projects", None)  # would hide it
        if "entityId" in case.path_parameters:
            case.path_parameters["entityId"] = entity_id
        for url in urls:
            response = case.call_and_validate(base_url=url, headers=SHOWN)
            assert response.status_code == 200, response.text

    answered()


def _is_backwards(case: Case) -> bool:
    """What no JSON Schema can say of two parameters: the one date must not be after the other."""
    start, end = case.query.get("dateStart"), case.query.get("dateEnd")
    return isinstance(start, str) and isinstance(end, str) and start[:10] >= end[:10]


if __name__ == "__main__":
    main(*sys.argv[1:])
