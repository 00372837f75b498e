"""Changes: waits between two turns of a loop until scripts have done what the turn before has set off. A page that
stays where it is says nothing when its new rows are there.

Asked by run.py, for each loop that leads on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Self

from swath.actions.language.steps import AnyStep, Extract, RepeatUntil
from swath.actions.player.ground import MAYBE_SECONDS, Ground, nothing_between
from swath.actions.player.timing import called
from swath.browser.session.document import Document
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.browser.stage.script_requests import ScriptRequests
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown

__all__ = ["Changes"]

_MOST_READ: Final = 1_000  # elements of one step
_SHOWS_SECONDS: Final = 0.3  # that a script gets to show what has come, or to ask for more


class _Seen(NamedTuple):
    """What a step reads, as it stands there. The document is compared by identity: each load makes a new one."""

    document: Document | None
    url: str
    texts: list[str]


class Changes:
    """Those of one loop, of which these steps read. What scripts ask for is watched while it is entered."""

    def __init__(self, ground: Ground, loop: RepeatUntil, reading: Sequence[AnyStep]) -> None:
        self._ground = ground
        self._loop = loop
        self._reading = _telling([step for step in reading if isinstance(step, Extract)], loop.flatten)
        self._read: list[_Seen | None] = []
        self._front: Document | None = None
        self._clock = ground.stage.inside.clock
        self._asked = ScriptRequests(ground.stage.calls.page.context, self._clock)
        self._patience = loop.timeout_seconds or MAYBE_SECONDS

    def __enter__(self) -> Self:
        self._asked.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.__exit__()

    async def note(self) -> None:
        """The turn has read what it reads, and is about to lead on."""
        self._read, self._front = await self._seen(), self._shown()
        self._asked.forget()

    async def wait(self) -> None:
        """Until the document is a new one; or something of what was read is different, and all has come that scripts
        have asked for. Where they ask for nothing not for long, since pages may be alike. Raises Failed timeout for
        what is not answered: the turn after it would read what was there before."""
        began = self._clock.boot()

        async def enough() -> bool:
            seen = await self._seen()
            if self._shown() is not self._front or any(map(_is_elsewhere, self._read, seen)):
                return True
            quiet = self._asked.quiet_seconds
            if quiet < _SHOWS_SECONDS:
                return False
            changed = not any(self._read) or any(map(_differ, self._read, seen))
            return changed or min(quiet, self._clock.boot() - began) >= self._patience

        if not await self._looked(enough) and not self._asked.is_answered:
            where = shown(self._ground.stage.calls.page.url)
            message = f"what a script of {where} has asked for did not come in {self._seconds:g} s"
            raise Failed(Failure.of(FailureKind.TIMEOUT, message))

    async def lasts(self, holds: Callable[[], Awaitable[bool]], since: float) -> bool:
        """Whether what holds goes on to hold, from then on or since scripts had the last answer: a page that is being
        drawn lacks everything. `since` is on the boot clock."""
        held = True

        async def enough() -> bool:
            nonlocal held
            held = await holds()
            return not held or min(self._asked.quiet_seconds, self._clock.boot() - since) >= self._patience

        await self._looked(enough)
        return held

    @property
    def _seconds(self) -> float:
        """How long it is waited for scripts: as for an element."""
        return max(self._patience, self._ground.recording.step_seconds)

    async def _looked(self, enough: Callable[[], Awaitable[bool]]) -> bool:
        stage = self._ground.stage

        async def look(deadline: Deadline) -> bool:
            return await stage.until(Place(stage.calls.page), deadline, enough, nothing_between)

        return await stage.run(called(self._loop), self._seconds, look)

    def _shown(self) -> Document | None:
        return self._ground.stage.inside.documents.shown_in(self._ground.stage.calls.page)

    async def _seen(self) -> list[_Seen | None]:
        return [await self._seen_by(step) for step in self._reading]

    async def _seen_by(self, step: Extract) -> _Seen | None:
        stage, scope = self._ground.stage, self._ground.scope
        place = stage.place_now(scope.target(step.target), step.frame)
        frame = None if place is None else place.frame
        if place is None or frame is None:
            return None
        document = stage.inside.documents.shown_in(place.page)
        return _Seen(document, frame.url, await stage.search.texts(place, scope.chains(step.on), _MOST_READ))


def _is_elsewhere(before: _Seen | None, now: _Seen | None) -> bool:
    return before is not None and now is not None and before.document is not now.document


def _differ(before: _Seen | None, now: _Seen | None) -> bool:
    if before is None or now is None:
        return before is not now
    return before[1:] != now[1:]


def _telling(steps: list[Extract], flatten: str | None) -> list[Extract]:
    """Those that change with the turn: what is flattened, else tables and lists, else whatever is read."""
    flat = [step for step in steps if step.field == flatten]
    return flat or [step for step in steps if step.kind in {"table", "list"}] or steps
