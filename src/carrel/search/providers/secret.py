"""A key as it may be held and handed on, but never seen."""

REDACTED = "[key]"


class Secret:
    """Shows itself to nobody: neither in a log line, nor in a traceback's message, nor in what a server says back."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def redact(self, text: str) -> str:
        return text.replace(self._value, REDACTED) if self._value else text
