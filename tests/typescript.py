"""The TypeScript of bridge.md, and JSON Schema written back as such: how the two are compared."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Field = tuple[str, str, str]
"""A field's path with a question mark where it is optional, its type, its comment."""


def fields_of_type(source: str) -> Iterator[Field]:
    """The fields of an object type, one a line, as the contract lays them out."""
    path: list[str] = []
    for line in source.strip().splitlines()[1:-1]:
        code, _, comment = (part.strip() for part in line.partition("//"))
        if code.startswith("}"):
            place = path.pop()
            if "null" in code:
                yield place, "or null", ""
        elif code:
            name, _, kind = code.rstrip(";,").partition(": ")
            place = ".".join([*(each.rpartition(".")[2] for each in path), name])
            if kind.endswith("{"):
                path.append(place)
                yield place, kind.removesuffix("{"), comment
            else:
                yield place, kind, comment


def fields_of_schema(schema: Mapping[str, Any], path: str = "") -> Iterator[Field]:
    for name, value in schema["properties"].items():
        place = f"{path}{name}" + ("" if name in schema.get("required", []) else "?")
        nullable = isinstance(value["type"], list)
        if "properties" in value:
            yield place, "", ""
            yield from fields_of_schema(value, f"{path}{name}.")
            if nullable:
                yield place, "or null", ""
        elif "items" in value:
            yield place, "Array<", ""
            yield from fields_of_schema(value["items"], f"{path}{name}.")
        else:
            yield place, _written(value, nullable=nullable), value.get("description", "")


def _written(schema: Mapping[str, Any], *, nullable: bool) -> str:
    name = schema["type"][0] if nullable else schema["type"]
    choices = [
        f'"{each}"' if isinstance(each, str) else str(each) for each in schema.get("enum", []) if each is not None
    ]
    kind = " | ".join(choices) or re.sub("integer", "number", name)
    return f"{kind} | null" if nullable else kind
