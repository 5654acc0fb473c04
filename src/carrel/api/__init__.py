"""The backend API of the bridge contract: content over HTTP."""

from collections.abc import Iterable

from fastapi import FastAPI
from fastapi.routing import APIRoute

from carrel.api.dispatcher import Dispatcher
from carrel.api.responses import add_error_handlers
from carrel.api.routes import router
from carrel.storage.database import Database
from carrel.version import __version__

OTHER_CALL_NAME = "api"


def build_api(database: Database, *, default_project: str) -> Dispatcher:
    """`default_project` is the id of the project that requests without any get; empty for none."""
    app = FastAPI(
        title="Carrel backend API",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.database = database
    app.state.default_project = default_project
    app.include_router(router)
    add_error_handlers(app)
    return Dispatcher(app, _routes())


def call_name(path: str) -> str:
    """What limits know a request by: the bridge's tool that asks for the same; `api` for what is no route."""
    return next((each.name for each in _routes() if each.path_regex.match(path)), OTHER_CALL_NAME)


def _routes() -> Iterable[APIRoute]:
    return (each for each in router.routes if isinstance(each, APIRoute))
