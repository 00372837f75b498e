"""What every step of a recording has: where it acts, how long it may take, and what is done when it goes wrong.

Kinds of steps are in steps.py; the player reads these fields for all of them alike.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from swath.actions.language.selector import Selectors
from swath.actions.language.template import Text

__all__ = ["MAIN", "MOST_SECONDS", "NEWEST", "Acting", "Model", "OnElement", "Seconds", "Step"]

MAIN: Final = "main"
NEWEST: Final = "newest"
MOST_SECONDS: Final = 600.0

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]


class Model(BaseModel):
    """A part of a recording: nothing in it is passed over in silence, and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Step(Model):
    """`name` is what people see in tables and failures; without it the action and its selector."""

    name: Annotated[str, Field(max_length=200)] | None = None
    timeout_seconds: Seconds | None = Field(default=None, description="Of this step; else the recording's.")


class Acting(Step):
    """A step that does something on a page, in one of its frames, or in a window that it has opened."""

    target: Text = Field(default=MAIN, description="`main`, `newest`, or the address of a window or a frame.")
    frame: tuple[Annotated[int, Field(ge=0, le=1_000)], ...] | None = Field(
        default=None, max_length=10, description="Which frame: its number in the page, then in that frame, and so on."
    )
    navigates: bool = Field(default=False, description="Waits for the navigation that the action begins.")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(default=0, description="How often it is tried again.")
    optional: bool = Field(default=False, description="Passed over when it cannot be done.")


class OnElement(Acting):
    """A step that acts on one element."""

    on: Selectors
