"""The backend API of the bridge contract: content over HTTP."""

from fastapi import FastAPI

from carrel.api.errors import add_error_handlers
from carrel.api.routes import router
from carrel.storage.database import Database
from carrel.version import __version__


def build_api(database: Database, *, default_project: str) -> FastAPI:
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
    return app
