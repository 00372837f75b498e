"""Site state in dictionaries: the executable form of its port's docstrings."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import msgspec

from swath.domain import circuit_breaker
from swath.domain import token_bucket as buckets
from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.domain.site_slots import REMOTE_ROTATION_SECONDS, ROTATION_SECONDS, SiteShare, grant_site_slots
from swath.domain.token_bucket import RateSlice, RoundShareRequest, TokenBucket, return_slices, take_round_share
from swath.ports.clock import Clock
from swath.ports.site_state import (
    LOCAL_SYNC,
    SHARE_SECONDS,
    CachedRobots,
    SiteHold,
    SiteShareGrant,
    SiteShareRequest,
    SiteSnapshot,
    SyncIntervals,
)

__all__ = ["MemorySiteState"]


class _Site(msgspec.Struct):
    bucket: TokenBucket = TokenBucket()
    circuit: SiteCircuit = SiteCircuit()
    shares: dict[str, SiteShare] = {}
    tier: str | None = None
    is_site: bool = False  # and not the bucket of a job
    hold: SiteHold | None = None


class _Robots(msgspec.Struct):
    kept: CachedRobots = CachedRobots(0)
    keep_until: float = 0.0
    fetch_until: float = 0.0


class MemorySiteState:
    """Implements SiteBook. Lives as long as its process, which all workers of a test may share."""

    def __init__(self, clock: Clock, tempo: SyncIntervals = LOCAL_SYNC) -> None:
        self.tempo = tempo
        self._clock = clock
        self._sites: dict[str, _Site] = {}
        self._robots: dict[str, _Robots] = {}
        self._lock = threading.Lock()

    def _entry(self, name: str, *, is_site: bool = True) -> _Site:
        entry = self._sites.setdefault(name, _Site())
        entry.is_site = entry.is_site or is_site
        return entry

    async def ask(self, name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        with self._lock:
            entry, now = self._entry(name, is_site=ask.concurrency is not None), self._clock.boot()
            entry.bucket = return_slices(entry.bucket, ask.returned, now)
            if ask.concurrency is None:
                _join(entry, worker_id, ask, now)
                return _terms(entry, _reserve(entry, worker_id, ask, ask.requests, now))
            slots, target = _regrant(entry, worker_id, ask, ask.concurrency, now)
            whole = slots and (ask.part or len(entry.shares) == 1)
            requests = ask.requests if whole else min(ask.requests, slots)
            return _terms(entry, _reserve(entry, worker_id, ask, requests, now), slots, target)

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> TokenBucket:
        with self._lock:
            entry = self._entry(name)
            entry.bucket = buckets.slow_down(entry.bucket, sent_at, self._clock.boot(), quiet_seconds)
            return entry.bucket

    def glance(self, name: str) -> SiteCircuit:
        entry = self._sites.get(name)
        return SiteCircuit() if entry is None else entry.circuit

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> CircuitAdmission:
        with self._lock:
            entry = self._entry(name)
            admission = circuit_breaker.admit_request(
                entry.circuit, worker_id, breaker, self._clock.boot(), probe_seconds
            )
            entry.circuit = admission.circuit
            return admission

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        with self._lock:
            entry = self._entry(name)
            entry.circuit = circuit_breaker.withdraw_probe(entry.circuit, epoch)
            return entry.circuit

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        with self._lock:
            entry = self._entry(name)
            entry.circuit = circuit_breaker.record_request_outcomes(
                entry.circuit, breaker, outcomes, epoch, self._clock.boot()
            )
            return entry.circuit

    async def robots(self, origin: str, fetch_seconds: float) -> CachedRobots | None:
        with self._lock:
            entry, now = self._robots.setdefault(origin, _Robots()), self._clock.boot()
            if entry.keep_until > now:
                return entry.kept
            if entry.fetch_until > now:
                return None
            entry.fetch_until = now + fetch_seconds
            return CachedRobots(0)

    async def keep_robots(self, origin: str, kept: CachedRobots, seconds: float) -> None:
        with self._lock:
            self._robots[origin] = _Robots(kept, self._clock.boot() + seconds)

    async def forget(self, worker_ids: Collection[str]) -> None:
        with self._lock:
            for entry in self._sites.values():
                for worker_id in worker_ids:
                    entry.shares.pop(worker_id, None)
                if entry.circuit.probe_by in worker_ids:
                    entry.circuit = circuit_breaker.withdraw_probe(entry.circuit, entry.circuit.epoch)

    async def remember_tier(self, name: str, tier: str) -> None:
        with self._lock:
            self._entry(name).tier = tier

    async def hold(self, name: str, hold: SiteHold) -> None:
        with self._lock:
            self._entry(name).hold = hold

    async def states(self) -> Mapping[str, SiteSnapshot]:
        with self._lock:
            now = self._clock.boot()
            return {name: _state(name, entry, now) for name, entry in self._sites.items() if entry.is_site}

    async def close(self) -> None:
        """There is nothing to let go of."""


def _terms(entry: _Site, taken: Sequence[RateSlice], slots: int = 0, target: int = 0) -> SiteShareGrant:
    return SiteShareGrant(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=slots,
        target=target,
        round_end=entry.bucket.next_free,
        halved_from=entry.bucket.halved_from,
    )


def _reserve(entry: _Site, worker_id: str, ask: SiteShareRequest, requests: int, now: float) -> Sequence[RateSlice]:
    if requests <= 0:
        return ()
    if ask.part:
        slots = {worker: share.slots for worker, share in entry.shares.items() if share.slots}
        part = RoundShareRequest(worker_id, slots, requests)
        entry.bucket, parts = take_round_share(entry.bucket, ask.rate, ask.quiet_seconds, part, now)
        return parts
    entry.bucket, taken = buckets.reserve(entry.bucket, ask.rate, requests, now, ask.quiet_seconds)
    return (taken,)


def _join(entry: _Site, worker_id: str, ask: SiteShareRequest, now: float) -> None:
    """Who takes parts of a job's rate is counted too, and all parts are the same."""
    if ask.part:
        entry.shares = {**_live(entry, now), worker_id: SiteShare(1, ask.demand, now)}


def _regrant(entry: _Site, worker_id: str, ask: SiteShareRequest, concurrency: int, now: float) -> tuple[int, int]:
    entry.circuit, limit = circuit_breaker.open_request_limit(entry.circuit, concurrency)
    entry.shares = _live(entry, now)
    before = entry.shares.pop(worker_id, None)
    if ask.demand <= 0:
        return 0, 0
    ceiling = 0 if before is None else min(ask.ceiling, before.slots)  # a worker cannot raise itself
    entry.shares[worker_id] = SiteShare(ceiling, ask.demand, now)
    turn_seconds = REMOTE_ROTATION_SECONDS if ask.part else ROTATION_SECONDS
    slots, target = grant_site_slots(entry.shares, worker_id, limit, now, turn_seconds)
    entry.shares[worker_id] = msgspec.structs.replace(entry.shares[worker_id], slots=slots)
    return slots, target


def _live(entry: _Site, now: float) -> dict[str, SiteShare]:
    return {worker: share for worker, share in entry.shares.items() if share.asked_at + SHARE_SECONDS > now}


def _state(name: str, entry: _Site, now: float) -> SiteSnapshot:
    open_requests = sum(min(share.slots, share.demand) for share in _live(entry, now).values())
    return SiteSnapshot(
        name=name,
        bucket=entry.bucket,
        circuit=entry.circuit,
        open_requests=open_requests,
        tier=entry.tier,
        hold=entry.hold,
    )
