"""What the row of a site holds, and how it changes. Pure: each function takes a row and returns the one to write.

Times in a row are seconds since its own `zero`: Unix time in a float is no more exact than the interval between two
requests of a fast site.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from swath.domain import circuit_breaker
from swath.domain import token_bucket as buckets
from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.domain.site_slots import REMOTE_ROTATION_SECONDS, ROTATION_SECONDS, SiteShare, grant_site_slots
from swath.domain.token_bucket import (
    MAX_ROUND_SECONDS,
    RateSlice,
    RoundShareRequest,
    TokenBucket,
    return_slices,
    take_round_share,
)
from swath.ports.site_state import SHARE_SECONDS, SiteHold, SiteShareGrant, SiteShareRequest

__all__ = ["CLOCK_SECONDS", "AskResult", "SiteRow", "admit", "ask", "forget", "live", "record", "slow_down", "tier"]

CLOCK_SECONDS: Final = 1.0  # by so much the clocks of two hosts may differ before a share ends for one of them too late
RENEW_SECONDS: Final = MAX_ROUND_SECONDS  # so old a share may become before it is written anew for its own sake


class SiteRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`zero` is in Unix seconds, on the clock of whoever made the row; it was last written `at`."""

    zero: int
    at: float = 0.0
    bucket: TokenBucket = TokenBucket()
    circuit: SiteCircuit = SiteCircuit()
    shares: dict[str, SiteShare] = {}
    tier: str | None = None
    is_site: bool = False  # and not the bucket of a job
    hold: SiteHold | None = None


class AskResult(NamedTuple):
    """What came of an ask. Without a `row` nothing has to be written."""

    row: SiteRow | None
    terms: SiteShareGrant


def live(row: SiteRow, now: float) -> dict[str, SiteShare]:
    """Shares that have not run out."""
    return {worker: share for worker, share in row.shares.items() if share.asked_at + SHARE_SECONDS > now}


def ask(row: SiteRow, now: float, worker_id: str, asked: SiteShareRequest) -> AskResult:
    """Reserves instants and grants a share. Who asks for parts is answered without a write where that does no harm."""
    bucket = return_slices(row.bucket, asked.returned, now)
    after, slots, target = _regranted(msgspec.structs.replace(row, bucket=bucket), now, worker_id, asked)
    after, taken = _reserved(after, now, worker_id, asked, slots)
    terms = SiteShareGrant(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=0 if asked.concurrency is None else slots,
        target=target,
        share_seconds=SHARE_SECONDS - CLOCK_SECONDS,
        round_end=after.bucket.next_free,
        halved_from=after.bucket.halved_from,
    )
    if after == row:
        return AskResult(None, terms)
    before = row.shares.get(worker_id)
    if before is None or not asked.part or after.bucket != row.bucket or after.circuit != row.circuit:
        return AskResult(after, terms)
    hungry = any(share.demand > share.slots for worker, share in after.shares.items() if worker != worker_id)
    if _matters(before, after.shares.get(worker_id), now, others_hungry=hungry):
        return AskResult(after, terms)
    left_seconds = before.asked_at + SHARE_SECONDS - CLOCK_SECONDS - now
    if asked.concurrency is not None:
        # Whom nobody waits for keeps what it has.
        target = terms.target if hungry else max(terms.target, before.slots)
        terms = msgspec.structs.replace(terms, slots=before.slots, target=target)
    return AskResult(None, msgspec.structs.replace(terms, share_seconds=left_seconds))


def _matters(before: SiteShare, share: SiteShare | None, now: float, *, others_hungry: bool) -> bool:
    """Whether a share has to be written anew. If not, what is written of it holds as well."""
    if share is None or now - before.asked_at >= RENEW_SECONDS or share.slots > before.slots:
        return True
    was_hungry, is_hungry = before.demand > before.slots, share.demand > before.slots
    if others_hungry:
        return share.slots < before.slots or is_hungry != was_hungry
    return is_hungry and not was_hungry


