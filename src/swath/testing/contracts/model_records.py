"""Jobs, items and leases as the model of a store sees them (model.py); no back end shares this code."""

from __future__ import annotations

from dataclasses import dataclass, field

from swath.domain.attempt import Ended, Tries
from swath.domain.job import Job
from swath.domain.lease import Lease
from swath.domain.transitions import JobState
from swath.ports.job_store import Batch, Duplicate, Loaded

__all__ = ["ModelItem", "ModelJob", "ModelLease", "ModelShare"]


@dataclass
class ModelItem:
    """An item: free, held by one fence, or ended under one fence; never two of these."""

    seq: int
    item_id: str
    holder: int = 0
    due: float = 0.0
    tries: Tries = field(default_factory=Tries)
    end: Ended | None = None
    ended_under: int = 0
    times_accepted: int = 0

    def accept(self, fence: int, end: Ended) -> None:
        """Its end counts, and must not have counted before."""
        assert (self.holder, self.times_accepted) == (fence, 0), f"item {self.seq} ended twice or under a wrong fence"
        self.end, self.ended_under, self.holder, self.times_accepted = end, fence, 0, 1

    def give_back(self, due: float = 0.0, tries: Tries | None = None) -> None:
        """Nobody holds it any more."""
        self.holder, self.due, self.tries = 0, due, self.tries if tries is None else tries


@dataclass
class ModelLease:
    """A lease in the store. `owner` answers for it: its worker, or whoever rescued it."""

    lease: Lease
    owner: str
    expires: float
    seqs: tuple[int, ...] = ()
    rescued: bool = False

    @property
    def fence(self) -> int:
        """Its number."""
        return self.lease.fence

    @property
    def job_id(self) -> str:
        """Whose items it holds."""
        return self.lease.job.job_id

    @property
    def ending(self) -> bool:
        """Whether it is the right to end a job."""
        return not self.lease.items


@dataclass
class ModelShare:
    """A worker's part in a job, over all its leases: the ceiling that both sides believe in, and its last report."""

    ceiling: int
    target: int
    demand: int
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()

    @property
    def running(self) -> int:
        """Items that have a slot, as last reported."""
        return len(self.queued) + len(self.begun)

    def forget(self, seqs: set[int]) -> None:
        """The worker has these items no more."""
        self.queued = tuple(seq for seq in self.queued if seq not in seqs)
        self.begun = tuple(seq for seq in self.begun if seq not in seqs)


@dataclass
class ModelJob:
    """A job."""

    order: Job
    number: int
    batches: list[tuple[Batch, Loaded]] = field(default_factory=list)
    items: dict[int, ModelItem] = field(default_factory=dict)
    shares: dict[str, ModelShare] = field(default_factory=dict)  # by worker
    sealed: bool = False
    started: bool = False
    cancelling: bool = False
    final: JobState | None = None

    @property
    def state(self) -> JobState:
        """Derived from what has happened to it."""
        if self.final is not None:
            return self.final
        if self.started:
            return JobState.RUNNING
        return JobState.PENDING if self.sealed else JobState.LOADING

    @property
    def limit(self) -> int:
        """Items that may run at once."""
        return self.order.policy.throttling.max_concurrent_workers

    @property
    def open_items(self) -> list[ModelItem]:
        """Those that have not ended."""
        return [item for item in self.items.values() if item.end is None]

    @property
    def rows(self) -> int:
        """Of the source, so far."""
        return sum(batch.rows for batch, _ in self.batches)

    def add(self, batch: Batch) -> Loaded:
        """What loading the batch must answer."""
        first_rows = {item.item_id: item.seq for item in self.items.values()}
        duplicates = []
        for item in batch.items:
            if item.item_id in first_rows:
                duplicates.append(Duplicate(item.seq, item.item_id, first_rows[item.item_id]))
            else:
                first_rows[item.item_id] = item.seq
                self.items[item.seq] = ModelItem(item.seq, item.item_id)
        loaded = Loaded(len(batch.items) - len(duplicates), tuple(duplicates))
        self.batches.append((batch, loaded))
        return loaded

    def claimable(self, boot: float) -> list[ModelItem]:
        """Items that may be leased now."""
        return [item for item in self.open_items if not item.holder and item.due <= boot]
