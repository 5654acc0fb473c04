"""Headers of a request to the backend API."""

from fastapi import Request


def header(request: Request, name: str) -> str:
    """Return the first header of that name; empty if there is none.

    Most are not there, and Starlette raises and catches an error to say so, for each a hundredth of a read.
    """
    wanted = name.encode()
    for key, value in request.scope["headers"]:
        if key == wanted:
            return value.decode("latin-1")
    return ""
