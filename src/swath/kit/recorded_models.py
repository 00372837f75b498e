"""Input and Output of a recording: the columns that it declares, and the fields that its `extract` steps read.

Asked by action_scraper.py when a recording becomes a scraper.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model

from swath.actions.checking.names import objection_to_name
from swath.actions.language.recording import InputField, Recording
from swath.actions.language.rules import Rule, ValueType
from swath.actions.language.steps import AnyStep, Extract, ForEach, RepeatUntil, Stop
from swath.actions.language.walk import branches_of
from swath.actions.reading.values import parse_yes_no, typed
from swath.domain.errors import BadInput
from swath.domain.pattern import fullmatch
from swath.kit import models
from swath.web.reading.unreadable import Unreadable

__all__ = ["input_model", "output_model"]

_Number = Annotated[Decimal, PlainSerializer(lambda number: format(number, "f"), return_type=str, when_used="json")]
_TYPES: Final[dict[ValueType, Any]] = {
    "text": str,
    "integer": int,
    "number": _Number,
    "money": models.Money,
    "date": models.Date,
    "yes_no": bool,
}
_SCHEMAS: Final[dict[ValueType, dict[str, Any]]] = {
    "text": {"type": "string"},
    "integer": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
    "money": {"type": ["number", "string"]},
    "date": {"type": "string"},
    "yes_no": {"type": ["boolean", "string"]},
}
_M = TypeVar("_M", models.Input, models.Output)
_WORDS: Final = {"integer": "a whole number", "number": "a number", "money": "an amount", "date": "a date"}


def input_model(recording: Recording) -> type[models.Input]:
    """Values stay the texts that they were given as, because they are typed into pages; their types are only checked.

    What is yes or no is `yes` or `no`, however it was written.
    """
    fields: dict[str, Any] = {}
    for name, field in recording.inputs.items():
        _check_name(recording, name, "input")
        fields[name] = _input(field)
    return _made(f"{_title(recording)}Input", models.Input, fields)


def output_model(recording: Recording) -> type[models.Output]:
    """What is always read is required; what may be missing, or belongs to steps that are not always done, may be
    null."""
    return _record(recording, f"{_title(recording)}Output", _Fields().walked(recording.steps))


def _input(field: InputField) -> tuple[Any, Any]:
    schema = dict(_SCHEMAS[field.type])
    if field.pattern is not None:
        schema["pattern"] = f"^(?:{field.pattern})$"
    checked = Annotated[str, BeforeValidator(_checker(field)), WithJsonSchema(schema)]
    examples = None if field.example is None else [field.example]
    told = field.description or None
    if field.required:
        return checked, Field(description=told, examples=examples)
    blank = Annotated[checked | None, BeforeValidator(_none_if_blank)]
    return blank, Field(default=None, description=told, examples=examples)


def _checker(field: InputField) -> Any:
    pattern = field.pattern

    def check(given: Any) -> Any:
        if isinstance(given, bool):
            given = "yes" if given else "no"
        elif isinstance(given, (int, float, Decimal)):
            given = str(given)
        if not isinstance(given, str):
            return given  # pydantic says what is wrong with it
        text = given.strip()
        if not text:
            raise ValueError("must not be empty")
        if pattern is not None and fullmatch(pattern, text) is None:
            raise ValueError(f"must match {pattern!r}")
        return _of_its_type(text, field.type)

    return check


def _of_its_type(text: str, kind: ValueType) -> str:
    try:
        if kind == "yes_no":
            said = parse_yes_no(text)
            if said is None:
                raise Unreadable(text, "yes or no")
            return "yes" if said else "no"
        if typed(text, kind) is None:
            raise Unreadable(text, kind)
    except Unreadable:
        raise ValueError(f"must be {_WORDS.get(kind, 'yes or no')}") from None
    return text


def _none_if_blank(given: Any) -> Any:
    return None if isinstance(given, str) and not given.strip() else given


class _Fields(dict[str, tuple[Any, bool]]):
    """By name: the rule, or the fields of a loop's records, and whether it is always there. `flatten` names the one
    whose rows are the loop's records."""

    flatten: str | None = None

    def walked(self, steps: Sequence[AnyStep], *, always: bool = True) -> _Fields:
        for step in steps:
            if isinstance(step, Extract):
                self._add(step.field, step, always=always and not step.optional)
            elif isinstance(step, (ForEach, RepeatUntil)):
                if step.collect is not None:
                    inside = self[step.collect][0] if step.collect in self else _Fields()
                    inside.flatten = step.flatten
                    self[step.collect] = (inside.walked(step.steps), False)
            else:
                for _, branch in branches_of(step):
                    self.walked(branch, always=False)
            always = always and not _may_end(step)
        return self

    def _add(self, name: str, rule: Rule, *, always: bool) -> None:
        """Steps that read the same field are of one kind: the check of the recording has seen to that."""
        self[name] = (rule, always or (name in self and self[name][1] and not rule.optional))


