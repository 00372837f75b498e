"""Rules of extraction: which part of a page becomes which value. The same rule reads the page a moment after it was
shown and years later, from what was stored; see reading/.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from swath.actions.language.selector import Selectors, part_of
from swath.actions.language.step import Model
from swath.actions.language.template import Call, parse_call

__all__ = ["FieldName", "Kind", "Rule", "ValueType"]

Kind = Literal["text", "attribute", "value", "html", "count", "list", "table"]
ValueType = Literal["text", "integer", "number", "money", "date", "yes_no"]
FieldName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,63}$")]


class Rule(Model):
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
    def calls(self) -> tuple[Call, ...]:
        """The transforms, as they are applied. Raises ValueError for one that does not exist."""
        return tuple(map(parse_call, self.transform))
