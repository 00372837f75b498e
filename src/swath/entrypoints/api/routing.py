"""How a request reaches its endpoint: first its service key and scope, then its query and body, strictly parsed.

Endpoints declare their scope with `Depends(needs(Scope.READ))`; a body is read only after the key was accepted.
Every
router is an `APIRouter(route_class=ApiRoute)`. Ids in paths may hold any text, percent-encoded.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Path, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from pydantic import AfterValidator, BaseModel

from swath.domain.item import ITEM_ID_LIMIT
from swath.domain.job import JOB_ID_LIMIT
from swath.domain.service_key import Scope
from swath.domain.validation_messages import clip_text, did_you_mean, quoted_list
from swath.entrypoints.api.auth import Caller, forwarding_evidence
from swath.entrypoints.api.controller import controller_of
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.http_protocol import ON_AUTHENTICATED, ON_RESERVED_CONNECTION, RETRY_AFTER_SECONDS
from swath.entrypoints.api.middleware import EXIT_STACK, decode_segment
from swath.entrypoints.api.request_body import BodySpec, StrictBody, validated_request
from swath.entrypoints.api.validation_errors import MAX_LISTED, FieldError, invalid_fields, invalid_model

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

__all__ = [
    "KEY_HEADER",
    "ApiRoute",
    "ItemId",
    "JobId",
    "authenticate",
    "hold_until_response_end",
    "needs",
    "refuse_on_reserved_connection",
    "required_scope",
]

_MAX_CHARS: Final = 12  # characters that one of an id may take: four bytes as %XX


def _job_id(segment: str) -> str:
    return _check_length(decode_segment(segment), JOB_ID_LIMIT)


def _item_id(segment: str) -> str:
    return _check_length(decode_segment(segment), ITEM_ID_LIMIT)


def _check_length(given: str, limit: int) -> str:
    if len(given) > limit:
        raise ValueError(f"has {len(given):,} characters, and no such id has more than {limit:,}")
    return given


JobId = Annotated[
    str,
    Path(description="URL-encoded if it is not plain.", examples=["test-001"], max_length=JOB_ID_LIMIT * _MAX_CHARS),
    AfterValidator(_job_id),
]
ItemId = Annotated[
    str,
    Path(description="URL-encoded if it is not plain.", examples=["item-1"], max_length=ITEM_ID_LIMIT * _MAX_CHARS),
    AfterValidator(_item_id),
]


KEY_HEADER: Final = "X-Service-Key"

AuthDependency = Callable[..., Awaitable[Caller]]

_key_scheme = APIKeyHeader(name=KEY_HEADER, scheme_name="ServiceKey", auto_error=False)
_SCOPES: Final[dict[AuthDependency, Scope]] = {}


@functools.cache
def needs(scope: Scope) -> AuthDependency:
    """Lets in whoever has a key with this scope; everybody on this machine while there are no keys at all."""

    async def admitted(request: Request, _: Annotated[str | None, Security(_key_scheme)]) -> Caller:
        return await authenticate(request, scope)

    _SCOPES[admitted] = scope
    return admitted


def required_scope(calls: Iterable[object]) -> Scope | None:
    """Which scope a route asks for, by what it depends on."""
    return next((_SCOPES[call] for call in calls if callable(call) and call in _SCOPES), None)


async def authenticate(request: Request, scope: Scope) -> Caller:
    """Once for each request. Raises ApiError: authentication_error, forbidden or rate_limited."""
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        peer = None if request.client is None else request.client.host
        controller = controller_of(request)
        shown = [key.strip(" \t") for key in request.headers.getlist(KEY_HEADER)]  # HTTP allows blanks around it
        relayed = forwarding_evidence(request, controller.settings)
        known = await controller.doorkeeper.admit(shown, peer, scope, relayed)
        if Scope.ADMIN not in known.scopes:
            refuse_on_reserved_connection(request)
        hold_until_response_end(request, controller.shares.request(known, controller.settings.requests_at_once))
        request.state.caller = known
        getattr(request.state, ON_AUTHENTICATED, _no_callback)()
    return known


def refuse_on_reserved_connection(request: Request) -> None:
    """Raises ApiError rate_limited for what came on a connection of the reserve, and is not what that is for."""
    if getattr(request.state, ON_RESERVED_CONNECTION, False):
        told = "so many requests are under way here that only keys of the scope admin are let in; try again later"
        raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS)


def _no_callback() -> None:
    """Where no connection is counted."""


def hold_until_response_end(request: Request, share: AbstractContextManager[None]) -> None:
    """Enters it now, and leaves it when the request was answered, or its caller went away."""
    held: ExitStack = request.scope["state"][EXIT_STACK]
    held.enter_context(share)


_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiRoute(APIRoute):
    """An endpoint behind the gate, with a strict JSON body if it takes one."""

    def get_route_handler(self) -> _Handler:
        """See APIRoute."""
        handle, model = super().get_route_handler(), _body_model(self)
        scope = required_scope(_dependency_calls(self.dependant))
        validate = None if self.body_field is None else partial(self.body_field.validate, loc=("body",))
        names = frozenset(_query_names(self.dependant))

        async def handler(request: Request) -> Response:
            if scope is not None:
                await authenticate(request, scope)
            _check_query(request, names)
            try:
                if validate is None:
                    return await handle(request)
                controller = controller_of(request)
                kind = _body_spec(validate, model, controller.settings.max_body_bytes)
                async with validated_request(request, kind, controller.bodies) as with_body:
                    return await handle(with_body)
            except RequestValidationError as error:
                raise invalid_model(error.errors(), model) from None

        return handler


def _check_query(request: Request, names: Collection[str]) -> None:
    """A filter whose name is misspelled would list everything. Raises ApiError."""
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in names]
    if unknown:
        told = [
            FieldError(clip_text(name, 100), _unknown_parameter(name, names), "query") for name in unknown[:MAX_LISTED]
        ]
        raise invalid_fields(told, len(unknown))


def _unknown_parameter(name: str, names: Collection[str]) -> str:
    takes = f"; allowed: {quoted_list(sorted(names))}" if names else "; this endpoint takes none"
    return f"is not known{did_you_mean(name, names) or takes}"


def _dependency_calls(dependant: Dependant) -> Iterable[object]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _dependency_calls(inner)


def _query_names(dependant: Dependant) -> Iterable[str]:
    """What may be said in the address, here or in what is depended on."""
    for field in dependant.query_params:
        model: object = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (inner.alias or name for name, inner in model.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def _body_spec(validate: Callable[..., Any], model: type[BaseModel] | None, most_bytes: int) -> BodySpec:
    strict = model if model is not None and issubclass(model, StrictBody) else StrictBody
    return BodySpec(validate, model, most_bytes if strict.bulk else min(most_bytes, strict.most_bytes), strict.bulk)


def _body_model(route: APIRoute) -> type[BaseModel] | None:
    """The model of the body, for hints at the right names."""
    field = route.body_field
    found: object = None if field is None else field.field_info.annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None