def _may_end(step: AnyStep) -> bool:
    """Whether what comes after it may never be done in an item that goes well."""
    if isinstance(step, Stop):
        return step.outcome == "success"
    return any(_may_end(inner) for _, branch in branches_of(step) for inner in branch)


def _record(recording: Recording, title: str, fields: _Fields) -> type[models.Output]:
    made: dict[str, Any] = {}
    for name, (what, always) in fields.items():
        _check_name(recording, name, "field")
        if isinstance(what, _Fields):
            inner = _record_of_loop(recording, f"{title}{_camel(name)}", what)
            made[name] = (list[inner], Field(default_factory=list))  # type: ignore[valid-type] # made just now
        else:
            kind, told = _type_of(recording, what, f"{title}{_camel(name)}"), getattr(what, "name", None)
            made[name] = (kind, Field(description=told)) if always else (kind | None, Field(None, description=told))
    return _made(title, models.Output, made)


def _record_of_loop(recording: Recording, title: str, fields: _Fields) -> Any:
    if fields.flatten is None:
        return _record(recording, title, fields)
    rule: Rule = fields[fields.flatten][0]
    if rule.kind == "table" and rule.columns is None:
        return dict[str, Any]  # what its headings are is known when they are read
    others = {name: field for name, field in fields.items() if name != fields.flatten}
    rows = rule.fields or {name: Rule(on=rule.on) for name in rule.columns or ()}
    return _record(
        recording, title, _Fields({**others, **{name: (one, not one.optional) for name, one in rows.items()}})
    )


def _type_of(recording: Recording, rule: Rule, title: str) -> Any:
    if rule.kind == "count":
        return int
    if rule.kind == "table":
        if rule.columns is None:
            return list[dict[str, str]]
        row = _made(title, models.Output, {_checked_name(recording, name): (str, ...) for name in rule.columns})
        return list[row]  # type: ignore[valid-type] # made just now
    value: Any = _TYPES[rule.type or "text"]
    if rule.kind != "list":
        return value
    if rule.fields is None:
        return list.__class_getitem__(value | None if rule.optional else value)
    fields = _Fields({name: (inner, not inner.optional) for name, inner in rule.fields.items()})
    inner = _record(recording, title, fields)
    return list[inner]  # type: ignore[valid-type] # made just now


def _made(title: str, base: type[_M], fields: dict[str, Any]) -> type[_M]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `copy` and `schema` may be fields: nobody calls these here
        made: type[_M] = create_model(title, __base__=base, **fields)
        return made


def _checked_name(recording: Recording, name: str) -> str:
    _check_name(recording, name, "field")
    return name


def _check_name(recording: Recording, name: str, what: str) -> None:
    """Raises BadInput. The check of a document has done so before; not everything comes out of one."""
    objection = objection_to_name(name)
    if objection is not None:
        raise BadInput(f"recording {recording.id!r}: {what}: {objection}")


def _title(recording: Recording) -> str:
    return _camel(re.sub(r"[^a-z0-9]+", "_", recording.id))


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
