"""MemorySiteBook: what workers know together of sites, in plain dicts; the executable form of ports/site_book.py."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import msgspec

from swath.domain import bucket as buckets
from swath.domain import site_circuit
from swath.domain.bucket import Bucket, Slice
from swath.domain.site import Breaker
from swath.domain.site_circuit import Admission, SiteCircuit
from swath.domain.site_round import Part, give_back, take_part
from swath.domain.site_share import FAR_TURN_SECONDS, TURN_SECONDS, Share, grant_share
from swath.ports.clock import Clock
from swath.ports.site_book import NEAR, SHARE_SECONDS, Ask, Hold, KeptRobots, SiteState, Tempo, Terms

__all__ = ["MemorySiteBook"]


class _Site(msgspec.Struct):
    bucket: Bucket = Bucket()
    circuit: SiteCircuit = SiteCircuit()
    shares: dict[str, Share] = {}
    tier: str | None = None
    is_site: bool = False  # and not the bucket of a job
    hold: Hold | None = None


class _Robots(msgspec.Struct):
    kept: KeptRobots = KeptRobots(0)
    keep_until: float = 0.0
    fetch_until: float = 0.0


class MemorySiteBook:
    """Implements SiteBook. Lives as long as its process, which all workers of a test may share."""

    def __init__(self, clock: Clock, tempo: Tempo = NEAR) -> None:
        self.tempo = tempo
        self._clock = clock
        self._sites: dict[str, _Site] = {}
        self._robots: dict[str, _Robots] = {}
        self._lock = threading.Lock()

    def _entry(self, name: str, *, is_site: bool = True) -> _Site:
        entry = self._sites.setdefault(name, _Site())
        entry.is_site = entry.is_site or is_site
        return entry

    async def ask(self, name: str, worker_id: str, ask: Ask) -> Terms:
        with self._lock:
            entry, now = self._entry(name, is_site=ask.concurrency is not None), self._clock.boot()
            entry.bucket = give_back(entry.bucket, ask.returned, now)
            if ask.concurrency is None:
                _join(entry, worker_id, ask, now)
                return _terms(entry, _reserve(entry, worker_id, ask, ask.requests, now))
            slots, target = _regrant(entry, worker_id, ask, ask.concurrency, now)
            whole = slots and (ask.part or len(entry.shares) == 1)
            requests = ask.requests if whole else min(ask.requests, slots)
            return _terms(entry, _reserve(entry, worker_id, ask, requests, now), slots, target)

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> Bucket:
        with self._lock:
            entry = self._entry(name)
            entry.bucket = buckets.slow_down(entry.bucket, sent_at, self._clock.boot(), quiet_seconds)
            return entry.bucket

    def glance(self, name: str) -> SiteCircuit:
        entry = self._sites.get(name)
        return SiteCircuit() if entry is None else entry.circuit

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> Admission:
        with self._lock:
            entry = self._entry(name)
            admission = site_circuit.admit(entry.circuit, worker_id, breaker, self._clock.boot(), probe_seconds)
            entry.circuit = admission.circuit
            return admission

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        with self._lock:
            entry = self._entry(name)
            entry.circuit = site_circuit.withdraw(entry.circuit, epoch)
            return entry.circuit

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        with self._lock:
            entry = self._entry(name)
            entry.circuit = site_circuit.record(entry.circuit, breaker, outcomes, epoch, self._clock.boot())
            return entry.circuit

    async def robots(self, origin: str, fetch_seconds: float) -> KeptRobots | None:
        with self._lock:
            entry, now = self._robots.setdefault(origin, _Robots()), self._clock.boot()
            if entry.keep_until > now:
                return entry.kept
            if entry.fetch_until > now:
                return None
            entry.fetch_until = now + fetch_seconds
            return KeptRobots(0)

    async def keep_robots(self, origin: str, kept: KeptRobots, seconds: float) -> None:
        with self._lock:
            self._robots[origin] = _Robots(kept, self._clock.boot() + seconds)

    async def forget(self, worker_ids: Collection[str]) -> None:
        with self._lock:
            for entry in self._sites.values():
                for worker_id in worker_ids:
                    entry.shares.pop(worker_id, None)
                if entry.circuit.probe_by in worker_ids:
                    entry.circuit = site_circuit.withdraw(entry.circuit, entry.circuit.epoch)

    async def remember_tier(self, name: str, tier: str) -> None:
        with self._lock:
            self._entry(name).tier = tier

    async def hold(self, name: str, hold: Hold) -> None:
        with self._lock:
            self._entry(name).hold = hold

    async def states(self) -> Mapping[str, SiteState]:
        with self._lock:
            now = self._clock.boot()
            return {name: _state(name, entry, now) for name, entry in self._sites.items() if entry.is_site}

    async def close(self) -> None:
        """There is nothing to let go of."""


def _terms(entry: _Site, taken: Sequence[Slice], slots: int = 0, target: int = 0) -> Terms:
    return Terms(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=slots,
        target=target,
        round_end=entry.bucket.next_free,
        halved_from=entry.bucket.halved_from,
    )


def _reserve(entry: _Site, worker_id: str, ask: Ask, requests: int, now: float) -> Sequence[Slice]:
    if requests <= 0:
        return ()
    if ask.part:
        slots = {worker: share.slots for worker, share in entry.shares.items() if share.slots}
        part = Part(worker_id, slots, requests)
        entry.bucket, parts = take_part(entry.bucket, ask.rate, ask.quiet_seconds, part, now)
        return parts
    entry.bucket, taken = buckets.reserve(entry.bucket, ask.rate, requests, now, ask.quiet_seconds)
    return (taken,)


def _join(entry: _Site, worker_id: str, ask: Ask, now: float) -> None:
    """Who takes parts of a job's rate is counted too, and all parts are the same."""
    if ask.part:
        entry.shares = {**_live(entry, now), worker_id: Share(1, ask.demand, now)}


def _regrant(entry: _Site, worker_id: str, ask: Ask, concurrency: int, now: float) -> tuple[int, int]:
    entry.circuit, limit = site_circuit.bound(entry.circuit, concurrency)
    entry.shares = _live(entry, now)
    before = entry.shares.pop(worker_id, None)
    if ask.demand <= 0:
        return 0, 0
    ceiling = 0 if before is None else min(ask.ceiling, before.slots)  # a worker cannot raise itself
    entry.shares[worker_id] = Share(ceiling, ask.demand, now)
    turn_seconds = FAR_TURN_SECONDS if ask.part else TURN_SECONDS
    slots, target = grant_share(entry.shares, worker_id, limit, now, turn_seconds)
    entry.shares[worker_id] = msgspec.structs.replace(entry.shares[worker_id], slots=slots)
    return slots, target


def _live(entry: _Site, now: float) -> dict[str, Share]:
    return {worker: share for worker, share in entry.shares.items() if share.asked_at + SHARE_SECONDS > now}


def _state(name: str, entry: _Site, now: float) -> SiteState:
    open_requests = sum(min(share.slots, share.demand) for share in _live(entry, now).values())
    return SiteState(
        name=name,
        bucket=entry.bucket,
        circuit=entry.circuit,
        open_requests=open_requests,
        tier=entry.tier,
        hold=entry.hold,
    )
