"""Jobs, items, leases, circuits and webhooks of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import msgspec

from swath.domain.execution_policy import CircuitBreaker, OnOpen
from swath.domain.item import Attempt, EndedItem, HandedBackItem, RetrySelection, SuccessOutcome, TryCounts
from swath.domain.job import Job, StopReason
from swath.domain.lease import Lease
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import Webhook
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch

__all__ = ["ModelItem", "ModelJob", "ModelLease", "ModelOutbox", "ModelShare", "opens"]

LAST = 200


def opens(outcomes: Sequence[EndedItem], breaker: CircuitBreaker) -> bool:
    """Whether the last of these outcomes opens it, if none before did."""
    counting = [end for end in outcomes if _succeeded(end) or _failed(end)]
    if not outcomes or not counting or counting[-1] is not outcomes[-1]:
        return False
    if len(list(takewhile(_failed, reversed(counting)))) >= breaker.consecutive_failures:
        return True
    last = counting[-max(breaker.min_requests, LAST) :]
    if len(last) < breaker.min_requests:
        return False
    failed = sum(_failed(end) for end in last)
    not_found = sum(_succeeded(end) and end.finding is SuccessOutcome.NOT_FOUND for end in last)
    return (
        failed / len(last) >= breaker.failure_threshold_percentage
        or not_found / len(last) >= breaker.max_not_found_percentage
    )


def _succeeded(end: EndedItem) -> bool:
    return end.state is ItemState.SUCCESS


def _failed(end: EndedItem) -> bool:
    return end.state is ItemState.FAILED and end.failure is not None and end.failure.rule.job_circuit


@dataclass
class ModelOutbox:
    """Webhooks by job and generation, as the store last showed them. Which revision follows is the store's affair."""

    words: dict[tuple[str, int], Webhook] = field(default_factory=dict)

    def put(self, word: Webhook) -> None:
        """With the end of a job."""
        assert (word.job_id, word.generation) not in self.words
        self.words[word.job_id, word.generation] = word

    def of(self, job_id: str) -> list[Webhook]:
        """Those of one job, the oldest first."""
        return [word for (owner, _), word in sorted(self.words.items()) if owner == job_id]

    def take(self, taken: list[Webhook], now: float, hold_seconds: float, limit: int) -> None:
        """They were handed out: the longest due, each as it was, but for when it is due again."""
        due = sorted(word.due_at for word in self.words.values() if word.due_at is not None and word.due_at <= now)
        before = [self.words[word.job_id, word.generation] for word in taken]
        assert [word.due_at for word in before] == due[:limit], "the wrong webhooks were handed out"
        assert len({word.webhook_id for word in taken}) == len(taken)
        for was, word in zip(before, taken, strict=True):
            self._change(was, word, due_at=now + hold_seconds)

    def note(self, known: Webhook, shown: Webhook, note: Webhook) -> None:
        """What is known of it was replaced by the note."""
        self._change(known, shown, state=note.state, due_at=note.due_at, tries=note.tries, deliveries=note.deliveries)

    def _change(self, was: Webhook, word: Webhook, **changed: object) -> None:
        assert word.revision > was.revision, "a change that nobody can tell"
        assert word == msgspec.structs.replace(was, revision=word.revision, **changed)
        self.words[word.job_id, word.generation] = word

    def forget(self, job_id: str) -> None:
        """The job is gone."""
        self.words = {key: word for key, word in self.words.items() if key[0] != job_id}


@dataclass
class ModelItem:
    """An item: free, held by one fence, or ended under one fence; never two of these."""

    seq: int
    item_id: str
    holder: int = 0
    due: float = 0.0
    tries: TryCounts = field(default_factory=TryCounts)
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    silences: int = 0  # of its workers while it ran alone, since it was last tried
    end: EndedItem | None = None
    ended_under: int = 0
    ended_at: float = 0.0
    generation: int = 0  # of its end
    earlier: list[tuple[int, float, EndedItem]] = field(default_factory=list)
    ran_in: set[int] = field(default_factory=lambda: {1})  # generations that it belongs to
    accepted: Counter[int] = field(default_factory=Counter)  # ends by generation

    @property
    def never_began(self) -> bool:
        """Whether nothing was ever done to it, as far as anybody knows."""
        return self.tries == TryCounts() and not self.attempts and not self.suspect

    def accept(self, fence: int, end: EndedItem, generation: int, now: float) -> None:
        """Its end counts, and must not have counted before in this generation."""
        assert self.holder == fence, f"item {self.seq} ended under a wrong fence"
        assert not self.accepted[generation], f"item {self.seq} ended twice"
        self.accepted[generation] += 1
        self.end, self.ended_under, self.ended_at, self.generation = end, fence, now, generation
        self.holder, self.suspect = 0, False

    def give_back(self, due: float = 0.0) -> None:
        """Nobody holds it any more."""
        self.holder, self.due = 0, due

    def hand_back(self, back: HandedBackItem, due: float) -> None:
        """Its worker gives it up, tried or not."""
        tried = (back.tries, back.attempts) != (self.tries, self.attempts)
        self.suspect = self.suspect and not tried
        self.silences = 0 if tried else self.silences
        self.tries, self.attempts = back.tries, back.attempts
        self.give_back(due)

    def begin_again(self, generation: int) -> None:
        """It was selected for a new generation."""
        assert self.end is not None
        self.earlier.append((self.generation, self.ended_at, self.end))
        self.ran_in.add(generation)
        self.end, self.ended_under, self.generation, self.due = None, 0, 0, 0.0
        self.tries, self.attempts, self.suspect, self.silences = TryCounts(), (), False, 0

    def fits(self, selection: RetrySelection) -> bool:
        """Whether a retry takes it; the words of J5, told once more."""
        if self.end is None or (selection.since is not None and self.ended_at < selection.since):
            return False
        failed = self.end.state is ItemState.FAILED
        asked = [
            selection.failed and failed,
            failed and self.end.failure is not None and self.end.failure.kind in selection.kinds,
            selection.not_run and self.end.state is ItemState.CANCELLED,
            self.item_id in selection.item_ids,
        ]
        only_by_time = not (selection.failed or selection.kinds or selection.not_run or selection.item_ids)
        return any(asked) or (only_by_time and selection.since is not None)


