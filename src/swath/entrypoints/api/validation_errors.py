"""Lists the wrong fields of a request by their paths (I1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from swath.domain.validation_messages import clip_text, describe_problem
from swath.entrypoints.api.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

__all__ = ["MAX_LISTED", "FieldError", "field_path", "invalid_fields", "invalid_model"]

MAX_LISTED: Final = 50  # fields that are told one by one

_LOCATIONS: Final = frozenset({"body", "query", "path", "header", "cookie"})


class FieldError(msgspec.Struct, frozen=True, rename={"place": "in"}):
    """One wrong field: `items[3].input.parcel_id` of the body, `limit` of the query. An empty path is the whole."""

    path: str
    message: str
    place: str = "body"


def invalid_model(errors: Sequence[Any], model: type[BaseModel] | None = None, count: int | None = None) -> ApiError:
    """The answer to what a model found wrong with a request; `model` is that of the body. `count` as below."""
    told = [
        _field_error(cast("ErrorDetails", error), model) for error in errors[:MAX_LISTED]
    ]  # each looks for near names
    return invalid_fields(told, len(errors) if count is None else count)


def invalid_fields(problems: Sequence[FieldError], count: int | None = None) -> ApiError:
    """The answer to a request with wrong fields. `count` is how many there are, if not all are given."""
    count = len(problems) if count is None else count
    first = problems[0]
    where = first.path or f"the {first.place}"
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    details = {"fields": [msgspec.to_builtins(one) for one in problems[:MAX_LISTED]], "count": count}
    return ApiError(ErrorCode.VALIDATION_ERROR, f"{where}: {first.message}{more}", details)


def field_path(parts: Sequence[int | str]) -> str:
    """As one would write it in a program: `items[3].input.x`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return clip_text(path)


def _field_error(error: ErrorDetails, model: type[BaseModel] | None) -> FieldError:
    place, parts = "body", list(error["loc"])
    if parts and parts[0] in _LOCATIONS:
        place = str(parts.pop(0))
    known = cast("ErrorDetails", {**error, "loc": tuple(parts) or ("",)})
    named = [part for part in parts if part != "[key]"]
    return FieldError(field_path(named), describe_problem(known, model if place == "body" else None), place)
