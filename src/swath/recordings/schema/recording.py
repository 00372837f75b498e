"""A whole recording: its model, its steps in order with their places, and the stored page that each `extract` reads.

A place names a step in messages: `4`, or `4.then.1` for the first step that a condition guards. Which page belongs
to
which extract is known before anything runs, so the same rules find it again years later; in a loop each turn has its
own: `html-t1`, `html-t2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from swath.recordings.schema.models import Condition, FieldName, Mark, RecordingModel, Seconds, ValueType
from swath.recordings.schema.steps import (
    AnyStep,
    Download,
    Extract,
    ForEach,
    If,
    RepeatUntil,
    SavePage,
    Screenshot,
    Try,
)

__all__ = [
    "DEFAULT_STEP_SECONDS",
    "InputField",
    "PlacedStep",
    "Recording",
    "Recovery",
    "branches_of",
    "page_name",
    "page_names",
    "rests_on_absence",
    "steps_before_condition",
    "walk",
]

DEFAULT_STEP_SECONDS: Final = 5.0


def _as_number(given: Any) -> Any:
    """To Python true is 1; to nobody else."""
    return str(given).lower() if isinstance(given, bool) else given


class InputField(RecordingModel):
    """A column that each item has. `example` is what was recorded, or what people may try it with."""

    type: ValueType = "text"
    required: bool = True
    pattern: Annotated[str, Field(max_length=1_000)] | None = Field(
        default=None, description="What its text must match."
    )
    example: Annotated[str, Field(max_length=10_000)] | None = None
    description: Annotated[str, Field(max_length=1_000)] = ""


class Recovery(RecordingModel):
    """What is done when a step cannot be done and `when` is shown: a survey is closed, a cookie banner sent away. The
    step is then tried again; at most `times` in one item."""

    when: Mark
    steps: tuple[AnyStep, ...] = Field(min_length=1, max_length=20)
    times: Annotated[int, Field(ge=1, le=20)] = 3


class Recording(RecordingModel):
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


class PlacedStep(NamedTuple):
    """A step, where it stands, and the loops around it, the outermost first."""

    place: str
    step: AnyStep
    loops: tuple[ForEach | RepeatUntil, ...]


def branches_of(step: AnyStep) -> tuple[tuple[str, tuple[AnyStep, ...]], ...]:
    """The lists of steps inside a step, by the names they have in its place."""
    match step:
        case If():
            return (("then", step.then), ("else", step.otherwise))
        case ForEach() | RepeatUntil():
            return (("steps", step.steps),)
        case Try():
            return (("steps", step.steps), ("else", step.otherwise))
    return ()


def walk(recording: Recording) -> Iterator[PlacedStep]:
    """All steps, then those of the recovery rules: `recover.1.steps.2`."""
    yield from _walk("", recording.steps, ())
    for number, rule in enumerate(recording.recover, 1):
        yield from _walk(f"recover.{number}.steps.", rule.steps, ())


def _walk(before: str, steps: Sequence[AnyStep], loops: tuple[ForEach | RepeatUntil, ...]) -> Iterator[PlacedStep]:
    for number, step in enumerate(steps, 1):
        place = f"{before}{number}"
        yield PlacedStep(place, step, loops)
        inside = (*loops, step) if isinstance(step, (ForEach, RepeatUntil)) else loops
        for name, branch in branches_of(step):
            yield from _walk(f"{place}.{name}.", branch, inside)


_FIRST: Final = "html"


def page_names(recording: Recording) -> dict[str, str]:
    """By the place of each `extract` (see walk.py), the name of its page; `page_name` adds the turns of loops."""
    names: dict[str, str] = {}
    _name("", recording.steps, names, [0])
    return names


def page_name(name: str, turns: Sequence[int]) -> str:
    """`turns` counts from 1 in each loop around the step, the outermost first."""
    return "-".join([name, *(f"t{turn}" for turn in turns)])


def _name(before: str, steps: Sequence[AnyStep], names: dict[str, str], made: list[int]) -> None:
    last: Extract | None = None
    for number, step in enumerate(steps, 1):
        place = f"{before}{number}"
        if isinstance(step, Extract):
            if step.page is not None:
                names[place] = step.page
            elif last is not None and last.page is None and (last.target, last.frame) == (step.target, step.frame):
                names[place] = names[f"{before}{number - 1}"]
            else:
                made[0] += 1
                names[place] = _FIRST if made[0] == 1 else f"{_FIRST}-{made[0]}"
            last = step
            continue
        last = None
        for name, branch in branches_of(step):
            _name(f"{place}.{name}.", branch, names, made)


_READ: Final = (Extract, SavePage, Download)


def steps_before_condition(steps: Sequence[AnyStep]) -> int:
    """How many of the steps come before the condition. Pictures count as read only where nothing else is."""
    for kinds in (_READ, (Screenshot,)):
        last = max((number for number, step in enumerate(steps, 1) if _has(step, kinds)), default=0)
        if last:
            return last
    return 0


def rests_on_absence(condition: Condition) -> bool:
    """Whether it holds because something is not shown, as is every element of a page that is still being drawn."""
    looks = condition.on is not None or condition.text is not None
    return looks and (condition.state == "hidden") is not condition.negate


def _has(step: AnyStep, kinds: tuple[type, ...]) -> bool:
    return isinstance(step, kinds) or any(_has(inner, kinds) for _, branch in branches_of(step) for inner in branch)
