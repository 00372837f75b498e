"""OrderNames: by which job id an order is known when it comes again (J6). Before: routes/jobs.py. After: ordering.py.

The same id gives the same job, and the store compares what was ordered under it. An `Idempotency-Key` is a word that
one caller has chosen: the id that is made of it is of that caller's service key alone.
"""

from __future__ import annotations

import hashlib

import msgspec

from swath.entrypoints.api.doorkeeper import Caller

__all__ = ["OrderNames"]


class OrderNames(msgspec.Struct, frozen=True):
    """`job_id` None: the order is a new one each time. Under `former_id` releases before service keys counted would
    have stored it, whoever ordered it."""

    job_id: str | None
    former_id: str | None = None

    @classmethod
    def of(cls, caller: Caller, job_id: str | None, idempotency_key: str | None) -> OrderNames:
        """A job id that the caller gives is everybody's, so it wins."""
        if job_id is not None or idempotency_key is None:
            return cls(job_id)
        former = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
        return cls(f"order-{caller.own_name(idempotency_key)}", f"order-{former}")
