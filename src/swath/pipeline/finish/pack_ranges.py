"""Ranges of packs: many records and lines in few reads. Before: somebody has the artifacts of many items. After: each
range is read at once, and what lies in it is cut out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["PackRange", "ranges_of"]

_RANGE_BYTES: Final = 4 * 1024 * 1024
_GAP_BYTES: Final = 64 * 1024  # what a read costs in a bucket is worth more bytes than these


Place = TypeVar("Place", bound=tuple[str, int, int, str])
"""A `PackedAt`, or what begins like one: pack, first byte, length."""


class PackRange(NamedTuple, Generic[Place]):
    """Neighbours in one pack, by where they begin; requests and what lost may lie between them."""

    pack: str
    start: int
    length: int
    places: tuple[Place, ...]

    def cut(self, data: bytes) -> list[bytes]:
        """The bytes of each place, of what was read for the range; short where that is too short."""
        first = self.start
        return [data[start - first : start - first + length] for _, start, length, _ in self.places]


def ranges_of(places: Iterable[Place]) -> Iterator[PackRange[Place]]:
    """All of them, in ranges of a few MiB at most, unless one place alone has more."""
    run: list[Place] = []
    its_pack, its_start, its_end = "", 0, 0
    for place in sorted(places):
        pack, start, length, _ = place  # by names it would take longer than all else here
        end = start + length
        if pack != its_pack or start > its_end + _GAP_BYTES or end - its_start > _RANGE_BYTES:
            if run:
                yield PackRange(its_pack, its_start, its_end - its_start, tuple(run))
            run, its_pack, its_start, its_end = [], pack, start, end
        run.append(place)
        if end > its_end:  # noqa: PLR1730 `max` is a call, for each of many
            its_end = end
    if run:
        yield PackRange(its_pack, its_start, its_end - its_start, tuple(run))
