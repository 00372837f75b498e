"""Ranges of packs: many records and lines in few reads. Before: somebody has the artifacts of many items. After: each
range is read at once, and what lies in it is cut out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from swath.domain.layout import PackedAt

__all__ = ["PackRange", "ranges_of"]

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
    distinct: dict[tuple[str, int, int], PackedAt] = {}
    for place in places:
        distinct.setdefault(place[:3], place)
    run: list[PackedAt] = []
    end = 0
    for place in sorted(distinct.values()):
        pack, start, length, _ = place  # by names it would take longer than all else here
        if run and (pack != run[0].pack or start > end + _GAP_BYTES or start + length - run[0].start > _RANGE_BYTES):
            yield _range(run, end)
            run, end = [], 0
        run.append(place)
        end = max(end, start + length)
    if run:
        yield _range(run, end)


def _range(run: Sequence[PackedAt], end: int) -> PackRange:
    return PackRange(run[0].pack, run[0].start, end - run[0].start, tuple(run))
