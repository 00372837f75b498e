"""`GET /jobs/{id}/events` and `GET /events`: status changes as server-sent events (I2)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request, Response

from swath.domain.service_key import Scope
from swath.entrypoints.api.auth import Caller
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.entrypoints.api.event_stream import EventStreamResponse, JobEvent, Subscription, status_event
from swath.entrypoints.api.events import CLOCK_SKEW_SECONDS
from swath.entrypoints.api.routing import ApiRoute, JobId, hold_until_response_end, needs

__all__ = ["router"]

router = APIRouter(tags=["events"], route_class=ApiRoute)

RETRY_AFTER_SECONDS: Final = 10
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events of the name `status`, each with the job as `GET /jobs/{job_id}/status` shows it; `gone` "
        "when it was deleted.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": "event: status\ndata: {…}\n\n"}},
    }
}
_TIME_ID: Final = re.compile(r"(\d{1,15})-[0-9a-f-]+")
CallerWithRead = Annotated[Caller, Depends(needs(Scope.READ))]
LastEventId = Annotated[str | None, Header(max_length=200)]


@router.get(
    "/jobs/{job_id}/events",
    response_class=Response,
    responses={
        **_STREAM,
        204: {"description": "The job has ended, and the caller has seen that: there is no need to come again."},
        **error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.RATE_LIMITED, ErrorCode.STORE_UNAVAILABLE),
    },
)
async def job_events(
    job_id: JobId, controller: Control, request: Request, caller: CallerWithRead, last_event_id: LastEventId = None
) -> Response:
    """One job: its status now, and whenever it changes, at most five times a second. Ends when the job
    does, and when the key of the caller is revoked or expires."""
    event = status_event(await controller.services.status(job_id))
    if event.last and event.event_id == last_event_id:
        return Response(status_code=204)
    _reserve_stream(controller, request, caller)

    @asynccontextmanager
    async def watching() -> AsyncIterator[Subscription]:
        with controller.hub.watching(job_id, last_event_id) as watch:
            yield watch

    return EventStreamResponse(watching(), still_admitted=_key_check(controller, caller))


@router.get(
    "/events",
    response_class=Response,
    responses={**_STREAM, **error_responses(ErrorCode.RATE_LIMITED, ErrorCode.STORE_UNAVAILABLE)},
)
async def all_events(
    controller: Control, request: Request, caller: CallerWithRead, last_event_id: LastEventId = None
) -> Response:
    """All jobs that have not ended, and whatever changes; scrapes on demand are left out. Goes on until the
    controller stops, or the key of the caller is revoked or expires.

    With `Last-Event-ID` also those that have ended since then.
    """
    _reserve_stream(controller, request, caller)
    found = _TIME_ID.fullmatch(last_event_id or "")
    since = None if found is None else int(found[1]) / 1_000 - CLOCK_SKEW_SECONDS
    clock = controller.services.clock

    def timed(event: JobEvent) -> bytes:
        """Of all jobs together only the time says what a reader has seen."""
        return event.encode(f"{int(clock.now() * 1_000)}-{event.event_id}")

    return EventStreamResponse(controller.hub.watching_all(since), timed, still_admitted=_key_check(controller, caller))


def _key_check(controller: Controller, caller: Caller) -> Callable[[], Awaitable[bool]]:
    return partial(controller.doorkeeper.still_admits, caller)


def _reserve_stream(controller: Controller, request: Request, caller: Caller) -> None:
    """For as long as the stream goes on. Raises ApiError."""
    if controller.hub.streams_ended:
        told = "the controller stops, so no stream begins any more"
        raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS)
    hold_until_response_end(request, controller.shares.stream(caller, controller.settings.streams_per_key))
