"""What a worker runs and waits for, written into its lock file so that it outlives the process.

A note is one write into mapped memory: it does not block, needs no free disk space, costs less than a system call,
and
is kept by the kernel when the process dies.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from typing import Final

from swath.domain.job import WaitingFor

__all__ = ["WorkerNotes", "is_signed_by", "read_running", "read_waiting_for"]

_HEADER_BYTES: Final = 16  # the first says what it waits for, the last eight are the stamp
_STAMP_BYTES: Final = 8
_STAMP_AT: Final = 8
_NOTE: Final = struct.Struct("<QQ")  # fence, seq; all zero where nothing is noted
_NOTES: Final = 4_000  # room that is written beforehand; more than these are noted if the disk allows it
_WAITING: Final = (None, *WaitingFor)


class WorkerNotes:
    """What the worker that holds the file writes there."""

    def __init__(self, descriptor: int, former: WorkerNotes | None = None) -> None:
        """Takes over what the `former` file said. Raises OSError when there is no room for it."""
        self._descriptor = descriptor
        self._places: dict[tuple[int, int], int] = {}
        self._free: list[int] = []  # places that were used before
        empty = bytes(_HEADER_BYTES + _NOTES * _NOTE.size)
        if os.pwrite(descriptor, empty, 0) != len(empty):
            raise OSError("a lock file was cut short")
        os.ftruncate(descriptor, len(empty))
        self._memory = mmap.mmap(descriptor, len(empty))
        if former is not None:
            former.copy_to(self)

    def sign(self, worker_id: str) -> None:
        """From now on the file proves the worker's death when nobody holds its lock."""
        self._memory[_STAMP_AT:_HEADER_BYTES] = _stamp(self._descriptor, worker_id)

    def disown(self) -> None:
        """The file proves nothing any more, wherever it has been moved to: its worker has another."""
        self._memory[_STAMP_AT:_HEADER_BYTES] = bytes(_STAMP_BYTES)

    def begin(self, fence: int, seq: int) -> None:
        """The item runs."""
        if (fence, seq) in self._places:
            return
        place = self._free.pop() if self._free else len(self._places)  # none is free: all below it are taken
        self._places[fence, seq] = place
        self._write(place, fence, seq)

    def leave(self, fence: int, seq: int) -> None:
        """The item does not run any more."""
        place = self._places.pop((fence, seq), None)
        if place is not None:
            self._free.append(place)
            self._write(place, 0, 0)

    @property
    def anything_runs(self) -> bool:
        """Whether an item runs."""
        return bool(self._places)

    def copy_to(self, other: WorkerNotes) -> None:
        """The other file says the same from now on."""
        other.wait_for(_WAITING[self._memory[0]])
        for fence, seq in self._places:
            other.begin(fence, seq)

    def wait_for(self, what: WaitingFor | None) -> None:
        """What it waits for from now on."""
        self._memory[0] = _WAITING.index(what)

    def close(self) -> None:
        """Lets go of the memory, which holds the file, and so its lock, too."""
        self._memory.close()

    def _write(self, place: int, fence: int, seq: int) -> None:
        if place < _NOTES:
            _NOTE.pack_into(self._memory, _HEADER_BYTES + place * _NOTE.size, fence, seq)
        else:
            os.pwrite(self._descriptor, _NOTE.pack(fence, seq), _HEADER_BYTES + place * _NOTE.size)


def is_signed_by(descriptor: int, worker_id: str) -> bool:
    """Whether the worker made this very file, and has made no other since: then it carries the number of its own inode
    and the worker's name.

    A copy, a file restored from a backup, one of another worker and an empty one do not, so they say nothing about any
    process."""
    return os.pread(descriptor, _STAMP_BYTES, _STAMP_AT) == _stamp(descriptor, worker_id)


def _stamp(descriptor: int, worker_id: str) -> bytes:
    named = f"{os.fstat(descriptor).st_ino}/{worker_id}"
    return hashlib.blake2b(named.encode(), digest_size=_STAMP_BYTES).digest()


def read_running(descriptor: int) -> frozenset[tuple[int, int]]:
    """The items, by fence and number, that the worker of this file runs or ran when it died."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)[_HEADER_BYTES:]
    whole = len(data) - len(data) % _NOTE.size
    return frozenset(note for note in _NOTE.iter_unpack(data[:whole]) if note != (0, 0))


def read_waiting_for(descriptor: int) -> WaitingFor | None:
    """What the worker of this file waits for, or did when it died."""
    first = os.pread(descriptor, 1, 0)
    return _WAITING[first[0]] if first and first[0] < len(_WAITING) else None
