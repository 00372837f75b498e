"""What every step of a play needs: the recording, the tab, the values its templates can name, and conditions.

Conditions look once and do not wait.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.element_search import FoundElement, RequiredState, SelectorChains
from swath.fetch.browser.tab.recording_tab import ElementAction, RecordingTab, WaitHook
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation, WindowTarget
from swath.recordings.player.login import LoginCheck
from swath.recordings.schema.models import Condition, Mark, PageStep, Step
from swath.recordings.schema.recording import Recording
from swath.recordings.schema.selectors import Selectors, part_of, render_selector_part
from swath.recordings.schema.template import LiteralText, Reference, parse_template, reference_value, render_template

__all__ = [
    "OPTIONAL_WAIT_SECONDS",
    "ConditionChecker",
    "PlayContext",
    "TemplateScope",
    "address_matches",
    "no_wait_hook",
]

_MARK: Final = "\0"  # in the place of a value


class TemplateScope:
    """`values` are what extract steps have read so far; `turns` the turns of the loops around the present step."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._loop: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.turns: tuple[int, ...] = ()

    def text(self, template: str) -> str:
        """Rendered. Raises Failed: invalid_input for what the item has not, or not in this form."""
        with _as_invalid_input(template):
            return render_template(template, self._names)

    def chains(self, selectors: Selectors) -> SelectorChains:
        """Rendered, as the stage takes them. What they mean is told by what is written, never by an item's data."""
        return [tuple(self._part(text) for text in chain) for chain in selectors]

    def target(self, template: str) -> WindowTarget:
        """Rendered, with what in it must be as it is, since it is the item's."""
        parts, address = parse_template(template).parts, self.text(template)
        values = [self._value(part) for part in parts if isinstance(part, Reference)]
        if not values:
            return WindowTarget(address)
        marked = "".join(part.text if isinstance(part, LiteralText) else _MARK for part in parts)
        before, _, fragment = marked.partition("#")
        path, _, query = before.partition("?")
        if any(set("?#") & set(value) for value in values[: path.count(_MARK)]):  # its query is the item's as well
            split = address.partition("#")[0].partition("?")
            return WindowTarget(address, sure=True, query=tuple(split[2].split("&")), fragment=True)
        in_query = iter(values[path.count(_MARK) :])
        pieces = tuple(re.sub(_MARK, lambda _: next(in_query), piece) for piece in query.split("&") if _MARK in piece)
        return WindowTarget(address, sure=True, query=pieces, fragment=_MARK in fragment)

    @contextmanager
    def turn(self, number: int, value: str | None = None) -> Iterator[None]:
        """One turn of a loop, counted from 1."""
        outer_loop, outer_turns = self._loop, self.turns
        self._loop = {"index": number} if value is None else {"index": number, "value": value}
        self.turns = (*outer_turns, number)
        try:
            yield
        finally:
            self._loop, self.turns = outer_loop, outer_turns

    def _part(self, text: str) -> tuple[str, str]:
        part = part_of(text)
        with _as_invalid_input(text):
            return part.kind, render_selector_part(part, self._value)

    @property
    def _names(self) -> Mapping[str, Any]:
        return {"input": self._given, "value": self.values, "loop": self._loop}

    def _value(self, reference: Reference) -> str:
        return reference_value(reference, self._names)


@contextmanager
def _as_invalid_input(template: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        message = f"{template!r} names {error.args[0]!r}, which has no value here"
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, message)) from None
    except ValueError as error:
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, f"{template!r}: {error}")) from None


