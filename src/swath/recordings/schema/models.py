"""The models that steps are made of: base classes, conditions, and extraction rules; and how to walk into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from swath.recordings.schema.selectors import Selectors, part_of
from swath.recordings.schema.template import TEMPLATE, FilterCall, Text, parse_call

__all__ = [
    "MAIN",
    "MOST_SECONDS",
    "NEWEST",
    "Condition",
    "ElementStep",
    "FieldName",
    "Kind",
    "Mark",
    "ModelPart",
    "PageStep",
    "RecordingModel",
    "Rule",
    "Seconds",
    "Step",
    "ValueType",
    "join_path",
    "parts_of",
    "texts_of",
]

MAIN: Final = "main"
NEWEST: Final = "newest"
MOST_SECONDS: Final = 600.0

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]


class RecordingModel(BaseModel):
    """A part of a recording: nothing in it is passed over in silence, and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Step(RecordingModel):
    """`name` is what people see in tables and failures; without it the action and its selector."""

    name: Annotated[str, Field(max_length=200)] | None = None
    timeout_seconds: Seconds | None = Field(default=None, description="Of this step; else the recording's.")


class PageStep(Step):
    """A step that does something on a page, in one of its frames, or in a window that it has opened."""

    target: Text = Field(default=MAIN, description="`main`, `newest`, or the address of a window or a frame.")
    frame: tuple[Annotated[int, Field(ge=0, le=1_000)], ...] | None = Field(
        default=None, max_length=10, description="Which frame: its number in the page, then in that frame, and so on."
    )
    navigates: bool = Field(default=False, description="Waits for the navigation that the action begins.")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(default=0, description="How often it is tried again.")
    optional: bool = Field(default=False, description="Passed over when it cannot be done.")


class ElementStep(PageStep):
    """A step that acts on one element."""

    on: Selectors


class Mark(RecordingModel):
    """Something that a page shows: an element, a text, or a text in an element."""

    on: Selectors | None = None
    text: Annotated[Text, Field(min_length=1, max_length=1_000)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.on is None and self.text is None:
            raise ValueError("needs on, text, or both")
        return self


class Condition(Mark):
    """All that is named must hold. `value` is a template that is compared with `equals`, or is to be not empty."""

    state: Literal["visible", "hidden"] = "visible"
    url: Annotated[Text, Field(min_length=1, max_length=4_096)] | None = Field(
        default=None, description="A part of the address; * stands for anything."
    )
    value: Text | None = None
    equals: Text | None = None
    negate: bool = Field(default=False, alias="not", description="Turns it round.")
    target: Text = MAIN
    frame: tuple[Annotated[int, Field(ge=0, le=1_000)], ...] | None = Field(default=None, max_length=10)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.on is None and self.text is None and self.url is None and self.value is None:
            raise ValueError("needs one of on, text, url and value")
        if self.equals is not None and self.value is None:
            raise ValueError("equals compares a value: name one")
        return self


Kind = Literal["text", "attribute", "value", "html", "count", "list", "table"]
ValueType = Literal["text", "integer", "number", "money", "date", "yes_no"]
FieldName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,63}$")]


class Rule(RecordingModel):
    """`list` gives one value for each match: its text, an `attribute` of it, or a record of its `fields`, which are
    looked for inside. `table` gives a record for each row; `columns` names those that are wanted, by their headings.
    """

    on: Selectors
    kind: Kind = "text"
    attribute: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    fields: dict[FieldName, Rule] | None = Field(default=None, max_length=100)
    columns: dict[FieldName, str] | None = Field(default=None, max_length=200)
    transform: tuple[str, ...] = Field(
        default=(), max_length=10, description='Filters, in their order: ["trim", "regex(\\"[0-9]+\\")"].'
    )
    type: ValueType | None = Field(default=None, description="What the text is read as.")
    optional: bool = Field(default=False, description="May be missing: its value is then null.")

    @field_validator("on")
    @classmethod
    def _is_readable_when_stored(cls, on: Selectors) -> Selectors:
        for chain in on:
            for text in chain:
                if part_of(text).kind == "aria":
                    raise ValueError(
                        "aria selectors need a browser, and stored pages have none: use css, xpath or text"
                    )
        return on

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "attribute" and self.attribute is None:
            raise ValueError("kind attribute needs the name of the attribute")
        if self.attribute is not None and self.kind not in ("attribute", "list"):
            raise ValueError(f"kind {self.kind} has no attribute")
        if self.fields is not None and self.kind != "list":
            raise ValueError("only a list has fields")
        if self.columns is not None and self.kind != "table":
            raise ValueError("only a table has columns")
        if self.kind in ("count", "table", "html") and self.type is not None:
            raise ValueError(f"kind {self.kind} has a type of its own")
        self.calls  # noqa: B018 raises when one cannot be called
        return self

    @property
    def calls(self) -> tuple[FilterCall, ...]:
        """The transforms, as they are applied. Raises ValueError for one that does not exist."""
        return tuple(map(parse_call, self.transform))


class ModelPart(NamedTuple):
    """A model inside a step, with the path that leads to it; the step itself has none."""

    path: str
    model: RecordingModel


def parts_of(model: RecordingModel, path: str = "") -> Iterator[ModelPart]:
    """The model and all inside it, but for the steps: they have places of their own (walk.py)."""
    yield ModelPart(path, model)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        within = join_path(path, field.alias or name)
        if isinstance(value, Mapping):
            for key, part in value.items():
                if isinstance(part, RecordingModel):
                    yield from parts_of(part, join_path(within, key))
        elif isinstance(value, RecordingModel) and not isinstance(value, Step):
            yield from parts_of(value, within)


def texts_of(part: ModelPart) -> Iterator[tuple[str, str]]:
    """The templates of one part, with their paths."""
    for name in _templated(type(part.model)):
        alias = type(part.model).model_fields[name].alias or name
        for text in _strings(getattr(part.model, name)):
            yield join_path(part.path, alias), text


def join_path(path: str, name: str) -> str:
    """A path one step further."""
    return f"{path}.{name}" if path else name


@cache
def _templated(model: type[RecordingModel]) -> tuple[str, ...]:
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if _is_template(field.metadata) or _mentions(field.annotation))


def _is_template(metadata: Any) -> bool:
    return any(one is TEMPLATE for one in metadata)


def _mentions(annotation: Any) -> bool:
    """Whether a template is somewhere in the type of a field."""
    if _is_template(getattr(annotation, "__metadata__", ())):
        return True
    return any(_mentions(inner) for inner in get_args(annotation))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _strings(part)
