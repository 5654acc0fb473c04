"""The backend's OpenAPI description is true: schemathesis makes requests from it and holds the answers against it."""

from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import assume, given, settings
from schemathesis import Case, GenerationMode

from tests.content_seed import GAMMA, ROOT
from tests.content_servers import ENGINES, ContentServers

pytest_plugins = ["tests.content_fixtures"]

OPERATIONS = [
    "/api/projects",
    "/api/entities",
    "/api/entities/{entityId}",
    "/api/entities/{entityId}/graph",
    "/api/seo/search-performance",
    "/api/quotable-blocks",
]


@cache
def described(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/api/openapi.json")


@pytest.mark.rule("bridge.api.openapi")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_route_is_described_and_nothing_else(content: ContentServers, engine: str) -> None:
    schema = described(content.http(engine).url)
    assert schema.raw_schema["openapi"].startswith("3.1")
    assert list(schema.raw_schema["paths"]) == OPERATIONS
    assert all(list(operations) == ["get"] for operations in schema.raw_schema["paths"].values())


@pytest.mark.rule("bridge.api.openapi")
@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_requests_made_from_the_description_are_answered_as_it_says(
    content: ContentServers, mode: GenerationMode, path: str
) -> None:
    url = content.http("sqlite").url  # hardly any of these gets as far as the database

    @given(case=described(url)[path]["GET"].as_strategy(generation_mode=mode))
    @settings(max_examples=20, database=None)
    def answered(case: Case) -> None:
        assume(not _is_backwards(case))
        assume(mode is GenerationMode.POSITIVE or not case.cookies)  # a cookie that is none does not arrive as one
        case.call_and_validate(base_url=url)

    answered()


@pytest.mark.rule("bridge.api.openapi")
@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_found_is_as_described_too(content: ContentServers, engine: str, path: str) -> None:
    """Left to itself, schemathesis guesses no id that there is."""
    url = content.http(engine).url

    @given(case=described(url)[path]["GET"].as_strategy(generation_mode=GenerationMode.POSITIVE))
    @settings(max_examples=20, database=None)
    def answered(case: Case) -> None:
        assume(not _is_backwards(case))
        case.headers["x-project-id"] = GAMMA
        if "entityId" in case.path_parameters:
            case.path_parameters["entityId"] = ROOT
        assert case.call_and_validate(base_url=url).status_code == 200

    answered()


def _is_backwards(case: Case) -> bool:
    """What no JSON Schema can say of two parameters: the one date must not be after the other."""
    start, end = case.query.get("dateStart"), case.query.get("dateEnd")
    return isinstance(start, str) and isinstance(end, str) and start[:10] >= end[:10]
