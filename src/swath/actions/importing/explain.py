"""One line of what is wrong: of a step that pydantic refuses, and of whatever a package of somebody else's raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from swath.actions.explaining import ACTIONS
from swath.domain.explain import described

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["first_error", "one_line"]

_MOST_CHARS: Final = 300


def first_error(error: ValidationError) -> str:
    """Where in the step the first error is, counted from 1, and what it says."""
    problem = error.errors(include_url=False)[0]
    loc = problem["loc"]
    path = [part for at, part in enumerate(loc) if part not in ACTIONS or (at > 0 and isinstance(loc[at - 1], str))]
    model = ACTIONS.get(str(loc[0])) if len(loc) == 2 else None
    what = described({**problem, "loc": loc[-1:]}, model)
    match problem["type"]:
        case "too_long" | "string_too_long":
            things = "characters" if isinstance(problem["input"], str) else "values"
            what = f"has more than {problem['ctx']['max_length']:,} {things}"
        case "too_short" | "string_too_short" if not problem["input"]:
            what = "is empty"
    where = ".".join(str(part + 1) if isinstance(part, int) else part for part in path)
    return _short(f"{where}: {what}" if where else what)


def one_line(error: BaseException) -> str:
    """The name of an error and what it says."""
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 somebody's own exception may not even be able to tell what it is
        said = ""
    return _short(f"{type(error).__name__}: {said}".removesuffix(": "))


def _short(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"
