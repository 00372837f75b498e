"""Changes: waits between two turns of a loop until a script has changed what the turn before has read. A page that
stays where it is says nothing when its new rows are there.

Asked by run.py, for loops that read something and then lead on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from swath.actions.language.steps import AnyStep, Extract, RepeatUntil
from swath.actions.player.ground import MAYBE_SECONDS, Ground, nothing_between
from swath.actions.player.timing import called
from swath.browser.session.document import Document
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place

__all__ = ["Changes"]

_MOST_READ: Final = 1_000  # elements of one step


class _Seen(NamedTuple):
    """What a step reads, as it stands there. The document is compared by identity: each load makes a new one."""

    document: Document | None
    url: str
    texts: list[str]


class Changes:
    """Those of one loop, of which these steps read."""

    def __init__(self, ground: Ground, loop: RepeatUntil, reading: Sequence[AnyStep]) -> None:
        self._ground = ground
        self._loop = loop
        self._reading = _telling([step for step in reading if isinstance(step, Extract)], loop.flatten)
        self._read: list[_Seen | None] = []

    async def note(self) -> None:
        """The turn has read what it reads."""
        self._read = await self._seen()

    async def wait(self) -> None:
        """Until something of it is different, or the document is a new one. Not for long, since pages may be alike."""
        if not any(self._read):
            return
        ground = self._ground

        async def look(deadline: Deadline) -> bool:
            patience = deadline.at_most(self._loop.timeout_seconds or MAYBE_SECONDS)
            return await ground.stage.until(Place(ground.stage.calls.page), patience, changed, nothing_between)

        async def changed() -> bool:
            return any(map(_differ, self._read, await self._seen()))

        await ground.stage.run(called(self._loop), ground.seconds(self._loop), look)

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


def _differ(before: _Seen | None, now: _Seen | None) -> bool:
    if before is None or now is None:
        return before is not now
    return before.document is not now.document or before[1:] != now[1:]


def _telling(steps: list[Extract], flatten: str | None) -> list[Extract]:
    """Those that change with the turn: what is flattened, else tables and lists, else whatever is read."""
    flat = [step for step in steps if step.field == flatten]
    return flat or [step for step in steps if step.kind in {"table", "list"}] or steps
