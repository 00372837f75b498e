"""A plain model of a store: what it must know after any sequence of calls. It shares no code with any back end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from swath.domain.clock_watch import ClockReading, ClockWatch, observe
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, HandedBackItem, RetrySelection
from swath.domain.job import ending_retry_seconds
from swath.domain.lease import MAX_SILENCES, POISON_CRASHES, Lease, lease_size
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from tests.contract.suites.model_records import ModelItem, ModelJob, ModelLease, ModelOutbox, ModelShare

__all__ = ["Model"]

DAY_SECONDS = 86_400
PATIENCE = 2  # leases per job with work, after which one that got none comes next


@dataclass
class Model:
    """All jobs and leases, and the workers that are dead."""

    lease_seconds: float
    clock: Clock
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    leases: dict[int, ModelLease] = field(default_factory=dict)
    lost: list[ModelLease] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    outbox: ModelOutbox = field(default_factory=ModelOutbox)
    watch: ClockWatch | None = None
    last_fence: int = 0
    granted: int = 0

    def leases_of(self, job: ModelJob) -> list[ModelLease]:
        """Every lease of the job."""
        return [lease for lease in self.leases.values() if lease.job_id == job.order.job_id]

    def live(self, job: ModelJob, worker: str | None = None) -> list[ModelLease]:
        """Leases of the job under which items may run, of one worker or of all."""
        live = [lease for lease in self.leases_of(job) if lease.runs and not lease.rescued]
        return [lease for lease in live if worker in (None, lease.owner)]

    # -- whose turn it is

    def next_job(self, worker: str, job_id: str | None = None) -> ModelJob | None:
        """Whose items the worker's next claim must hand out (S3)."""
        ready = [job for job in self.jobs.values() if self._ready(job, worker) and job_id in (None, job.order.job_id)]
        passed_over = [job for job in ready if self.granted - job.served >= PATIENCE * len(ready)]
        if passed_over:
            return min(passed_over, key=lambda job: (job.served, job.number))
        return min(ready, key=lambda job: (-job.order.priority, len(job.items), job.number), default=None)

    def _ready(self, job: ModelJob, worker: str) -> bool:
        boot = self.clock.boot()
        has_work = job.may_start and bool(job.claimable(boot) or job.suspects(boot))
        return has_work and self._busy_others(job, worker) < job.limit

    def _busy_others(self, job: ModelJob, worker: str) -> int:
        return sum(share.demand > 0 for other, share in job.shares.items() if other != worker)

    def hold(self, lease: Lease, *, deletes: bool = False) -> ModelLease:
        """A lease was handed out."""
        assert lease.fence > self.last_fence, f"fence {lease.fence} after {self.last_fence}"
        self.last_fence = lease.fence
        job = self.jobs[lease.job.job_id]
        held = ModelLease(
            lease, lease.worker_id, self.clock.boot() + self.lease_seconds, job.revision, deletes,
            tuple(item.seq for item in lease.items),
        )  # fmt: skip
        if held.runs:
            self._check_choice(job, lease)
            self.granted += 1
            job.started_at = job.started_at if job.started else self.clock.now()
            job.served, job.started = self.granted, True
            for seq in held.seqs:
                job.items[seq].holder, job.items[seq].due = lease.fence, 0.0
            self._enter(job, lease)
        self.leases[lease.fence] = held
        return held

    def _check_choice(self, job: ModelJob, lease: Lease) -> None:
        """The right items, and as many as there should be."""
        boot = self.clock.boot()
        items = [job.items[leased.seq] for leased in lease.items]
        for item, leased in zip(items, lease.items, strict=True):
            assert item.end is None, f"item {item.seq} was leased after its end"
            assert not item.holder, f"item {item.seq} is held twice"
            assert item.due <= boot, f"item {item.seq} was leased before its time"
            assert (leased.item_id, leased.tries, leased.attempts) == (item.item_id, item.tries, item.attempts)
        if job.suspects(boot):
            assert lease.alone, "a suspect does not come first"
            assert [item.suspect for item in items] == [True], "a suspect was leased with others"
            return
        assert not lease.alone, "nobody is suspected"
        never_began = sum(item.never_began for item in items)
        assert job.gate is None or never_began <= job.gate, "more was released than the circuit allows"
        workers = self._busy_others(job, lease.worker_id) + 1
        assert len(items) == lease_size(job.claimable(boot), workers, job.limit)

    def _enter(self, job: ModelJob, lease: Lease) -> None:
        share = job.shares.get(lease.worker_id)
        demand = len(lease.items) + (0 if share is None else share.demand)
        assert share is None or lease.slots == share.ceiling, "a further lease changed the slots"
        assert lease.target <= min(job.limit, demand)
        if share is None:
            share = job.shares[lease.worker_id] = ModelShare(lease.slots, lease.target, demand)
        share.target, share.demand = lease.target, demand

    # -- work

    def may_begin(self, lease: ModelLease) -> bool:
        """Whether an item of the lease may start now."""
        job = self.jobs[lease.job_id]
        return job.may_start and job.revision == lease.revision

    def held(self, lease: ModelLease) -> list[ModelItem]:
        """Items that the lease holds and that have not ended."""
        items = self.jobs[lease.job_id].items
        return [items[seq] for seq in lease.seqs if items[seq].holder == lease.fence]

    def winners(self, lease: ModelLease) -> set[str]:
        """Ids of items that ended under the lease by its worker's word."""
        items = [self.jobs[lease.job_id].items[seq] for seq in lease.seqs]
        ended = [(item, item.end) for item in items if item.end is not None and item.ended_under == lease.fence]
        return {item.item_id for item, end in ended if not self._failed_by_rescue(end)}

    def _failed_by_rescue(self, end: EndedItem) -> bool:
        poison = end.failure is not None and end.failure.kind is FailureKind.POISON
        return poison or end.reason == "worker_silent"

    def commit(self, lease: ModelLease, ended: list[EndedItem], handed_back: list[HandedBackItem]) -> set[int]:
        """The outcomes of one finish; answers which must count."""
        job, items = self.jobs[lease.job_id], {item.seq: item for item in self.held(lease)}
        accepted = set()
        for end in ended:
            if end.seq in items:
                items.pop(end.seq).accept(lease.fence, end, job.generation, self.clock.now())
                job.record(end)
                accepted.add(end.seq)
        for back in handed_back:
            if back.seq in items:
                due = self.clock.boot() + back.delay_seconds if back.delay_seconds else 0.0
                items.pop(back.seq).hand_back(back, due)
                accepted.add(back.seq)
        return accepted

    def let_go(self, lease: ModelLease) -> None:
        """A release: nobody is blamed."""
        held = self.held(lease) if lease.runs else []
        for item in held:
            item.give_back()
        del self.leases[lease.fence]
        self._leave(self.jobs[lease.job_id], lease.owner, held)
        if not lease.rescued:
            self.lost.append(lease)

    def _leave(self, job: ModelJob, worker: str, lost: list[ModelItem]) -> None:
        """What it lost does not run any more, and with its last lease of a job a worker loses its slots there."""
        if worker in job.shares:
            job.shares[worker].forget({item.seq for item in lost})
        if not self.live(job, worker):
            job.shares.pop(worker, None)

    # -- death

    def overdue(self) -> set[int]:
        """Leases that a rescue must take away now."""
        boot = self.clock.boot()
        return {f for f, lease in self.leases.items() if lease.expires <= boot or lease.owner in self.dead}

    def take_away(self, lease: ModelLease, rescuer: str) -> int:
        """A rescue; answers how many items came back."""
        if not lease.rescued:
            self.lost.append(replace(lease, running=set()))
            if lease.ends and lease.owner in self.dead:
                self._put_off(self.jobs[lease.job_id])
        held, loser, job = self.held(lease), lease.owner, self.jobs[lease.job_id]
        for item in held:
            if item.seq in lease.running:
                item.suspect = True
                known, died = lease.lease.alone and item.seq in job.shares[loser].begun, loser in self.dead
                item.tries = msgspec.structs.replace(item.tries, crashes=item.tries.crashes + (known and died))
                item.silences += known and not died
            if item.tries.crashes >= POISON_CRASHES:
                self._fail(job, lease, item, FailureKind.POISON)
            elif item.silences >= MAX_SILENCES:
                self._fail(job, lease, item, FailureKind.INTERNAL)
            else:
                item.give_back(self._due(item))
        lease.rescued, lease.owner, lease.expires = True, rescuer, self.clock.boot() + self.lease_seconds
        self._leave(job, loser, held)
        return sum(item.end is None for item in held)

    def _put_off(self, job: ModelJob) -> None:
        job.ending_deaths += 1
        job.ending_due = self.clock.boot() + ending_retry_seconds(job.ending_deaths)

    def _due(self, item: ModelItem) -> float:
        """When an item may run again whose worker fell silent while it ran alone: after 0, 1, 3, 7, … leases."""
        leases = 2 ** (item.silences - 1) - 1 if item.silences else 0
        return self.clock.boot() + min(600.0, leases * self.lease_seconds) if leases else 0.0

    def _fail(self, job: ModelJob, lease: ModelLease, item: ModelItem, kind: FailureKind) -> None:
        failure, reason = Failure.of(kind, ""), "worker_silent" if kind is FailureKind.INTERNAL else None
        end = EndedItem(
            seq=item.seq, state=ItemState.FAILED, failure=failure, reason=reason, attempts=item.attempts,
            tries=item.tries,
        )  # fmt: skip
        item.accept(lease.fence, end, job.generation, self.clock.now())
        job.record(end)

    # -- people

    def change_policy(self, job: ModelJob, policy: ExecutionPolicy) -> None:
        """Leases of the former one are to stop."""
        if policy != job.order.policy:
            job.order, job.revision = msgspec.structs.replace(job.order, policy=policy), job.revision + 1

    def resume(self, job: ModelJob) -> None:
        """With a new circuit, and not passed over by anybody yet."""
        job.paused, job.served = False, self.granted
        job.close_circuit()

    def retry(self, job: ModelJob, selection: RetrySelection) -> None:
        """A new generation of what was selected."""
        job.generation += 1
        for item in job.items.values():
            if item.fits(selection):
                item.begin_again(job.generation)
        job.final, job.started, job.paused, job.stopping, job.served = None, False, False, None, self.granted
        job.started_at = 0.0
        job.close_circuit()

    # -- the end

    def endable(self) -> list[ModelJob]:
        """Jobs whose end may be handed out."""
        return [
            job
            for job in self.jobs.values()
            if job.final is None
            and not job.deleting
            and (job.stopping is not None or (job.started and not job.open_items))
            and not self.leases_of(job)
            and job.ending_due <= self.clock.boot()
        ]

    def sweep(self, lease: ModelLease, item: ModelItem) -> None:
        """It never ran, and its job stops."""
        job = self.jobs[lease.job_id]
        item.holder = lease.fence
        end = EndedItem(
            seq=item.seq, state=ItemState.CANCELLED, reason=job.stopping, attempts=item.attempts, tries=item.tries
        )  # fmt: skip
        item.accept(lease.fence, end, job.generation, self.clock.now())

    def end(self, lease: ModelLease, state: JobState, word: Webhook | None = None) -> None:
        """The job is over, and perhaps somebody is to be told."""
        job = self.jobs[lease.job_id]
        job.final, job.ended_at = state, self._glance().not_before(self.clock.now())
        job.ending_deaths, job.ending_due = 0, 0.0
        if word is not None:
            self.outbox.put(word)
        self.lost.append(self.leases.pop(lease.fence))

    def deletable(self) -> list[ModelJob]:
        """Jobs whose deletion is handed out by a claim now, which is a look at the clocks: marked, or due for an hour
        that both clocks agree on."""
        watch = self._glance()
        if watch.worth_saving_after(self.watch):
            self.watch = watch
        due = min(self.clock.now(), watch.confirmed_wall)
        return [
            job for job in self.jobs.values() if (job.deleting or self._outdated(job, due)) and not self.leases_of(job)
        ]  # fmt: skip

    def _glance(self) -> ClockWatch:
        return observe(self.watch, ClockReading("boot", self.clock.boot(), self.clock.now()))

    def _outdated(self, job: ModelJob, due: float) -> bool:
        days = job.order.policy.retention_days
        return job.final is not None and days is not None and job.kept_from + days * DAY_SECONDS <= due

    def vanish(self, job: ModelJob) -> None:
        """The job is gone, and so are all rights to it."""
        for lease in self.leases_of(job):
            self.lost.append(self.leases.pop(lease.fence))
        self.outbox.forget(job.order.job_id)
        del self.jobs[job.order.job_id]