@dataclass
class ModelLease:
    """A lease in the store. `owner` answers for it: its worker, or whoever rescued it."""

    lease: Lease
    owner: str
    expires: float
    revision: int = 0  # of the job's policy, as the model counts
    deletes: bool = False
    seqs: tuple[int, ...] = ()
    running: set[int] = field(default_factory=set)  # begun and not left
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
    def runs(self) -> bool:
        """Whether it holds items."""
        return bool(self.lease.items)

    @property
    def ends(self) -> bool:
        """Whether it is the right to end a job."""
        return not self.runs and not self.deletes


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
    """A job. `outcomes` are all ends since its circuit was last closed."""

    order: Job
    number: int
    first_order: Job
    revision: int = 0
    batches: list[tuple[ItemBatch, BatchResult]] = field(default_factory=list)
    items: dict[int, ModelItem] = field(default_factory=dict)
    shares: dict[str, ModelShare] = field(default_factory=dict)  # by worker
    sealed: bool = False
    started: bool = False  # in this generation
    started_at: float = 0.0
    paused: bool = False
    stopping: StopReason | None = None
    final: JobState | None = None
    ended_at: float = 0.0
    generation: int = 1
    deleting: bool = False
    purged: int = 0
    outcomes: list[EndedItem] = field(default_factory=list)
    opened: bool = False
    served: int = 0
    slots_before: int = 0  # after the last step
    ending_deaths: int = 0
    ending_due: float = 0.0  # by the boot clock

    @property
    def state(self) -> JobState:
        """Derived from what has happened to it."""
        if self.final is not None:
            return self.final
        if self.paused:
            return JobState.PAUSED
        if self.started:
            return JobState.RUNNING
        return JobState.PENDING if self.sealed else JobState.LOADING

    @property
    def kept_from(self) -> float:
        """When its retention begins: at its end, which is not before it began, whatever the wall clock showed."""
        return max(self.ended_at, self.started_at, self.order.created_at)

    @property
    def may_start(self) -> bool:
        """Whether items of it may be handed out and begin."""
        return self.state in (JobState.PENDING, JobState.RUNNING) and self.stopping is None and not self.deleting

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

    def add(self, batch: ItemBatch) -> BatchResult:
        """What loading the batch must answer."""
        first_rows = {item.item_id: item.seq for item in self.items.values()}
        duplicates = []
        for item in batch.items:
            if item.item_id in first_rows:
                duplicates.append(DuplicateItem(item.seq, item.item_id, first_rows[item.item_id]))
            else:
                first_rows[item.item_id] = item.seq
                self.items[item.seq] = ModelItem(item.seq, item.item_id)
        loaded = BatchResult(len(batch.items) - len(duplicates), tuple(duplicates))
        self.batches.append((batch, loaded))
        return loaded

    def free(self, boot: float) -> list[ModelItem]:
        """Items that nobody holds and that need not wait."""
        return [item for item in self.open_items if not item.holder and item.due <= boot]

    @property
    def gate(self) -> int | None:
        """How many items that never began may be handed out; None: any number.

        Released is what has ended, is held, or has begun and waits (S4).
        """
        least = self.order.policy.circuit_breaker.min_requests
        if len(self.outcomes) >= least:
            return None
        out = [item for item in self.open_items if item.holder or not item.never_began]
        return max(0, least - len(self.outcomes) - len(out))

    def claimable(self, boot: float) -> int:
        """How many items, suspects apart, may be leased now."""
        begun = [item for item in self.free(boot) if not item.never_began and not item.suspect]
        never_began = [item for item in self.free(boot) if item.never_began]
        return len(begun) + (len(never_began) if self.gate is None else min(self.gate, len(never_began)))

    def suspects(self, boot: float) -> list[ModelItem]:
        """Those that may be leased now, each alone."""
        return [item for item in self.free(boot) if item.suspect]

    def record(self, end: EndedItem) -> None:
        """One more outcome; the circuit may open."""
        self.outcomes.append(end)
        breaker = self.order.policy.circuit_breaker
        if self.opened or not opens(self.outcomes, breaker):
            return
        self.opened = True
        if self.stopping is None and breaker.on_open is OnOpen.FAIL:
            self.stopping = StopReason.CIRCUIT_OPEN
        elif self.stopping is None:
            self.paused = True

    def close_circuit(self) -> None:
        """A person lets it go on."""
        self.outcomes, self.opened = [], False
