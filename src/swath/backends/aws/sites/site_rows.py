"""What a site's row holds, and how it changes. Pure: each function takes a row and gives the one to be written.

All times in a row are seconds since its own `zero`, because Unix time in a float is no more exact than the instants of
a fast site are apart; site_shelf.py reads and writes it, site_book.py converts to the boot clock. What is decided is in
domain/bucket.py, site_round.py, site_share.py and site_circuit.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from swath.domain import bucket as buckets
from swath.domain import site_circuit
from swath.domain.bucket import Bucket, Slice
from swath.domain.site import Breaker
from swath.domain.site_circuit import Admission, SiteCircuit
from swath.domain.site_round import LONGEST_SECONDS, Part, give_back, take_part
from swath.domain.site_share import FAR_TURN_SECONDS, TURN_SECONDS, Share, grant_share
from swath.ports.site_book import SHARE_SECONDS, Ask, Hold, Terms

__all__ = ["CLOCK_SECONDS", "Asked", "SiteRow", "admit", "ask", "forget", "live", "record", "slow_down", "tier"]

CLOCK_SECONDS: Final = 1.0  # by so much the clocks of two hosts may differ before a share ends for one of them too late
RENEW_SECONDS: Final = LONGEST_SECONDS  # so old a share may become before it is written anew for its own sake


class SiteRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`zero` is in Unix seconds, on the clock of whoever made the row; it was last written `at`."""

    zero: int
    at: float = 0.0
    bucket: Bucket = Bucket()
    circuit: SiteCircuit = SiteCircuit()
    shares: dict[str, Share] = {}
    tier: str | None = None
    is_site: bool = False  # and not the bucket of a job
    hold: Hold | None = None


class Asked(NamedTuple):
    """What came of an ask. Without a `row` nothing has to be written."""

    row: SiteRow | None
    terms: Terms


def live(row: SiteRow, now: float) -> dict[str, Share]:
    """Shares that have not run out."""
    return {worker: share for worker, share in row.shares.items() if share.asked_at + SHARE_SECONDS > now}


def ask(row: SiteRow, now: float, worker_id: str, asked: Ask) -> Asked:
    """Reserves instants and grants a share. Who asks for parts is answered without a write where that does no harm."""
    bucket = give_back(row.bucket, asked.returned, now)
    after, slots, target = _regranted(msgspec.structs.replace(row, bucket=bucket), now, worker_id, asked)
    after, taken = _reserved(after, now, worker_id, asked, slots)
    terms = Terms(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=0 if asked.concurrency is None else slots,
        target=target,
        share_seconds=SHARE_SECONDS - CLOCK_SECONDS,
        round_end=after.bucket.next_free,
        halved_from=after.bucket.halved_from,
    )
    if after == row:
        return Asked(None, terms)
    before = row.shares.get(worker_id)
    if before is None or not asked.part or after.bucket != row.bucket or after.circuit != row.circuit:
        return Asked(after, terms)
    hungry = any(share.demand > share.slots for worker, share in after.shares.items() if worker != worker_id)
    if _matters(before, after.shares.get(worker_id), now, others_hungry=hungry):
        return Asked(after, terms)
    left_seconds = before.asked_at + SHARE_SECONDS - CLOCK_SECONDS - now
    if asked.concurrency is not None:
        # Whom nobody waits for keeps what it has.
        target = terms.target if hungry else max(terms.target, before.slots)
        terms = msgspec.structs.replace(terms, slots=before.slots, target=target)
    return Asked(None, msgspec.structs.replace(terms, share_seconds=left_seconds))


def _matters(before: Share, share: Share | None, now: float, *, others_hungry: bool) -> bool:
    """Whether a share has to be written anew. If not, what is written of it holds as well."""
    if share is None or now - before.asked_at >= RENEW_SECONDS or share.slots > before.slots:
        return True
    was_hungry, is_hungry = before.demand > before.slots, share.demand > before.slots
    if others_hungry:
        return share.slots < before.slots or is_hungry != was_hungry
    return is_hungry and not was_hungry


