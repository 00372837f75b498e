"""Line: which lease of a worker starts the next item where there is room for one: the one that did so longest ago.

Else whoever has just ended an item would take its place again, and in a worker that is full a lease whose slots came
late would wait until another one is done. floor.py has one; runner.py stands in it and calls it when an item has ended.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Line", "Starts"]


class Starts(Protocol):
    """A lease in this worker's hands."""

    def start_next(self) -> bool:
        """Starts one item, if it has one and may; whether it did."""
        ...


class Line:
    """Whoever has just started something goes to the end."""

    def __init__(self) -> None:
        self._standing: list[Starts] = []

    def join(self, lease: Starts) -> None:
        """A lease has come; it has started nothing yet, so it is the first."""
        self._standing.insert(0, lease)

    def leave(self, lease: Starts) -> None:
        """It is over."""
        if lease in self._standing:
            self._standing.remove(lease)

    def fill(self) -> None:
        """Starts items until nobody can start another."""
        at = 0  # those before cannot start anything; that another one has does not change it
        while at < len(self._standing):
            if self._standing[at].start_next():
                self._standing.append(self._standing.pop(at))
            else:
                at += 1
