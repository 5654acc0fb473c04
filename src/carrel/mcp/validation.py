"""Arguments against a tool's input schema, compiled once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jsonschema_rs


MAX_VIOLATIONS = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """`path` leads to the value, `rule` is the schema keyword that it breaks. No part of it repeats the value."""

    path: tuple[str | int, ...]
    rule: str
    message: str


class Validator:
    """Compiles the schema with the first arguments: most sessions call few of the tools."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._order = {name: place for place, name in enumerate(schema.get("properties", {}))}

    @cached_property
    def _compiled(self) -> "jsonschema_rs.Draft202012Validator":
        import jsonschema_rs

        return jsonschema_rs.Draft202012Validator(dict(self._schema), mask="the value")

    def violations(self, arguments: Mapping[str, Any]) -> list[Violation]:
        """What is wrong, in the order in which the schema lists the arguments."""
        try:
            if self._compiled.is_valid(arguments):
                return []
            found = [_violation(error) for error in islice(self._compiled.iter_errors(arguments), MAX_VIOLATIONS)]
        except ValueError:  # an unpaired surrogate, or nesting beyond what the validator follows
            found = [
                Violation((name,), "type", "the value cannot be read")
                for name, value in arguments.items()
                if not _is_readable(value)
            ]
        return sorted(found, key=lambda each: self._order.get(str(each.path[0]) if each.path else "", -1))


def with_readable_names(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with a question mark for each half of a surrogate pair in a name: no answer could repeat it."""
    if all(map(str.isascii, arguments)):
        return arguments
    return {name.encode("utf-8", "replace").decode(): value for name, value in arguments.items()}


def _violation(error: "jsonschema_rs.ValidationError") -> Violation:
    from jsonschema_rs import ValidationErrorKind

    path = tuple(error.instance_path)
    rule = str(error.schema_path[-1])
    kind = error.kind
    if isinstance(kind, ValidationErrorKind.Required):
        path = (*path, kind.property)
    elif isinstance(kind, ValidationErrorKind.AdditionalProperties):
        path = (*path, kind.unexpected[0])
    return Violation(path, rule, error.message)


def _is_readable(value: Any) -> bool:
    from pydantic_core import to_json

    try:
        to_json(value)
    except ValueError:
        return False
    return True
