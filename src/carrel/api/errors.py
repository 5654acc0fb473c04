"""Errors as the bridge contract has them: a code, its HTTP status, a message; nothing of the inside."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.errors import StoreTimeout

log = logging.getLogger("carrel.api")

JSON = "application/json"
STATUS = {
    "BAD_REQUEST": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "SERVER_ERROR": 500,
}


class ApiError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def bad_request(message: str) -> ApiError:
    return ApiError("BAD_REQUEST", message)


def error_response(
    code: str, message: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    body = to_json({"error": {"code": code, "message": message}})
    return Response(body, status or STATUS[code], headers, media_type=JSON)


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(StoreTimeout, _timed_out)
    app.add_middleware(_Unexpected)


async def answer_to(request: Request, error: Exception) -> Response:
    """What the application's handlers below answer to an error of a route."""
    match error:
        case ApiError():
            return await _told(request, error)
        case RequestValidationError():
            return await _invalid(request, error)
        case StoreTimeout():
            return await _timed_out(request, error)
        case _:
            log.exception("%s failed", request.scope.get("path"), exc_info=error)
            return error_response("SERVER_ERROR", "Internal server error")


async def _told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - this is what it is registered for
    return error_response(error.code, error.message)


async def _not_routed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - this is what it is registered for
    if error.status_code == 404:
        return error_response("NOT_FOUND", "There is no such route")
    return error_response("BAD_REQUEST", error.detail, error.status_code, error.headers)


async def _timed_out(_request: Request, error: Exception) -> Response:
    log.error("the database gave up: %s", error)
    return error_response("SERVER_ERROR", "The database took too long and the request was cancelled")


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - this is what it is registered for
    first: Mapping[str, Any] = error.errors()[0]
    field = str(first["loc"][-1])
    return error_response("BAD_REQUEST", f"{field} {_complaint(first)}")


def _complaint(error: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "is not a parameter of this route"
        case "literal_error":
            return f"must be one of {context['expected'].replace(' or ', ', ')}".replace("'", "")
        case "string_pattern_mismatch":
            return "must be a UUID"
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "value_error":
            return str(context["error"])
        case _:
            return "is not valid"


class _Unexpected:
    """Innermost of all that is around the routes: what nobody foresaw is logged here and told without its cause."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            log.exception("%s failed", scope.get("path"))
            if has_begun:
                raise
            await error_response("SERVER_ERROR", "Internal server error")(scope, receive, send)
