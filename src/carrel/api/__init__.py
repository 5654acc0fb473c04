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
    """Build the API; `default_project` is the id for requests that name no project, or empty to refuse them."""
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
    """Return the name that limits count a request under: the matching bridge tool, or `api` if no route matches."""
    return next((each.name for each in _routes() if each.path_regex.match(path)), OTHER_CALL_NAME)


def _routes() -> Iterable[APIRoute]:
    return (each for each in router.routes if isinstance(each, APIRoute))
