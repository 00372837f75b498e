"""Describes what is wrong with a recording, and where: `step 4.then.1 (click): on: is missing`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from swath.domain.validation_messages import describe_problem, did_you_mean, display_value
from swath.recordings.schema.recording import PlacedStep, Recording
from swath.recordings.schema.steps import AnyStep

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = [
    "ACTIONS",
    "MOST_LISTED",
    "Problem",
    "place_in_document",
    "step_problem",
    "summarize_problems",
    "validation_message",
]

MOST_LISTED: Final = 3
_MOST_CHARS: Final = 400


class Problem(NamedTuple):
    """`where` is a step, a field, or both; empty for the recording as a whole."""

    where: str
    what: str

    def __str__(self) -> str:
        return _line(f"{self.where}: {self.what}" if self.where else self.what)


def step_problem(placed: PlacedStep, path: str, what: str) -> Problem:
    """In a step, and in a field of it if a path is given."""
    step = f"step {placed.place} ({placed.step.do})"
    return Problem(f"{step}: {path}" if path else step, what)


def summarize_problems(problems: Sequence[Problem], among: int = 0) -> str:
    """The first few, and how many more there are; of `among` when not all of them are given."""
    some = problems[:MOST_LISTED]
    more = max(among, len(problems)) - len(some)
    return "; ".join([*map(str, some), *([f"and {more:,} more"] if more else [])])


def _line(text: str) -> str:
    """What somebody wrote may have any character and any length; a message is one line."""
    whole = "".join(character if character.isprintable() else " " for character in text[: 2 * _MOST_CHARS])
    whole = " ".join(whole.split())
    return whole if len(whole) <= _MOST_CHARS else f"{whole[: _MOST_CHARS - 1]}…"


ACTIONS: Final[dict[str, type[BaseModel]]] = {
    get_args(model.model_fields["do"].annotation)[0]: model for model in get_args(get_args(AnyStep)[0])
}
_NESTED: Final = ("steps", "then", "else")
_KEY: Final = "[key]"
_NAME: Final = re.compile(r"[\w-]{1,60}")


def validation_message(error: ValidationError, content: object) -> str:
    """What is wrong with the content; misspelt names first, because that others are missing follows from them."""
    problems = [problem for problem in error.errors(include_url=False) if not _is_echo(problem)]
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    some = problems[:MOST_LISTED]
    return summarize_problems(
        [Problem(place_in_document(one["loc"], content), _what(one, content)) for one in some], len(problems)
    )


def _is_echo(problem: ErrorDetails) -> bool:
    """Pydantic counts only what is right in a list, and then says that it is too short."""
    given = problem["input"]
    return problem["type"] == "too_short" and isinstance(given, (list, tuple)) and len(given) > 0


def place_in_document(path: Sequence[int | str], content: object) -> str:
    """A path into the document as people count: steps by their place and action, fields by name, from 1 on."""
    step: list[str] = []
    action = ""
    fields: list[str] = []
    at = content
    parts = list(path)
    for number, part in enumerate(parts):
        if part == _KEY or (isinstance(part, str) and number and _is_tag(part, parts[number - 1], at)):
            continue
        if isinstance(at, str):
            break  # a text that stands for a list of one
        at = _inside(at, part)
        fields.append(
            str(part + 1) if isinstance(part, int) else part if _NAME.fullmatch(part) else display_value(part)
        )
        if isinstance(part, int) and number and parts[number - 1] in _NESTED and _holds_steps(fields):
            step += fields if step or fields[0] == "recover" else fields[1:]
            fields = []
            action = str(at.get("do", ""))[:40] if isinstance(at, Mapping) else ""
    where = f"step {'.'.join(step)}{f' ({action})' if action in ACTIONS else ''}" if step else ""
    return ": ".join(filter(None, (where, ".".join(fields))))


def _is_tag(part: str, before: int | str, at: object) -> bool:
    """After the number of a step, pydantic says which action it was taken for."""
    return isinstance(before, int) and isinstance(at, Mapping) and at.get("do") == part


def _holds_steps(fields: Sequence[str]) -> bool:
    """`steps`, `then`, `else` with a number hold steps wherever they stand, but for the fields of a rule."""
    return len(fields) == 2 or fields[0] == "recover"


def _inside(at: object, part: int | str) -> object:
    if isinstance(at, Mapping):
        return at.get(part)
    if isinstance(at, (list, tuple)) and isinstance(part, int) and 0 <= part < len(at):
        return at[part]
    return None


def _what(problem: ErrorDetails, content: object) -> str:
    context: Mapping[str, Any] = problem.get("ctx", {})
    match problem["type"]:
        case "union_tag_invalid":
            tag = str(context.get("tag", ""))[:60]
            return f"there is no action {tag!r}{did_you_mean(tag, ACTIONS) or f'; there is {_all_actions()}'}"
        case "union_tag_not_found":
            return f"has no do, which names its action: {_all_actions()}"
        case "dict_type" if isinstance(problem["loc"][-1], int) and problem["loc"][-2] in _NESTED:
            return f"is no step; write a mapping, such as {{do: reload}} (is {display_value(problem['input'])})"
        case "too_long":
            things = "characters" if isinstance(problem["input"], str) else "values"
            return f"has more than {context.get('max_length', 0):,} {things}"
        case "too_short":
            return "is empty"
        case "extra_forbidden":
            return describe_problem({**problem, "loc": problem["loc"][-1:]}, _model_at(problem["loc"][:-1], content))
    return describe_problem(problem, None)


def _all_actions() -> str:
    return ", ".join(ACTIONS)


def _model_at(path: Sequence[int | str], content: object) -> type[BaseModel] | None:
    """Whose fields stand there: found by the actions along the path, then by the types of fields."""
    model: type[BaseModel] | None = Recording
    at = content
    for number, part in enumerate(path):
        if isinstance(part, str) and number and _is_tag(part, path[number - 1], at):
            model = ACTIONS.get(part)
            continue
        at = _inside(at, part)
        if isinstance(part, str) and model is not None:
            named = {field.alias or name: field for name, field in model.model_fields.items()}
            field = named.get(part)
            model = model if field is None else _model_in(field.annotation)
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model in a type; in a list of steps it is known by its tag only."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)
