"""Ground: what every action of a play stands on: the recording, the stage, what templates can name, and how a step is
brought to its place.

Made by play.py; acts.py, waits.py and keeping.py do the steps on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from swath.actions.language.recording import Recording
from swath.actions.language.selector import Selectors
from swath.actions.language.step import Acting, Step
from swath.actions.player.login import Login
from swath.actions.player.marks import Marks
from swath.actions.player.scope import Scope
from swath.browser.session.session import BrowserSession
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.browser.stage.search import Found, Needed
from swath.browser.stage.stage import Between, Do, Stage

__all__ = ["MAYBE_SECONDS", "Ground", "nothing_between"]

T = TypeVar("T")

MAYBE_SECONDS: Final = 2.0  # that is waited for what need not be there: scripts have drawn most of a page by then


async def nothing_between(place: Place, deadline: Deadline) -> None:
    """Waits for nothing else."""
    del place, deadline


class Ground:
    """Of one play. `between` is asked while a step waits for something."""

    def __init__(self, recording: Recording, session: BrowserSession, scope: Scope, files: Path | None) -> None:
        self.recording = recording
        self.session = session
        self.scope = scope
        self.files = files
        self.stage = Stage(session)
        self.marks = Marks(self.stage, scope)
        self.login = Login(self.stage)
        self.between: Between = nothing_between

    def seconds(self, step: Step) -> float:
        """How long a step may take."""
        return step.timeout_seconds or self.recording.step_seconds

    async def pause(self) -> None:
        """As a person would, before an action."""
        await self.stage.inside.hands.pause()

    async def in_place(
        self, what: str, step: Acting, work: Callable[[Place, Deadline], Awaitable[T]], *, leads_on: bool = False
    ) -> T:
        """Does something where the step says. What `leads_on` has the time of a document beside the step's own."""
        target = self.scope.target(step.target)

        async def begin(deadline: Deadline) -> T:
            return await work(await self.stage.place(target, step.frame, deadline), deadline)

        return await self.stage.run(what, self.seconds(step), begin, leads_on=leads_on)

    async def act(
        self, what: str, step: Acting, do: Callable[[Place, Deadline], Awaitable[Any]], *, leads_on: bool = True
    ) -> None:
        """The same for what may lead elsewhere, which is waited for."""
        await self.pause()

        async def work(place: Place, deadline: Deadline) -> None:
            await self.stage.act(place, deadline, lambda left: do(place, left), navigates=step.navigates)

        await self.in_place(what, step, work, leads_on=leads_on)

    async def on_element(
        self, what: str, step: Acting, on: Selectors, do: Do, needed: Needed = "visible"
    ) -> str | None:
        """Acts on an element. Which of the alternatives it was; None when it has shut its own window."""
        chains = self.scope.chains(on)
        await self.pause()

        async def work(place: Place, deadline: Deadline) -> int | None:
            async def use(found: Found, left: Deadline) -> None:
                await self.login.element_found()
                await do(found, left)

            async def touch(left: Deadline) -> int:
                found = await self.stage.on_element(place, chains, left, use, needed=needed, between=self.between)
                return found.alternative

            return await self.stage.act(place, deadline, touch, navigates=step.navigates)

        won = await self.in_place(what, step, work, leads_on=True)
        return None if won is None else " > ".join(on[won])
