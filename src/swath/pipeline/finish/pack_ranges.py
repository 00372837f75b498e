"""Ranges of packs: many records and lines in few reads. Before: somebody has the artifacts of many items. After: each
range is read at once, and what lies in it is cut out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from swath.domain.layout import PackedAt

__all__ = ["PackRange", "ranges_of"]

_BYTES: Final = itemgetter(0, 1, 2)  # of a place, without the name
_RANGE_BYTES: Final = 4 * 1024 * 1024
_GAP_BYTES: Final = 64 * 1024  # what a read costs in a bucket is worth more bytes than these


class PackRange(NamedTuple):
    """Neighbours in one pack, by where they begin; requests and what lost may lie between them."""

    pack: str
    start: int
    length: int
    places: tuple[PackedAt, ...]

    def cut(self, data: bytes) -> list[bytes]:
        """The bytes of each place, of what was read for the range; short where that is too short."""
        first = self.start
        return [data[start - first : start - first + length] for _, start, length, _ in self.places]


def ranges_of(places: Iterable[PackedAt]) -> Iterator[PackRange]:
    """Each place once, in ranges of a few MiB at most, unless one place alone has more."""
    run: list[PackedAt] = []
    first, last = ("", 0), ("", 0, 0)  # of the run: where it begins, and its last place
    end = 0
    for place in sorted(places, key=_BYTES):  # of files that share a line the first stays the first
        pack, start, length, _ = place  # by names it would take longer than all else here
        if (pack, start, length) == last:
            continue
        if run and (pack != first[0] or start > end + _GAP_BYTES or start + length - first[1] > _RANGE_BYTES):
            yield PackRange(*first, end - first[1], tuple(run))
            run, end = [], 0
        if not run:
            first = pack, start
        run.append(place)
        last = pack, start, length
        end = max(end, start + length)
    if run:
        yield PackRange(*first, end - first[1], tuple(run))
