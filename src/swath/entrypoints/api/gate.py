"""Gate: `Depends(needs(Scope.READ))` says who may use an endpoint. Before: edge.py has looked the request over.

routing.py asks it before the body is read, so that nobody without a key makes us read one.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Final

from fastapi import Request, Security
from fastapi.security import APIKeyHeader

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import controller_of
from swath.entrypoints.api.doorkeeper import Caller

__all__ = ["KEY_HEADER", "admit", "needs", "scope_among"]

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
        doorkeeper = controller_of(request).doorkeeper
        shown = [key.strip(" \t") for key in request.headers.getlist(KEY_HEADER)]  # HTTP allows blanks around it
        known = await doorkeeper.admit(shown, peer, scope)
        request.state.caller = known
    return known
