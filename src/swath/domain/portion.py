"""Portion: how much of a job's input is held in memory at once. Counts alone do not bound that: an input may be large.

Used by every store for leases and for pages of items, and by the finish step for parts of manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from swath.domain.item import Item, ItemRecord

__all__ = ["LEASE_BYTES", "PAGE_BYTES", "PART_BYTES", "Portion", "item_bytes"]

LEASE_BYTES: Final = 4 * 1024 * 1024  # of inputs in one lease; a claim writes their rows anew in one transaction
PAGE_BYTES: Final = 8 * 1024 * 1024  # of inputs and ends in one reading of items
PART_BYTES: Final = 16 * 1024 * 1024  # of entries in one part of a manifest list

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode


class Portion:
    """Takes things in order until it is full. The first is always taken, however large it is."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._empty = True
        self.full = False

    def take(self, things: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """Yields those that fit; the one that does not fit any more is the last that is looked at."""
        if self.full:
            return
        for thing in things:
            self._left -= size(thing)
            if self._left < 0 and not self._empty:
                self.full = True
                return
            self._empty = False
            yield thing


def item_bytes(item: Item | ItemRecord) -> int:
    """The size of its input as JSON, about as much as it takes in memory."""
    return len(_encode(item.input))