def _regranted(row: SiteRow, now: float, worker_id: str, asked: Ask) -> tuple[SiteRow, int, int]:
    """The row with the worker's new share, its slots and its target."""
    if asked.concurrency is None:
        if not asked.part:
            return row, 0, 0
        # Who takes parts of a job's rate is counted too, and all parts are the same.
        shares = {**live(row, now), worker_id: Share(1, 1, now)}
        return msgspec.structs.replace(row, shares=shares), 1, 0
    circuit, limit = site_circuit.bound(row.circuit, asked.concurrency)
    shares = live(row, now)
    before = shares.pop(worker_id, None)
    slots = target = 0
    if asked.demand > 0:
        ceiling = 0 if before is None else min(asked.ceiling, before.slots)  # a worker cannot raise itself
        shares[worker_id] = Share(ceiling, asked.demand, now)
        turn_seconds = FAR_TURN_SECONDS if asked.part else TURN_SECONDS
        slots, target = grant_share(shares, worker_id, limit, now, turn_seconds)
        shares[worker_id] = Share(slots, asked.demand, now)
    return msgspec.structs.replace(row, circuit=circuit, shares=shares, is_site=True), slots, target


def _reserved(row: SiteRow, now: float, worker_id: str, asked: Ask, slots: int) -> tuple[SiteRow, Sequence[Slice]]:
    requests = asked.requests
    if asked.concurrency is not None and (not slots or (len(row.shares) > 1 and not asked.part)):
        requests = min(requests, slots)
    if requests <= 0:
        return row, ()
    if asked.part:
        part = Part(worker_id, {worker: share.slots for worker, share in row.shares.items() if share.slots}, requests)
        bucket, parts = take_part(row.bucket, asked.rate, asked.quiet_seconds, part, now)
        return msgspec.structs.replace(row, bucket=bucket), parts
    bucket, taken = buckets.reserve(row.bucket, asked.rate, requests, now, asked.quiet_seconds)
    return msgspec.structs.replace(row, bucket=bucket), (taken,)


def slow_down(row: SiteRow, now: float, sent_at: float, quiet_seconds: float) -> SiteRow:
    """Takes a complaint of the site."""
    bucket = buckets.slow_down(row.bucket, sent_at, now, quiet_seconds)
    return msgspec.structs.replace(row, bucket=bucket, is_site=True)


def admit(
    row: SiteRow, now: float, worker_id: str, breaker: Breaker, probe_seconds: float
) -> tuple[SiteRow | None, Admission]:
    """Lets through, holds back, or makes the caller the probe, which alone is written."""
    admission = site_circuit.admit(row.circuit, worker_id, breaker, now, probe_seconds)
    if not admission.probe:
        return None, admission
    return msgspec.structs.replace(row, circuit=admission.circuit, is_site=True), admission


def withdraw(row: SiteRow, epoch: int) -> SiteRow | None:
    """Lets another probe be sent; None when that one had ended already."""
    circuit = site_circuit.withdraw(row.circuit, epoch)
    return None if circuit == row.circuit else msgspec.structs.replace(row, circuit=circuit)


def record(row: SiteRow, now: float, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteRow | None:
    """Counts outcomes; None when they change nothing."""
    circuit = site_circuit.record(row.circuit, breaker, outcomes, epoch, now)
    return None if circuit == row.circuit else msgspec.structs.replace(row, circuit=circuit, is_site=True)


def forget(row: SiteRow, worker_ids: Collection[str]) -> SiteRow | None:
    """Frees what the departed had; None when they had nothing."""
    left = {worker: share for worker, share in row.shares.items() if worker not in worker_ids}
    circuit = row.circuit
    if circuit.probe_by in worker_ids:
        circuit = site_circuit.withdraw(circuit, circuit.epoch)
    if len(left) == len(row.shares) and circuit == row.circuit:
        return None
    return msgspec.structs.replace(row, shares=left, circuit=circuit)


def tier(row: SiteRow, name: str) -> SiteRow | None:
    """Remembers the step of the proxy ladder; None when it was that one."""
    return None if row.tier == name else msgspec.structs.replace(row, tier=name, is_site=True)


def hold(row: SiteRow, why: str, until: float) -> SiteRow:
    """Tells why its items wait."""
    return msgspec.structs.replace(row, hold=Hold(why, until), is_site=True)
