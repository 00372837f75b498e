"""Which fields of a request are wrong, by their paths (I1). Before: a model refused it. After: errors.py answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from swath.domain.explain import clipped, described
from swath.entrypoints.api.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

__all__ = ["MOST_TOLD", "Problem", "path_of", "refused", "refused_fields"]

MOST_TOLD: Final = 50  # fields that are told one by one

_PLACES: Final = frozenset({"body", "query", "path", "header", "cookie"})


class Problem(msgspec.Struct, frozen=True, rename={"place": "in"}):
    """One wrong field: `items[3].input.parcel_id` of the body, `limit` of the query. An empty path is the whole."""

    path: str
    message: str
    place: str = "body"


def refused(errors: Sequence[Any], model: type[BaseModel] | None = None, count: int | None = None) -> ApiError:
    """The answer to what a model found wrong with a request; `model` is that of the body. `count` as below."""
    told = [_problem(cast("ErrorDetails", error), model) for error in errors[:MOST_TOLD]]  # each looks for near names
    return refused_fields(told, len(errors) if count is None else count)


def refused_fields(problems: Sequence[Problem], count: int | None = None) -> ApiError:
    """The answer to a request with wrong fields. `count` is how many there are, if not all are given."""
    count = len(problems) if count is None else count
    first = problems[0]
    where = first.path or f"the {first.place}"
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    details = {"fields": [msgspec.to_builtins(one) for one in problems[:MOST_TOLD]], "count": count}
    return ApiError(ErrorCode.VALIDATION_ERROR, f"{where}: {first.message}{more}", details)


def path_of(parts: Sequence[int | str]) -> str:
    """As one would write it in a program: `items[3].input.x`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return clipped(path)


def _problem(error: ErrorDetails, model: type[BaseModel] | None) -> Problem:
    place, parts = "body", list(error["loc"])
    if parts and parts[0] in _PLACES:
        place = str(parts.pop(0))
    known = cast("ErrorDetails", {**error, "loc": tuple(parts) or ("",)})
    named = [part for part in parts if part != "[key]"]
    return Problem(path_of(named), described(known, model if place == "body" else None), place)
