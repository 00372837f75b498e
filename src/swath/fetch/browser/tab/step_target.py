"""Where a step of a recording acts (a window, and a frame in it), and the time that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import Frame, Page

__all__ = ["MAIN", "NEWEST", "Deadline", "FrameLocation", "WindowTarget"]

MAIN: Final = "main"
NEWEST: Final = "newest"


class WindowTarget(NamedTuple):
    """`sure`: it holds data of the item. `query` are the pieces of its query that do; `fragment`: whether that does."""

    address: str
    sure: bool = False
    query: tuple[str, ...] = ()
    fragment: bool = False

    def is_at(self, url: str) -> bool:
        """To the letter."""
        return url == self.address

    def is_near(self, url: str) -> bool:
        """But for the query and the fragment, which differ from visit to visit; not so the item's data in them."""
        try:
            mine, wanted = urlsplit(url), urlsplit(self.address)
        except ValueError:
            return False
        if not wanted.netloc or mine[:2] != wanted[:2]:
            return False
        if not self.sure:
            return mine.path == wanted.path
        given = _pairs(mine.query)
        return (
            _decoded(mine.path) == _decoded(wanted.path)
            and all(pair in given for piece in self.query for pair in _pairs(piece))
            and (not self.fragment or _decoded(mine.fragment) == _decoded(wanted.fragment))
        )


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, errors="surrogateescape")  # which keeps different bytes different


def _decoded(text: str) -> str:
    return unquote(text, errors="surrogateescape")


class FrameLocation(NamedTuple):
    """`root` is the frame that a target named by its address; None is the window's own. `path` leads on from there."""

    page: Page
    root: Frame | None = None
    path: tuple[int, ...] = ()

    @property
    def frame(self) -> Frame | None:
        """The one that is there now; None when there is none, or not yet."""
        frame = self.page.main_frame if self.root is None else self.root
        if frame.is_detached():
            return None
        for index in self.path:
            there = [one for one in frame.child_frames if not one.is_detached()]  # some outlive their page for a while
            if index >= len(there):
                return None
            frame = there[index]
        return frame


class Deadline:
    """Begins when it is made."""

    def __init__(self, clock: Clock, idle_seconds: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._idle = idle_seconds
        self._until = clock.boot() - idle_seconds() + seconds
        self.seconds = seconds

    @property
    def left_seconds(self) -> float:
        """None is 0."""
        return max(0.0, self._until - self._clock.boot() + self._idle())

    def at_most(self, seconds: float) -> Deadline:
        """One of its own that begins now and is over no later."""
        return Deadline(self._clock, self._idle, min(seconds, self.left_seconds))

    @property
    def left_ms(self) -> float:
        """For the driver, to which 0 would mean for ever."""
        return max(1.0, self.left_seconds * 1_000)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left_seconds <= 0

    @property
    def spent_seconds(self) -> float:
        """Since it began."""
        return self.seconds - self.left_seconds

    async def pause(self, seconds: float) -> None:
        """A moment, or what is left."""
        await self._clock.sleep(min(seconds, self.left_seconds))
