"""ApiRoute: how a request reaches its endpoint: first its key, then its body, read strictly and within bounds.

Before: edge.py. After: the endpoint gets models. Every router of routes/ is `APIRouter(route_class=ApiRoute)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from swath.domain.explain import clipped, listed, near
from swath.entrypoints.api.controller import controller_of
from swath.entrypoints.api.gate import admit, scope_among
from swath.entrypoints.api.problems import MOST_TOLD, Problem, refused, refused_fields
from swath.entrypoints.api.request_body import BodyKind, taken
from swath.entrypoints.api.strict_body import StrictBody

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

__all__ = ["ApiRoute"]

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiRoute(APIRoute):
    """An endpoint behind the gate, with a strict JSON body if it takes one."""

    def get_route_handler(self) -> _Handler:
        """See APIRoute."""
        handle, model = super().get_route_handler(), _model_of(self)
        scope = scope_among(_calls(self.dependant))
        validate = None if self.body_field is None else partial(self.body_field.validate, loc=("body",))
        names = frozenset(_query_names(self.dependant))

        async def handler(request: Request) -> Response:
            if scope is not None:
                await admit(request, scope)
            _check_query(request, names)
            try:
                if validate is None:
                    return await handle(request)
                controller = controller_of(request)
                kind = _kind_of(validate, model, controller.settings.max_body_bytes)
                async with taken(request, kind, controller.bodies) as with_body:
                    return await handle(with_body)
            except RequestValidationError as error:
                raise refused(error.errors(), model) from None

        return handler


def _check_query(request: Request, names: Collection[str]) -> None:
    """A filter whose name is misspelled would list everything. Raises ApiError."""
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in names]
    if unknown:
        told = [Problem(clipped(name, 100), _not_known(name, names), "query") for name in unknown[:MOST_TOLD]]
        raise refused_fields(told, len(unknown))


def _not_known(name: str, names: Collection[str]) -> str:
    takes = f"; allowed: {listed(sorted(names))}" if names else "; this endpoint takes none"
    return f"is not known{near(name, names) or takes}"


def _calls(dependant: Dependant) -> Iterable[object]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _calls(inner)


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


def _kind_of(validate: Callable[..., Any], model: type[BaseModel] | None, most_bytes: int) -> BodyKind:
    strict = model if model is not None and issubclass(model, StrictBody) else StrictBody
    return BodyKind(validate, model, most_bytes if strict.bulk else min(most_bytes, strict.most_bytes), strict.bulk)


def _model_of(route: APIRoute) -> type[BaseModel] | None:
    """The model of the body, for hints at the right names."""
    field = route.body_field
    found: object = None if field is None else field.field_info.annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None