def _regranted(row: SiteRow, now: float, worker_id: str, asked: SiteShareRequest) -> tuple[SiteRow, int, int]:
    """The row with the worker's new share, its slots and its target."""
    if asked.concurrency is None:
        if not asked.part:
            return row, 0, 0
        # Who takes parts of a job's rate is counted too, and all parts are the same.
        shares = {**live(row, now), worker_id: SiteShare(1, 1, now)}
        return msgspec.structs.replace(row, shares=shares), 1, 0
    circuit, limit = circuit_breaker.open_request_limit(row.circuit, asked.concurrency)
    shares = live(row, now)
    before = shares.pop(worker_id, None)
    slots = target = 0
    if asked.demand > 0:
        ceiling = 0 if before is None else min(asked.ceiling, before.slots)  # a worker cannot raise itself
        shares[worker_id] = SiteShare(ceiling, asked.demand, now)
        turn_seconds = REMOTE_ROTATION_SECONDS if asked.part else ROTATION_SECONDS
        slots, target = grant_site_slots(shares, worker_id, limit, now, turn_seconds)
        shares[worker_id] = SiteShare(slots, asked.demand, now)
    return msgspec.structs.replace(row, circuit=circuit, shares=shares, is_site=True), slots, target


def _reserved(
    row: SiteRow, now: float, worker_id: str, asked: SiteShareRequest, slots: int
) -> tuple[SiteRow, Sequence[RateSlice]]:
    requests = asked.requests
    if asked.concurrency is not None and (not slots or (len(row.shares) > 1 and not asked.part)):
        requests = min(requests, slots)
    if requests <= 0:
        return row, ()
    if asked.part:
        part = RoundShareRequest(
            worker_id, {worker: share.slots for worker, share in row.shares.items() if share.slots}, requests
        )
        bucket, parts = take_round_share(row.bucket, asked.rate, asked.quiet_seconds, part, now)
        return msgspec.structs.replace(row, bucket=bucket), parts
    bucket, taken = buckets.reserve(row.bucket, asked.rate, requests, now, asked.quiet_seconds)
    return msgspec.structs.replace(row, bucket=bucket), (taken,)


def slow_down(row: SiteRow, now: float, sent_at: float, quiet_seconds: float) -> SiteRow:
    """Takes a complaint of the site."""
    bucket = buckets.slow_down(row.bucket, sent_at, now, quiet_seconds)
    return msgspec.structs.replace(row, bucket=bucket, is_site=True)


def admit(
    row: SiteRow, now: float, worker_id: str, breaker: Breaker, probe_seconds: float
) -> tuple[SiteRow | None, CircuitAdmission]:
    """Lets through, holds back, or makes the caller the probe, which alone is written."""
    admission = circuit_breaker.admit_request(row.circuit, worker_id, breaker, now, probe_seconds)
    if not admission.probe:
        return None, admission
    return msgspec.structs.replace(row, circuit=admission.circuit, is_site=True), admission


def withdraw(row: SiteRow, epoch: int) -> SiteRow | None:
    """Lets another probe be sent; None when that one had ended already."""
    circuit = circuit_breaker.withdraw_probe(row.circuit, epoch)
    return None if circuit == row.circuit else msgspec.structs.replace(row, circuit=circuit)


def record(row: SiteRow, now: float, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteRow | None:
    """Counts outcomes; None when they change nothing."""
    circuit = circuit_breaker.record_request_outcomes(row.circuit, breaker, outcomes, epoch, now)
    return None if circuit == row.circuit else msgspec.structs.replace(row, circuit=circuit, is_site=True)


def forget(row: SiteRow, worker_ids: Collection[str]) -> SiteRow | None:
    """Frees what the departed had; None when they had nothing."""
    left = {worker: share for worker, share in row.shares.items() if worker not in worker_ids}
    circuit = row.circuit
    if circuit.probe_by in worker_ids:
        circuit = circuit_breaker.withdraw_probe(circuit, circuit.epoch)
    if len(left) == len(row.shares) and circuit == row.circuit:
        return None
    return msgspec.structs.replace(row, shares=left, circuit=circuit)


def tier(row: SiteRow, name: str) -> SiteRow | None:
    """Remembers the step of the proxy ladder; None when it was that one."""
    return None if row.tier == name else msgspec.structs.replace(row, tier=name, is_site=True)


def hold(row: SiteRow, why: str, until: float) -> SiteRow:
    """Tells why its items wait."""
    return msgspec.structs.replace(row, hold=SiteHold(why, until), is_site=True)
