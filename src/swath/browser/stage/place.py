"""Place: where a step acts: a window, and a frame in it. It is looked up each time: pages put new frames there.

stage.py finds the window that a step's target names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from patchright.async_api import Frame, Page

__all__ = ["Place"]


class Place(NamedTuple):
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
