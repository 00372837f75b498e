"""Script requests: what the scripts of a session's pages ask for while somebody watches, and whether it has come.

Watched by actions/player/changes.py, for a page that stays where it is and says nothing when its new rows are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Request, Response

__all__ = ["ScriptRequests"]

_KINDS: Final = frozenset({"fetch", "xhr"})


class ScriptRequests:
    """Those of all pages and frames that have begun since they are watched, or since the last `forget`."""

    def __init__(self, context: BrowserContext, clock: Clock) -> None:
        self._context = context
        self._clock = clock
        self._open: set[Request] = set()
        self._unanswered: set[Request] = set()
        self._ended_at: float | None = None

    def __enter__(self) -> Self:
        self._context.on("request", self._begun)
        self._context.on("response", self._answered)
        self._context.on("requestfinished", self._ended)
        self._context.on("requestfailed", self._ended)
        return self

    def __exit__(self, *_: object) -> None:
        self._context.remove_listener("request", self._begun)
        self._context.remove_listener("response", self._answered)
        self._context.remove_listener("requestfinished", self._ended)
        self._context.remove_listener("requestfailed", self._ended)

    def forget(self) -> None:
        """Those that have begun until now are not waited for."""
        self._open.clear()
        self._unanswered.clear()
        self._ended_at = None

    @property
    def is_answered(self) -> bool:
        """Whether the answer to each has begun to come. One that never ends is a stream of events."""
        return not self._unanswered

    @property
    def quiet_seconds(self) -> float:
        """For how long all of them have been over; without end when there was none."""
        if self._open:
            return 0.0
        return float("inf") if self._ended_at is None else self._clock.boot() - self._ended_at

    def _begun(self, request: Request) -> None:
        if request.resource_type in _KINDS:
            self._open.add(request)
            self._unanswered.add(request)

    def _answered(self, response: Response) -> None:
        self._unanswered.discard(response.request)

    def _ended(self, request: Request) -> None:
        self._unanswered.discard(request)
        if request in self._open:
            self._open.discard(request)
            self._ended_at = self._clock.boot()
