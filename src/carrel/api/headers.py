"""Headers of a request to the backend API."""

from fastapi import Request


def header(request: Request, name: str) -> str:
    """Return the first header of that name; empty if there is none.

    Most headers are absent, and Starlette raises and catches an exception for each of those: 1% of a read.
    """
    wanted = name.encode()
    for key, value in request.scope["headers"]:
        if key == wanted:
            return value.decode("latin-1")
    return ""
