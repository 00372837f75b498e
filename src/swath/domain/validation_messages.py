"""Describes in one line what a pydantic model refuses: of a row, a policy, a recording. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["clip_text", "describe_problem", "describe_validation", "did_you_mean", "display_value", "quoted_list"]

# By pydantic's error type; in braces what its context brings. Others keep pydantic's own words.
_MESSAGES: Final = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of names to values",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of names to values",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be text",
    "too_long": "must have at most {max_length} values",
    "too_short": "must have at least {min_length} values",
    "tuple_type": "must be a list",
}
_KEY: Final = "[key]"  # how pydantic marks that a mapping's key, not its value, is wrong
_LISTED: Final = 8
_VALUE_CHARS: Final = 60
_MESSAGE_CHARS: Final = 500  # of what is said of one field, and of its path: both may quote what somebody sent
_NAME_CHARS: Final = 100  # no name of ours is longer, and looking for near ones takes time that grows with its square


def describe_validation(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """The first thing that is wrong, with its path, and how many more there are. `model` allows hints for names."""
    problems = error.errors(include_url=False)
    path = clip_text(".".join(str(part) for part in problems[0]["loc"] if part != _KEY))
    what = describe_problem(problems[0], model)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{path}: {what}{more}" if path else f"{what}{more}"


def describe_problem(problem: ErrorDetails, model: type[BaseModel] | None) -> str:
    """One thing that is wrong, without its path, in at most some hundred characters."""
    return clip_text(_problem_text(problem, model))


def _problem_text(problem: ErrorDetails, model: type[BaseModel] | None) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        names = _sibling_field_names(model, problem["loc"])
        return f"is not known{did_you_mean(str(problem['loc'][-1]), names) or _allowed(names)}"
    if kind in {"value_error", "assertion_error"}:
        return " ".join(str(context.get("error", problem["msg"])).split())
    if problem["loc"][-1:] == (_KEY,):
        names = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return f"is not known{did_you_mean(str(problem['input']), names) or _allowed(names)}"
    words = _MESSAGES.get(kind)
    if words is None:
        said = " ".join(problem["msg"].split())
        return f"{said[:1].lower()}{said[1:]} (is {display_value(problem['input'])})"
    text = words.format_map({name: _plain(value) for name, value in context.items()})
    return f"{text} (is {display_value(problem['input'])})"


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def display_value(value: object) -> str:
    """A value as people may see it: on one line and not long."""
    text = _repr_start(value, _VALUE_CHARS + 1)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"


def clip_text(text: str, most_chars: int = _MESSAGE_CHARS) -> str:
    """The text, or its beginning if it is longer than a message may be."""
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"


def _repr_start(value: object, room: int) -> str:
    """What `repr` begins with, without writing out a list of a million values first."""
    if isinstance(value, str | bytes):
        return repr(value[: max(room, 1)])
    if type(value) is list:
        return _joined("[", (_repr_start(inner, room) for inner in value), "]", room)
    if type(value) is dict:
        pairs = (f"{_repr_start(name, room)}: {_repr_start(inner, room)}" for name, inner in value.items())
        return _joined("{", pairs, "}", room)
    return repr(value)


def _joined(opening: str, parts: Iterable[str], closing: str, room: int) -> str:
    text = opening
    for part in parts:
        text += part if text == opening else f", {part}"
        if len(text) > room:
            return text
    return text + closing


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean …?", or nothing."""
    if len(name) > _NAME_CHARS:
        return ""
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


def _allowed(names: Sequence[str]) -> str:
    return f"; allowed: {quoted_list(names)}" if names else "; remove it"


def quoted_list(names: Sequence[str]) -> str:
    """Names in quotes; only the first few of many."""
    some = ", ".join(display_value(name) for name in names[:_LISTED])
    return some if len(names) <= _LISTED else f"{some} and {len(names) - _LISTED:,} more"


def _sibling_field_names(model: type[BaseModel] | None, path: Sequence[int | str]) -> list[str]:
    """The field names allowed where the last part of the path stands."""
    for part in path[:-1]:
        field = model.model_fields.get(str(part)) if model is not None else None
        if field is not None:  # else the key of a mapping, whose values are the model found already
            model = _model_in(field.annotation)
    return [field.alias or name for name, field in model.model_fields.items()] if model is not None else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)