class ConditionChecker:
    """Looks once, and does not wait."""

    def __init__(self, stage: RecordingTab, scope: TemplateScope) -> None:
        self._stage = stage
        self._scope = scope

    async def shown(self, mark: Mark, place: FrameLocation) -> bool:
        """In the frame of a place."""
        chains = None if mark.on is None else self._scope.chains(mark.on)
        text = None if mark.text is None else self._scope.text(mark.text)
        return await self._stage.search.shows(place, chains, text)

    async def shown_on(self, mark: Mark, place: FrameLocation) -> bool:
        """In the frame of a place, or in its window."""
        window = FrameLocation(place.page)
        if await self.shown(mark, window):
            return True
        return place != window and await self.shown(mark, place)

    async def holds(self, condition: Condition) -> bool:
        """All that it names. What is looked for in a window or a frame that is not there is not shown."""
        return await self._holds(condition) is not condition.negate

    async def _holds(self, condition: Condition) -> bool:
        if condition.value is not None:
            value = self._scope.text(condition.value)
            if not (value if condition.equals is None else value == self._scope.text(condition.equals)):
                return False
        if condition.url is None and condition.on is None and condition.text is None:
            return True
        place = self._stage.place_now(self._scope.target(condition.target), condition.frame)
        if condition.url is not None:
            frame = None if place is None else place.frame
            if frame is None or not address_matches(self._scope.text(condition.url), frame.url):
                return False
        if condition.on is None and condition.text is None:
            return True
        seen = place is not None and await self.shown(condition, place)
        return seen is (condition.state == "visible")


def address_matches(pattern: str, url: str) -> bool:
    """Whether a part of the address is like the pattern, in which * stands for anything."""
    at = 0
    for piece in pattern.split("*"):
        found = url.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


T = TypeVar("T")

OPTIONAL_WAIT_SECONDS: Final = (
    2.0  # that is waited for what need not be there: scripts have drawn most of a page by then
)


async def no_wait_hook(place: FrameLocation, deadline: Deadline) -> None:
    """Waits for nothing else."""
    del place, deadline


class PlayContext:
    """Of one play. `between` is asked while a step waits for something."""

    def __init__(self, recording: Recording, session: BrowserSession, scope: TemplateScope, files: Path | None) -> None:
        self.recording = recording
        self.session = session
        self.scope = scope
        self.files = files
        self.stage = RecordingTab(session)
        self.marks = ConditionChecker(self.stage, scope)
        self.login = LoginCheck(self.stage)
        self.between: WaitHook = no_wait_hook

    def seconds(self, step: Step) -> float:
        """How long a step may take."""
        return step.timeout_seconds or self.recording.step_seconds

    async def pause(self) -> None:
        """As a person would, before an action."""
        await self.stage.inside.hands.pause()

    async def in_place(
        self,
        what: str,
        step: PageStep,
        work: Callable[[FrameLocation, Deadline], Awaitable[T]],
        *,
        leads_on: bool = False,
    ) -> T:
        """Does something where the step says. What `leads_on` has the time of a document beside the step's own."""
        target = self.scope.target(step.target)

        async def begin(deadline: Deadline) -> T:
            return await work(await self.stage.place(target, step.frame, deadline), deadline)

        return await self.stage.run(what, self.seconds(step), begin, leads_on=leads_on)

    async def act(
        self,
        what: str,
        step: PageStep,
        do: Callable[[FrameLocation, Deadline], Awaitable[Any]],
        *,
        leads_on: bool = True,
    ) -> None:
        """The same for what may lead elsewhere, which is waited for."""
        await self.pause()

        async def work(place: FrameLocation, deadline: Deadline) -> None:
            await self.stage.act(place, deadline, lambda left: do(place, left), navigates=step.navigates)

        await self.in_place(what, step, work, leads_on=leads_on)

    async def on_element(
        self, what: str, step: PageStep, on: Selectors, do: ElementAction, needed: RequiredState = "visible"
    ) -> str | None:
        """Acts on an element. Which of the alternatives it was; None when it has shut its own window."""
        chains = self.scope.chains(on)
        await self.pause()

        async def work(place: FrameLocation, deadline: Deadline) -> int | None:
            async def use(found: FoundElement, left: Deadline) -> None:
                await self.login.element_found()
                await do(found, left)

            async def touch(left: Deadline) -> int:
                found = await self.stage.on_element(place, chains, left, use, needed=needed, between=self.between)
                return found.alternative

            return await self.stage.act(place, deadline, touch, navigates=step.navigates)

        won = await self.in_place(what, step, work, leads_on=True)
        return None if won is None else " > ".join(on[won])
