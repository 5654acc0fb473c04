"""The parameters of each route, and the strictness with which they are read. OpenAPI is made from the same classes."""

import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from carrel.api.errors import bad_request
from carrel.common import RFC_4122_UUID
from carrel.content.page import Window
from carrel.content.times import FORMATS, first_instant, last_instant
from carrel.content.vocabulary import RELATION_TYPES, ClaimType, ConceptKind, EntityStatus, EntityType

UUID_PATTERN = f"^{RFC_4122_UUID}$"
UUID_SCHEMA = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
_DATE_SCHEMA = {
    "anyOf": [
        {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        {
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,3})?Z$",
        },
    ]
}
_TYPES_SCHEMA = {
    "type": "string",
    "pattern": rf"^( *({'|'.join(RELATION_TYPES)}) *(, *({'|'.join(RELATION_TYPES)}) *)*)?$",
}
_INTEGER = re.compile("-?[0-9]{1,4000}")  # as many digits as Python reads


async def strict_query(request: Request) -> dict[str, str]:
    """The parameters, without what a lenient reader would paper over: a name given twice, bytes that are no text."""
    text: bytes = request.scope["query_string"]
    if not text:
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError as error:
        raise bad_request("The query string must be UTF-8") from error
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise bad_request(f"{name} is given more than once")
    return dict(pairs)


def integer(value: Any) -> Any:
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None:
            raise ValueError("must be an integer")
        return int(value)
    return value


def _instant(read: Callable[[str], int | None]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        instant = read(value)
        if instant is None:
            raise ValueError(f"must be an ISO 8601 date: {FORMATS}")
        return instant

    return checked


def _listed(text: str) -> list[str]:
    return [each.strip(" ") for each in text.split(",")] if text else []


def _relation_types(text: str) -> str:
    if any(each not in RELATION_TYPES for each in _listed(text)):
        raise ValueError(f"must be a comma-separated list of {', '.join(RELATION_TYPES)}")
    return text


Uuid = Annotated[str, Field(pattern=UUID_PATTERN), AfterValidator(str.lower), WithJsonSchema(UUID_SCHEMA)]
Depth = Annotated[int, Field(ge=1, le=2), BeforeValidator(integer)]
LowerBound = Annotated[int, BeforeValidator(_instant(first_instant)), WithJsonSchema(_DATE_SCHEMA)]
UpperBound = Annotated[int, BeforeValidator(_instant(last_instant)), WithJsonSchema(_DATE_SCHEMA)]
RelationTypes = Annotated[str, AfterValidator(_relation_types), WithJsonSchema(_TYPES_SCHEMA)]


class NoQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PageQuery(NoQuery):
    page: Annotated[int, Field(ge=1), BeforeValidator(integer)] = 1
    limit: Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)] = 20

    @property
    def window(self) -> Window:
        return Window(self.limit, (self.page - 1) * self.limit)


class EntityQuery(PageQuery):
    entityType: EntityType | None = None
    status: EntityStatus | None = None
    conceptKind: ConceptKind | None = None
    search: str = Field("", description="Contained in title or slug, whatever its case")


class GraphQuery(NoQuery):
    depth: Depth = 1
    relationshipTypes: RelationTypes = Field("", description="Separated by commas; empty for all")

    @property
    def types(self) -> list[str]:
        return _listed(self.relationshipTypes)


class PerformanceQuery(PageQuery):
    query: str = Field("", description="Contained in the query, whatever its case")
    pageUrl: str = Field("", description="Contained in the page's URL, whatever its case")
    entityId: Uuid | None = None
    dateStart: LowerBound | None = Field(None, description="Rows that start then or later")
    dateEnd: UpperBound | None = Field(None, description="Rows that end then or earlier; not before dateStart")


class BlockQuery(PageQuery):
    entityId: Uuid | None = None
    claimType: ClaimType | None = None
    topicTag: str = Field("", description="Contained in the topic tag, whatever its case")
    verifiedUntilBefore: UpperBound | None = None
    verifiedUntilAfter: LowerBound | None = None
