"""StrictBody: what the model of a body is derived from. Counts are checked before contents, and errors are bounded:
pydantic makes an object of a kilobyte for every value that is wrong, and holds the interpreter meanwhile.

Before: request_body.py has parsed the JSON. After: problems.py tells which fields are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from swath.domain.explain import listed
from swath.entrypoints.api.problems import MOST_TOLD, refused

if TYPE_CHECKING:
    from pydantic_core import InitErrorDetails

__all__ = ["StrictBody", "one_by_one"]

MOST_UNKNOWN: Final = 20  # fields of one object that are told one by one
_SMALL_BYTES: Final = 64 << 10


class StrictBody(BaseModel):
    """Unknown fields are refused, and nothing is guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    most_bytes: ClassVar[int] = _SMALL_BYTES
    """That a body of this model may have, if `bulk` does not say otherwise."""
    bulk: ClassVar[bool] = False
    """Whether it may have as many as the settings allow. Few such bodies are held at a time."""

    @model_validator(mode="before")
    @classmethod
    def _counts_first(cls, value: object) -> object:
        wrong = _too_many(cls, value) if isinstance(value, dict) else []
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return value


def _too_many(model: type[BaseModel], value: dict[str, Any]) -> list[InitErrorDetails]:
    wrong: list[InitErrorDetails] = []
    known = model.model_fields
    if len(value) > len(known) + MOST_UNKNOWN:
        unknown = [name for name in value if name not in known]
        told = f"has {len(unknown):,} fields that are not known: {listed(unknown)}"
        wrong.append({"type": "value_error", "loc": (), "input": None, "ctx": {"error": ValueError(told)}})
    for name, field in known.items():
        most = next((one.max_length for one in field.metadata if isinstance(one, MaxLen)), None)
        inner = value.get(name) if most is not None else None
        if most is not None and isinstance(inner, list | dict) and len(inner) > most:
            context = {"field_type": "List", "max_length": most, "actual_length": len(inner)}
            wrong.append({"type": "too_long", "loc": (name,), "input": inner, "ctx": context})
    return wrong


def one_by_one(model: type[BaseModel], field: str) -> Callable[[object, Callable[[object], Any]], Any]:
    """For WrapValidator on a list of `model` that stands in `field`: other threads get their turn between two of them,
    and of many that are wrong only some are told."""

    def validated(value: object, handler: Callable[[object], Any]) -> Any:
        if not isinstance(value, list):
            return handler(value)
        made: list[BaseModel] = []
        wrong: list[InitErrorDetails] = []
        count = 0
        for at, one in enumerate(value):
            try:
                made.append(model.model_validate(one))
            except ValidationError as error:
                count += error.error_count()
                if len(wrong) < MOST_TOLD:
                    wrong += _placed(error, at)
        if count > MOST_TOLD:  # what else may be wrong beside it is told when these are less
            raise refused([{**one, "loc": ("body", field, *one["loc"])} for one in wrong], model, count)
        if wrong:
            raise ValidationError.from_exception_data(field, wrong)
        return handler(made)

    return validated


def _placed(error: ValidationError, at: int) -> list[InitErrorDetails]:
    return [
        {"type": one["type"], "loc": (at, *one["loc"]), "input": one["input"], "ctx": one.get("ctx", {})}
        for one in error.errors(include_url=False)[:MOST_TOLD]
    ]
