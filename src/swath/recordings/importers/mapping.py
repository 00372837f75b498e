"""The mapping file: how the recordings of any recorder become ours, written in YAML instead of Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from swath.domain.errors import BadInput
from swath.domain.validation_messages import describe_validation
from swath.fetch.sites.strict_yaml import parse_yaml
from swath.recordings.importers.conversion import BranchWords
from swath.recordings.validation.problems import ACTIONS

__all__ = ["ActionCase", "ActionMapping", "RecorderMapping", "Source", "parse_mapping", "read_mapping"]

_MOST_BYTES: Final = 1 << 20

Scalar = str | int | float | bool
FieldPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=500)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


def _as_tuple(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


class Source(_Part):
    """Where a value of ours comes from: the first of some fields of theirs that is there, or a constant.

    `values` translates; what is not in it stays as it is, or becomes `otherwise`. `prefixes` translates the beginnings
    of selectors (`css=` → `css/`, `name=` → `[name="{}"]`), `prefix` is put before them, `scale` multiplies, `type`
    converts.
    """

    paths: tuple[FieldPath, ...] = Field(default=(), alias="from", max_length=20)
    constant: Scalar | None = None
    values: dict[str, Scalar] = Field(default_factory=dict, max_length=1_000)
    otherwise: Scalar | None = None
    prefixes: dict[str, str] = Field(default_factory=dict, max_length=50)
    prefix: str = ""
    scale: Annotated[float, Field(allow_inf_nan=False)] | None = None
    type: Literal["text", "number", "integer", "yes_no", "field_name"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_one_path(cls, given: Any) -> Any:
        """`url: href` is short for `url: {from: [href]}`."""
        whole = {"from": given} if isinstance(given, str) else given
        if not isinstance(whole, dict) or "from" not in whole:
            return whole
        paths = whole["from"]
        return {**whole, "from": (paths,) if isinstance(paths, str) else _as_tuple(paths)}

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        if bool(self.paths) == (self.constant is not None):
            raise ValueError("needs either from, the fields of theirs, or constant")
        return self


def _as_sources(given: Any) -> Any:
    return _as_tuple(given) if isinstance(given, list) else (given,)


Sources = Annotated[tuple[Source, ...], BeforeValidator(_as_sources), Field(min_length=1, max_length=20)]


class ActionMapping(_Part):
    """A step of ours, and where each of its fields comes from. Of several sources for `on` each that is there is an
    alternative; for any other field the first one counts."""

    do: str
    fields: dict[str, Sources] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_step(self) -> Self:
        _check_step(self.do, self.fields)
        return self


def _as_values(given: Any) -> Any:
    return _as_tuple(given) if isinstance(given, list) else (given,)


Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_values), Field(min_length=1, max_length=100)]


class ActionCase(_Part):
    """What one action of theirs is with us: a step, or several `steps` in their order. `when`: only if the fields at
    these paths have one of these values."""

    when: dict[FieldPath, Values] = Field(default_factory=dict, max_length=20)
    do: str | None = None
    fields: dict[str, Sources] = Field(default_factory=dict)
    steps: Annotated[tuple[ActionMapping, ...], BeforeValidator(_as_tuple), Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _says_what_it_is(self) -> Self:
        if (self.do is None) != bool(self.steps) or (self.steps and self.fields):
            raise ValueError("needs either do, with fields, or steps, a list of such")
        if self.do is not None:
            _check_step(self.do, self.fields)
        return self

    @property
    def made(self) -> tuple[ActionMapping, ...]:
        """The steps."""
        return self.steps if self.do is None else (ActionMapping.model_construct(do=self.do, fields=self.fields),)


Cases = Annotated[tuple[ActionCase, ...], BeforeValidator(_as_sources), Field(min_length=1, max_length=50)]


def _check_step(do: str, fields: dict[str, Sources]) -> None:
    """Raises ValueError."""
    model = ACTIONS.get(do)
    if model is None:
        raise ValueError(f"there is no step {do!r}; there is {', '.join(ACTIONS)}")
    known = {field.alias or name for name, field in model.model_fields.items()} - {"do"}
    for name in fields:
        if name not in known:
            raise ValueError(f"{do} has no field {name!r}; it has {', '.join(sorted(known))}")
    for name, field in model.model_fields.items():
        if field.is_required() and name != "do" and name not in fields:
            raise ValueError(f"{do} needs the field {name!r}: say where it comes from")


class Branches(_Part):
    """Actions that begin a condition, part its branches, and end it, where they have other names than `if`, `else` and
    `end`."""

    begin: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = Field(default=(), alias="else")
    end: tuple[str, ...] = ()

    @property
    def words(self) -> BranchWords:
        """As branching.py takes them."""
        return BranchWords(self.begin, self.otherwise, self.end)


class Ignored(_Part):
    """What is left out and need not be told of: actions by their names, fields by their paths."""

    actions: tuple[str, ...] = ()
    fields: tuple[FieldPath, ...] = ()


class RecorderMapping(_Part):
    """`steps` is the path to the list of steps, `.` when the document is that list; `action` the field that names what
    is done; of several cases of an action the first that fits counts. `base_url` is what addresses without a host
    belong to. `each` are fields of every action, for the steps that have them."""

    swath_mapping: Literal[1]
    name: Annotated[str, Field(max_length=200)] = "another recorder"
    format: Literal["json", "jsonl"] = "json"
    steps: Literal["."] | FieldPath = "."
    title: FieldPath | None = None
    action: FieldPath
    base_url: Source | None = None
    step_seconds: Source | None = None
    each: dict[str, Sources] = Field(default_factory=dict)
    actions: dict[str, Cases] = Field(min_length=1, max_length=500)
    branches: Branches = Branches()
    ignore: Ignored = Ignored()

    @model_validator(mode="after")
    def _says_things_once(self) -> Self:
        known = {name for model in ACTIONS.values() for name in model.model_fields}
        for name in self.each:
            if name not in known:
                raise ValueError(f"each: no step has a field {name!r}")
        both = sorted(set(self.ignore.actions) & set(self.actions))
        if both:
            raise ValueError(f"the action {both[0]!r} is mapped, and ignored as well")
        return self


def read_mapping(path: str | Path) -> RecorderMapping:
    """Raises BadInput, in one line with the place."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > _MOST_BYTES:
        raise BadInput(f"{path}: is larger than 1 MiB, which no mapping is; name the right file")
    try:
        return parse_mapping(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not UTF-8 text; save it as UTF-8") from None


def parse_mapping(text: str, name: str) -> RecorderMapping:
    """Raises BadInput, in one line with the place."""
    try:
        content = parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise BadInput(f"{name}: {line}{error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{name}: is no YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{name}: is no mapping: it begins with swath_mapping: 1, and has action and actions")
    try:
        return RecorderMapping.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise BadInput(f"{name}: {_as_written(describe_validation(error, RecorderMapping), content)}") from None
    except TypeError:
        raise BadInput(f"{name}: has a date or another value that JSON does not know; write it in quotes") from None


def _as_written(message: str, content: dict[str, Any]) -> str:
    """An action that has one case has no number there."""
    found = re.match(r"actions\.(?P<action>.+?)\.0(?=[.:])", message)
    if found is None or not isinstance(content["actions"].get(found["action"]), dict):
        return message
    return f"actions.{found['action']}{message[found.end() :]}"
