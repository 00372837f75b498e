"""Recording: a whole document of the action language, checked from end to end before anything of it runs.

Read by document.py, made by importing/, shown by `swath recording show`, and played by player/ for each item of a job.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from swath.actions.language.conditions import Mark
from swath.actions.language.rules import FieldName, ValueType
from swath.actions.language.step import Model, Seconds
from swath.actions.language.steps import AnyStep

__all__ = ["DEFAULT_STEP_SECONDS", "InputField", "Recording", "Recovery"]

DEFAULT_STEP_SECONDS: Final = 5.0


def _as_number(given: Any) -> Any:
    """To Python true is 1; to nobody else."""
    return str(given).lower() if isinstance(given, bool) else given


class InputField(Model):
    """A column that each item has. `example` is what was recorded, or what people may try it with."""

    type: ValueType = "text"
    required: bool = True
    pattern: Annotated[str, Field(max_length=1_000)] | None = Field(
        default=None, description="What its text must match."
    )
    example: Annotated[str, Field(max_length=10_000)] | None = None
    description: Annotated[str, Field(max_length=1_000)] = ""


class Recovery(Model):
    """What is done when a step cannot be done and `when` is shown: a survey is closed, a cookie banner sent away. The
    step is then tried again; at most `times` in one item."""

    when: Mark
    steps: tuple[AnyStep, ...] = Field(min_length=1, max_length=20)
    times: Annotated[int, Field(ge=1, le=20)] = 3


class Recording(Model):
    """`not_found` are marks of the site's word that there is no such record: then an item is that, and no failure."""

    swath_recording: Annotated[Literal[1], BeforeValidator(_as_number)] = Field(
        description="The version of the language."
    )
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
    name: Annotated[str, Field(max_length=200)] = ""
    version: Annotated[str, Field(min_length=1, max_length=50)] = "1"
    description: Annotated[str, Field(max_length=2_000)] = ""
    sites: tuple[Annotated[str, Field(min_length=1, max_length=253)], ...] = Field(default=(), max_length=100)
    base_url: Annotated[str, Field(max_length=4_096)] | None = None
    step_seconds: Seconds = Field(default=DEFAULT_STEP_SECONDS, description="How long a step may take.")
    dialogs: Literal["accept", "dismiss"] = Field(default="accept", description="How the page's dialogs are answered.")
    keep_session: bool = Field(default=False, description="Items on one site share cookies and storage.")
    mobile: bool = False
    block: tuple[Literal["font", "image", "media", "stylesheet"], ...] = ()
    screenshot: Literal["never", "failure", "always"] = "failure"
    inputs: dict[FieldName, InputField] = Field(default_factory=dict, max_length=100)
    steps: tuple[AnyStep, ...] = Field(min_length=1)
    not_found: tuple[Mark, ...] = Field(default=(), max_length=20)
    recover: tuple[Recovery, ...] = Field(default=(), max_length=20)
    notes: tuple[Annotated[str, Field(max_length=4_000)], ...] = Field(
        default=(), max_length=500, description="What an importer could not carry over."
    )
