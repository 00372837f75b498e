"""Short read-only queries of a running job's store: how far it is, and who holds what."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.chaos.job import JOB_ID

__all__ = ["HeldItems", "JobProgress", "StoreReader"]

_ENDS: Final = frozenset({"completed", "partially_completed", "failed", "cancelled"})


@dataclass(frozen=True)
class JobProgress:
    """A job at one moment. `ending`: fence and process that hold the right to end it. `fence`: of the newest lease.

    `done` leaves out what was cancelled: a retry may take it up again. `put_off_seconds`: until somebody may end the
    job again, if workers have died in its ending.
    """

    state: str
    done: int
    ending: tuple[tuple[int, int], ...]
    fence: int
    generation: int
    put_off_seconds: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state in _ENDS


@dataclass(frozen=True)
class HeldItems:
    """What a process holds: fences, and the items that have not ended under them."""

    fences: frozenset[int]
    seqs: frozenset[int]


class StoreReader:
    """Answers None or nothing while the store is not there yet."""

    def __init__(self, database: Path, job_id: str = JOB_ID) -> None:
        self._path = database
        self._job_id = job_id
        self._db: sqlite3.Connection | None = None

    def close(self) -> None:
        """Lets go of the store."""
        if self._db is not None:
            self._db.close()

    def _rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        if self._db is None:
            if not self._path.exists():
                return []
            self._db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=0.5, isolation_level=None)
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.OperationalError:  # no tables yet, or somebody is recovering the log: look again later
            return []

    def look(self) -> JobProgress | None:
        """The job now."""
        rows = self._rows(
            "SELECT state, success + failed + skipped, (SELECT value FROM meta WHERE key = 'fence'), generation "
            "FROM jobs WHERE job_id = ?",
            self._job_id,
        )
        if not rows:
            return None
        ((state, done, fence, generation),) = rows
        ending = self._rows(
            "SELECT l.fence, l.worker FROM leases AS l JOIN jobs AS j ON j.job_no = l.job_no "
            "WHERE j.job_id = ? AND l.purpose = 'end' AND l.rescued = 0",
            self._job_id,
        )
        holders = tuple((int(str(number)), _pid(str(worker))) for number, worker in ending)
        return JobProgress(
            str(state), int(str(done)), holders, int(str(fence)), int(str(generation)), self.put_off_seconds()
        )

    def put_off_seconds(self) -> float:
        """How long the ending of the job is still put off, because workers have died in it."""
        rows = self._rows(
            "SELECT e.due FROM endings AS e JOIN jobs AS j ON j.job_no = e.job_no WHERE j.job_id = ?", self._job_id
        )
        return max([0.0, *(float(str(due)) - time.clock_gettime(time.CLOCK_BOOTTIME) for (due,) in rows)])

    def held_by(self, pid: int) -> HeldItems:
        """The leases of a process, and their unfinished items."""
        fences, seqs = set(), set()
        for fence, worker, listed in self._rows(
            "SELECT fence, worker, seqs FROM leases WHERE purpose = 'items' AND rescued = 0"
        ):
            if _pid(str(worker)) == pid:
                fences.add(int(str(fence)))
                seqs |= {
                    seq
                    for seq, (holder, state) in self.items(json.loads(_text(listed))).items()
                    if holder == fence and state == 0
                }
        return HeldItems(frozenset(fences), frozenset(seqs))

    def seqs_in_state(self, code: int) -> list[int]:
        """Items of the job in a stored state."""
        rows = self._rows(
            "SELECT i.seq FROM jobs AS j JOIN items AS i ON i.job_no = j.job_no WHERE j.job_id = ? AND i.state = ?",
            self._job_id,
            code,
        )
        return [int(str(seq)) for (seq,) in rows]

    def open_leases(self, fences: Collection[int]) -> set[int]:
        """Those of the leases that nobody has taken away."""
        rows = self._rows(
            "SELECT fence FROM leases WHERE rescued = 0 AND fence IN (SELECT value FROM json_each(?))",
            json.dumps(sorted(fences)),
        )
        return {int(str(fence)) for (fence,) in rows}

    def items(self, seqs: Collection[int]) -> dict[int, tuple[int, int]]:
        """Fence and state of items, by seq."""
        rows = self._rows(
            "SELECT i.seq, i.fence, i.state FROM json_each(?) AS wanted CROSS JOIN items AS i "
            "ON i.job_no = (SELECT job_no FROM jobs WHERE job_id = ?) AND i.seq = wanted.value",
            json.dumps(sorted(seqs)),
            self._job_id,
        )
        return {int(str(seq)): (int(str(fence)), int(str(state))) for seq, fence, state in rows}


def _pid(worker_id: str) -> int:
    """A worker is called host-pid-chance."""
    parts = worker_id.rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0


def _text(blob: object) -> str:
    return blob.decode() if isinstance(blob, bytes) else str(blob)
