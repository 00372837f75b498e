"""The one row of a job that orders all its changes, as a value.

Every change gets a copy, modifies it, and says which other rows to write with it in one commit. A new field goes to
the
end and has a default, so that rows of older formats can be read; it also needs a new format, because an older
process
would write the row back without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from swath.domain.circuit_breaker import JobCircuit
from swath.domain.errors import StoreDamaged
from swath.domain.job import Counts, EndingProgress, StopReason, WaitingFor
from swath.domain.throughput import Throughput
from swath.domain.transitions import JobState

__all__ = ["HeldLease", "JobRow", "LeasePurpose", "WaitingCounts", "WorkerShare", "decode_job_row", "encode_job_row"]


class LeasePurpose(StrEnum):
    """What a lease allows its worker."""

    RUN = "run"
    END = "end"
    DELETE = "delete"


class HeldLease(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A lease. `worker` is who answers for it: its worker, or, once `rescued`, the one that cleans up after it.

    `heard_at` is when its worker last renewed it and `expires_at` one lease later, both by the clock of the worker's
    process; another process only sees whether they change (signs.py). `host` tells whose lock files know whether the
    worker lives. `chunks` are those in which items have ended under it, in `end_rows` rows. `carries`: a row beside the
    head has what earlier leases did to some of its items.
    """

    fence: int
    worker: str
    host: str
    right: LeasePurpose
    revision: int
    heard_at: float = 0.0
    expires_at: float = 0.0
    alone: bool = False
    rescued: bool = False
    carries: bool = False
    gaps: list[int] = []  # the items that it holds, each as its distance from the one before
    chunks: list[int] = []
    end_rows: int = 0
    waiting: WaitingFor | None = None  # what its worker waits for, as it said last
    progress: EndingProgress | None = None  # of the right to end a job, as its worker said last

    @property
    def seqs(self) -> list[int]:
        """The items that it holds and that have not ended, in their order."""
        return list(accumulate(self.gaps))

    def hold(self, seqs: Iterable[int]) -> None:
        """From now on it holds these and no others."""
        ordered = sorted(seqs)
        self.gaps = [after - before for before, after in pairwise([0, *ordered])]

    @property
    def runs(self) -> bool:
        """Whether items may run under it."""
        return self.right is LeasePurpose.RUN and not self.rescued


class WorkerShare(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a worker with leases of the job has of its concurrency, and what it last reported, over all these leases."""

    slots: int = 0
    demand: int = 0
    queued: list[int] = []
    begun: list[int] = []

    def forget(self, seqs: Collection[int]) -> None:
        """These do not run any more."""
        self.queued = [seq for seq in self.queued if seq not in seqs]
        self.begun = [seq for seq in self.begun if seq not in seqs]


class WaitingCounts(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """How many items wait in a bucket (back.py), by what is known of them."""

    suspects: int = 0
    begun: int = 0
    untried: int = 0

    @property
    def items(self) -> int:
        """All of them."""
        return self.suspects + self.begun + self.untried


class JobRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A job but for its order, its items and its manifest.

    `served` is how many leases had been granted in all when it last got one, or when it became ready to run. Items
    beyond `fresh_seq` have not been handed out in this generation, `fresh_left` in number; in a later generation they
    are among those that the rows of `again` name. `waiting` are those that came back, by bucket.
    """

    number: int
    job_id: str
    state: JobState = JobState.LOADING
    revision: int = 0
    stopping: StopReason | None = None
    deleting: bool = False
    gone: bool = False  # its rows are being removed, or are
    generation: int = 1
    circuit: JobCircuit = JobCircuit()
    served: int = 0
    total: int = 0
    success: int = 0
    not_found: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    cost: float = 0.0
    failures: dict[str, int] = {}
    started_at: float | None = None
    ended_at: float | None = None
    pace: Throughput = Throughput()
    ran_before: int = 0
    loaded_rows: int = 0
    batches: int = 0
    last_seq: int = 0
    fresh_seq: int = 0
    fresh_left: int = 0
    again: str = ""
    waiting: dict[int, WaitingCounts] = {}
    shares: dict[str, WorkerShare] = {}
    leases: list[HeldLease] = []
    manifest: str = ""
    manifest_parts: int = 0
    kept_due: float | None = None  # in Unix seconds: when it is listed to be deleted
    purged: int = 0
    purged_seq: int = 0
    on_demand: bool = False
    versions: int = 1
    current_version: int = 1
    ending_deaths: int = 0  # workers that have died with the right to end it
    ending_due: float = 0.0  # in shared time: before then nobody tries to
    scraper_versions: list[str] = []

    @property
    def written_at(self) -> float:
        """The latest time that a host has written into it, in shared time."""
        return max((self.pace.at, *(lease.heard_at for lease in self.leases)))

    @property
    def ended(self) -> int:
        """Items that have ended."""
        return self.success + self.failed + self.skipped + self.cancelled

    @property
    def remaining(self) -> int:
        """Items that have not ended."""
        return self.total - self.ended

    @property
    def ran(self) -> int:
        """Items that ended otherwise than by being cancelled."""
        return self.ended - self.cancelled

    @property
    def may_start(self) -> bool:
        """Whether items of it may be leased and started."""
        return self.state in (JobState.PENDING, JobState.RUNNING) and self.stopping is None and not self.deleting

    @property
    def may_end(self) -> bool:
        """Whether the right to end it may be handed out, if nobody has a lease."""
        all_ended = self.state in (JobState.RUNNING, JobState.PAUSED) and self.remaining == 0
        return not self.state.terminal and not self.deleting and (self.stopping is not None or all_ended)

    @property
    def is_active(self) -> bool:
        """Whether there may be anything to do for it: it has not ended, or is being deleted."""
        return self.deleting or not self.state.terminal

    @property
    def counts(self) -> Counts:
        """Its items by state."""
        queued = sum(len(share.queued) for share in self.shares.values())
        begun = sum(len(share.begun) for share in self.shares.values())
        return Counts(
            pending=self.remaining - queued - begun,
            queued=queued,
            in_progress=begun,
            success=self.success,
            not_found=self.not_found,
            failed=self.failed,
            skipped=self.skipped,
            cancelled=self.cancelled,
            total=self.total,
        )

    def lease(self, fence: int, right: LeasePurpose | None = None) -> HeldLease | None:
        """The lease of that fence, whoever has it; with a right only if it is that and was not taken away."""
        found = next((lease for lease in self.leases if lease.fence == fence), None)
        if found is None or right is None:
            return found
        return found if found.right is right and not found.rescued else None

    def drop(self, lease: HeldLease) -> None:
        """The lease is no more."""
        self.leases = [other for other in self.leases if other.fence != lease.fence]

    def others(self, worker_id: str) -> int:
        """Workers beside this one that can use slots of it."""
        return sum(share.demand > 0 for worker, share in self.shares.items() if worker != worker_id)


_decoder: Final = msgspec.msgpack.Decoder(JobRow)
_encoder: Final = msgspec.msgpack.Encoder()


def encode_job_row(head: JobRow) -> bytes:
    """The body of its row."""
    return _encoder.encode(head)


def decode_job_row(body: bytes) -> JobRow:
    """A value of the caller's own. Raises StoreDamaged."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the head of a job cannot be read: {error}") from error
