"""Builds the FastAPI application: routers, error handlers, middleware and the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match, Route

from swath import __version__
from swath.domain.errors import SwathError
from swath.entrypoints.api.access_log import AccessLog
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.entrypoints.api.middleware import RequestMiddleware, logged_api_error
from swath.entrypoints.api.routes import (
    checks,
    control,
    events,
    export,
    health,
    items,
    jobs,
    metrics,
    results,
    scrape,
    scrapers,
    uploads,
    versions,
    webhooks,
)
from swath.entrypoints.api.routing import refuse_on_reserved_connection
from swath.entrypoints.api.scrape_models import TASK_EXAMPLES, TaskView
from swath.entrypoints.api.validation_errors import invalid_model

__all__ = ["ROUTERS", "make_app"]

_DESCRIPTION: Final = """Runs bulk web-scraping jobs durably, and accounts for every item.

Every JSON answer has the same envelope; `error.code` never changes its meaning. Times are in Unix seconds. Every answer
carries `X-Request-ID`, a UUID, and keeps yours if you send one.
"""
_TAGS: Final = [
    {"name": "jobs", "description": "Order bulk jobs, load their items, follow and manage them."},
    {"name": "items", "description": "The items of a job."},
    {"name": "results", "description": "Manifests, stored files, exports, checks and comparisons."},
    {"name": "versions", "description": "Re-extraction of stored pages, and which version readers get."},
    {"name": "webhooks", "description": "The delivery log of webhooks."},
    {"name": "events", "description": "Server-sent events."},
    {"name": "scrapers", "description": "The scrapers that this controller knows."},
    {"name": "scrape", "description": "Single pages on demand."},
    {"name": "service", "description": "Health and metrics."},
]
# What any endpoint may answer: who asks, and how. With a key also: how often, and whether the store is there.
_COMMON_ERRORS: Final = (
    ErrorCode.AUTHENTICATION_ERROR,
    ErrorCode.FORBIDDEN,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.INTERNAL_ERROR,
)
_COMMON_ERRORS_WITH_KEY: Final = (*_COMMON_ERRORS, ErrorCode.RATE_LIMITED, ErrorCode.STORE_UNAVAILABLE)
ROUTERS: Final = (
    jobs,
    control,
    uploads,
    items,
    results,
    export,
    checks,
    versions,
    webhooks,
    events,
    scrapers,
    scrape,
    health,
    metrics,
)


def make_app(controller: Controller) -> FastAPI:
    """The whole API over this controller."""
    app = _Api(
        title="Swath",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.controller = controller
    for module in ROUTERS:
        codes = _COMMON_ERRORS if module is health else _COMMON_ERRORS_WITH_KEY
        app.include_router(module.router, responses=error_responses(*codes))
    for kind in (ApiError, SwathError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _error_response)
    app.add_middleware(AccessLog)
    app.add_middleware(RequestMiddleware, hosts=(controller.settings.host, *controller.settings.allowed_hosts))
    return app


class _Api(FastAPI):
    def setup(self) -> None:
        """FastAPI writes the document anew for everybody who asks, and nobody needs a key for that."""
        document: list[bytes] = []

        async def told(request: Request) -> Response:
            refuse_on_reserved_connection(request)
            if not document:
                document.append(bytes(JSONResponse(self.openapi()).body))
            return Response(document[0], media_type=JSONResponse.media_type)

        self.add_route("/openapi.json", told, include_in_schema=False)

    def openapi(self) -> dict[str, Any]:
        """The document. FastAPI leaves out what is null, which makes an example wrong that must have it."""
        document = super().openapi()
        document["components"]["schemas"][TaskView.__name__]["examples"] = TASK_EXAMPLES
        return document


async def _error_response(request: Request, error: Exception) -> Response:
    """The error in its envelope; what nobody foresaw is left to edge.py."""
    match error:
        case RequestValidationError():
            return invalid_model(error.errors()).answer()
        case HTTPException():
            return _framework_error(request, error.status_code).answer()
    return logged_api_error(error).answer()


def _framework_error(request: Request, status: int) -> ApiError:
    """Starlette and FastAPI refuse little by themselves: unknown addresses and methods, bodies they cannot read."""
    if status == 404:
        return ApiError(ErrorCode.NOT_FOUND, "there is nothing at this address; see /openapi.json")
    if status == 405:
        allowed = ", ".join(sorted(_allowed_methods(request)))
        message = f"{request.method} is not known here; allowed: {allowed}"
        return ApiError(ErrorCode.METHOD_NOT_ALLOWED, message, headers={"Allow": allowed})
    if status == 413:
        return ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the body is too large")
    return ApiError(ErrorCode.VALIDATION_ERROR, "the request cannot be read")


def _allowed_methods(request: Request) -> set[str]:
    """What may be done at the address: each method has a route of its own, and the first alone does not know."""
    routes = [route for module in ROUTERS for route in module.router.routes if isinstance(route, Route)]
    known = [route for route in routes if route.endpoint is not scrape.no_task]
    matching = [route for route in known if route.matches(request.scope)[0] is not Match.NONE]
    # Where a name of ours stands in the place of an id, only what is known under that name counts.
    named = min((len(route.param_convertors) for route in matching), default=0)
    return {method for route in matching if len(route.param_convertors) == named for method in route.methods or ()}
