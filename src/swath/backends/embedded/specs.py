"""Jobs as the store writes them down: JSON, with what differs from the defaults of the policy.

Every commit needs the policy of its job, so what was read once is remembered by its bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from swath.domain.job import Job
from swath.domain.policy import decode_policy, encode_policy

__all__ = ["decode_job", "encode_job", "readable"]

_REMEMBERED: Final = 512  # jobs; some kilobytes each


_job_encoder = msgspec.json.Encoder(enc_hook=encode_policy)
_job_decoder = msgspec.json.Decoder(Job, dec_hook=decode_policy)


def encode_job(job: Job) -> bytes:
    """The Job as the store keeps it."""
    return _job_encoder.encode(job)


@lru_cache(_REMEMBERED)
def decode_job(spec: bytes) -> Job:
    """The Job that was encoded."""
    return _job_decoder.decode(spec)


def readable(spec: bytes) -> Job | None:
    """The same, or None if it cannot be read: such a job waits for a person, and others go on meanwhile."""
    try:
        return decode_job(spec)
    except (msgspec.MsgspecError, ValueError):
        return None
