"""Conditions: what `if`, `repeat_until` and the rules of a recording look for. They look once and do not wait."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from swath.actions.language.selector import Selectors
from swath.actions.language.step import MAIN, Model
from swath.actions.language.template import Text

__all__ = ["Condition", "Mark"]


class Mark(Model):
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
