"""Reads and changes job rows: read, decide, and write with all other rows if nobody was faster.

Lives on the event loop of the AWS thread; only `standing` may be called from elsewhere. Each change of the store is
a
function that gets a job row of its own and returns a JobChange.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from swath.backends.aws.client.rows import ABSENT, Delete, Put
from swath.backends.aws.dynamo.layout import JOBS, job_row_key, name_key
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.job_row import JobRow, decode_job_row, encode_job_row
from swath.backends.aws.store.job_specs import StaleJobRow
from swath.domain.errors import LeaseLost, StoreUnavailable, UnknownName, UserError
from swath.domain.job import JOB_ID_LIMIT, WaitingFor

__all__ = ["RESERVED_VERSION", "Decide", "JobChange", "JobRows", "StartPermission", "no_change"]

T = TypeVar("T")

RESERVED_VERSION: Final = 1  # the version of the head of a job that is being made, and which nobody sees
_TRIES: Final = 40  # with the pauses between them some ten seconds
_PAUSE_SECONDS: Final = (0.005, 0.4)
_REMEMBERED: Final = 4_096
_NEAR_NAMES: Final = 1_000


class JobChange(NamedTuple, Generic[T]):
    """What was decided: the answer, and what is to be written with the head in one commit."""

    answer: T
    rows: Sequence[Put | Delete] = ()
    writes: bool = True


Decide = Callable[[JobRow], Awaitable[JobChange[T]]]


def no_change(answer: T) -> JobChange[T]:
    """Nothing is to be written."""
    return JobChange(answer, (), writes=False)


class StartPermission(NamedTuple):
    """What a worker must know before each start, as of the last word from the table."""

    may_start: bool
    revision: int
    fences: frozenset[int]


class _CachedRow(NamedTuple):
    body: bytes
    version: int


class JobRows:
    """Changes of one job are made one at a time by this process, so that it never stands in its own way."""

    def __init__(self, table: Table, is_mine: Callable[[str], bool], tell: Callable[[str], None]) -> None:
        """`is_mine` says of a worker whether it belongs to this process; `tell` is told of each job that it changes."""
        self._table = table
        self._is_mine = is_mine
        self._tell = tell
        self._numbers: dict[str, int] = {}
        self._seen: OrderedDict[int, _CachedRow] = OrderedDict()
        self._standing: dict[str, StartPermission] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def standing(self, job_id: str) -> StartPermission | None:
        """From any thread; None when nothing is known."""
        return self._standing.get(job_id)

    async def find(self, job_id: str) -> JobRow | None:
        """The job as it is now, if there is one."""
        number = self._numbers.get(job_id)
        seen = None if number is None else await self._read(number)
        if seen is None:
            self._lose(job_id)
            if not _is_id(job_id):
                return None
            row = (await self._table.get(name_key(job_id))).get(name_key(job_id))
            if row is None:
                return None
            number = int(row.body)
            seen = await self._read(number)
            if seen is None:
                return None
            self._numbers[job_id] = number
        return decode_job_row(seen.body)

    async def look(self, job_id: str) -> JobRow:
        """The job as it is now. Raises UnknownName."""
        head = await self.find(job_id)
        if head is None:
            near = [row.body.decode() async for row in self._table.query(JOBS, reverse=True, limit=_NEAR_NAMES)]
            raise UnknownName.of("job", job_id, near, "see `swath jobs list` or GET /jobs")
        return head

    async def look_at(self, numbers: Collection[int]) -> list[JobRow]:
        """Those of these jobs that there are now, the oldest first."""
        rows = await self._table.get(*(job_row_key(number) for number in numbers))
        heads = []
        for number in sorted(numbers):
            row = rows.get(job_row_key(number))
            if row is not None:
                head = self._remember(_CachedRow(row.body, row.version))
                if not head.gone:
                    heads.append(head)
        return heads

    def newest(self, head: JobRow) -> JobRow:
        """The job as this process has last read or left it, which may be later than this head."""
        seen = self._seen.get(head.number)
        return head if seen is None else decode_job_row(seen.body)

    async def change(self, job_id: str, decide: Decide[T], *, just_read: bool = False) -> T:
        """Makes one change. What is refused, or changes nothing, was decided by the job as it is now.

        `just_read`: the caller has read it a moment ago, so it is most likely still so. Raises UnknownName, whatever
        `decide` raises, and StoreUnavailable when others are faster again and again.
        """
        async with self._locks.setdefault(job_id, asyncio.Lock()):
            known = self._last_seen(job_id) if just_read else self._known_alone(job_id)
            for tries in range(_TRIES):
                seen = known if tries == 0 and known is not None else await self._fresh(job_id)
                head = decode_job_row(seen.body)
                try:
                    change = await decide(head)
                except (UserError, LeaseLost, StaleJobRow, ValueError) as error:
                    if seen is known or isinstance(error, StaleJobRow):
                        continue  # it may look different when read again
                    raise
                if not change.writes and seen is not known:
                    return change.answer
                if change.writes and await self._write(head, seen.version, change.rows):
                    return change.answer
                if seen is not known:
                    await asyncio.sleep(_pause(tries))
        raise StoreUnavailable(f"too many change job {job_id!r} at once", WaitingFor.STORE)

    async def create(self, head: JobRow, rows: Sequence[Put | Delete], *, reserved: bool = False) -> bool:
        """Writes a new job, unless somebody else has one under its id. One that was reserved must still be so."""
        name = Put(name_key(head.job_id), str(head.number).encode(), version=1, expected=ABSENT)
        first = Put(job_row_key(head.number), encode_job_row(head), version=1, expected=ABSENT)
        if reserved:
            first = Put(first.key, first.body, version=RESERVED_VERSION + 1, expected=RESERVED_VERSION)
        if not await self._table.commit(name, first, *rows):
            return False
        self._numbers[head.job_id] = head.number
        self._remember(_CachedRow(first.body, first.version))
        self._tell(head.job_id)
        return True

    async def _write(self, head: JobRow, version: int, rows: Sequence[Put | Delete]) -> bool:
        put = Put(job_row_key(head.number), encode_job_row(head), version=version + 1, expected=version)
        try:
            written = await self._table.commit(put, *rows)
        except BaseException:
            self._seen.pop(head.number, None)  # it may have been written or not
            self._tell(head.job_id)
            raise
        if written:
            self._remember(_CachedRow(put.body, put.version))
            self._tell(head.job_id)
        else:
            self._seen.pop(head.number, None)
        return written

    def _known_alone(self, job_id: str) -> _CachedRow | None:
        """The head as this process left it, if nobody else is at work on the job: then it most likely is still so."""
        seen = self._last_seen(job_id)
        if seen is None:
            return None
        leases = decode_job_row(seen.body).leases
        return seen if leases and all(self._is_mine(lease.worker) for lease in leases) else None

    def _last_seen(self, job_id: str) -> _CachedRow | None:
        number = self._numbers.get(job_id)
        return None if number is None else self._seen.get(number)

    async def _fresh(self, job_id: str) -> _CachedRow:
        head = await self.look(job_id)
        return self._seen[head.number]

    async def _read(self, number: int) -> _CachedRow | None:
        row = (await self._table.get(job_row_key(number))).get(job_row_key(number))
        if row is None:
            return None
        seen = _CachedRow(row.body, row.version)
        return None if self._remember(seen).gone else seen

    def _remember(self, seen: _CachedRow) -> JobRow:
        head = decode_job_row(seen.body)
        if head.gone:
            self._seen.pop(head.number, None)
            if self._numbers.get(head.job_id) == head.number:
                self._lose(head.job_id)
            return head
        before = self._seen.get(head.number)
        if before is not None and before.version > seen.version:
            return head  # it was read before our last write and came after it
        self._numbers[head.job_id] = head.number
        self._seen[head.number] = seen
        self._seen.move_to_end(head.number)
        fences = frozenset(lease.fence for lease in head.leases if lease.runs)
        self._standing[head.job_id] = StartPermission(head.may_start, head.revision, fences)
        while len(self._seen) > _REMEMBERED:
            _, oldest = self._seen.popitem(last=False)
            self._lose(decode_job_row(oldest.body).job_id)
        return head

    def _lose(self, job_id: str) -> None:
        self._standing.pop(job_id, None)
        self._numbers.pop(job_id, None)


def _is_id(job_id: str) -> bool:
    """Whether a job can have it; the table refuses to look for others."""
    return 0 < len(job_id) <= JOB_ID_LIMIT and not any("\ud800" <= char <= "\udfff" for char in job_id)


def _pause(tries: int) -> float:
    first, most = _PAUSE_SECONDS
    return random.uniform(0.0, min(most, first * 2.0 ** min(tries, 16)))  # noqa: S311 jitter needs no crypto
