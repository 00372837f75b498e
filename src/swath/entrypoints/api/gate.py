"""Gate: `Depends(needs(Scope.READ))` says who may use an endpoint. Before: edge.py has looked the request over.

routing.py asks it before the body is read, so that nobody without a key makes us read one.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated, Final

from fastapi import Request, Security
from fastapi.security import APIKeyHeader

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import controller_of
from swath.entrypoints.api.doorkeeper import Caller
from swath.entrypoints.api.edge import HELD
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.protocol import AGAIN_SECONDS, NOTE_ADMITTED, ON_RESERVE
from swath.entrypoints.api.relayed import sign_of_a_relay

__all__ = ["KEY_HEADER", "admit", "hold_until_the_end", "needs", "refuse_on_reserve", "scope_among"]

KEY_HEADER: Final = "X-Service-Key"

Admitting = Callable[..., Awaitable[Caller]]

_scheme = APIKeyHeader(name=KEY_HEADER, scheme_name="ServiceKey", auto_error=False)
_SCOPES: Final[dict[Admitting, Scope]] = {}


@functools.cache
def needs(scope: Scope) -> Admitting:
    """Lets in whoever has a key with this scope; everybody on this machine while there are no keys at all."""

    async def admitted(request: Request, _: Annotated[str | None, Security(_scheme)]) -> Caller:
        return await admit(request, scope)

    _SCOPES[admitted] = scope
    return admitted


def scope_among(calls: Iterable[object]) -> Scope | None:
    """Which scope a route asks for, by what it depends on."""
    return next((_SCOPES[call] for call in calls if callable(call) and call in _SCOPES), None)


async def admit(request: Request, scope: Scope) -> Caller:
    """Once for each request. Raises ApiError: authentication_error, forbidden or rate_limited."""
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        peer = None if request.client is None else request.client.host
        controller = controller_of(request)
        shown = [key.strip(" \t") for key in request.headers.getlist(KEY_HEADER)]  # HTTP allows blanks around it
        relayed = sign_of_a_relay(request, controller.settings)
        known = await controller.doorkeeper.admit(shown, peer, scope, relayed)
        if Scope.ADMIN not in known.scopes:
            refuse_on_reserve(request)
        hold_until_the_end(request, controller.shares.request(known, controller.settings.requests_at_once))
        request.state.caller = known
        getattr(request.state, NOTE_ADMITTED, _nobody)()
    return known


def refuse_on_reserve(request: Request) -> None:
    """Raises ApiError rate_limited for what came on a connection of the reserve, and is not what that is for."""
    if getattr(request.state, ON_RESERVE, False):
        told = "so many requests are under way here that only keys of the scope admin are let in; try again later"
        raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=AGAIN_SECONDS)


def _nobody() -> None:
    """Where no connection is counted."""


def hold_until_the_end(request: Request, share: AbstractContextManager[None]) -> None:
    """Enters it now, and leaves it when the request was answered, or its caller went away."""
    held: ExitStack = request.scope["state"][HELD]
    held.enter_context(share)
