"""Decides whether and when a failed item is tried again. Pure: it neither sleeps nor logs."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from swath.domain.execution_policy import Backoff, Retries
from swath.domain.failure import Failure
from swath.domain.item import TryCounts

__all__ = ["MAX_RETRY_AFTER_SECONDS", "GiveUp", "RetryIn", "backoff_seconds", "decide", "parse_retry_after"]

JITTER = 0.2
MAX_RETRY_AFTER_SECONDS = 3_600.0  # a site that asks for more is tried again after this
_MAX_PARSED_SECONDS: Final = 999_999_999.0  # as reported; larger numbers say no more than this one
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


class RetryIn(msgspec.Struct, frozen=True):
    """Try again after so many seconds."""

    delay_seconds: float
    tries: TryCounts


class GiveUp(msgspec.Struct, frozen=True):
    """The failure is final."""

    tries: TryCounts


def decide(policy: Retries, failure: Failure, tries: TryCounts, luck: float) -> RetryIn | GiveUp:
    """Decides after one more failure. `tries` counts the attempts before it; `luck` in [0, 1) spreads the delay."""
    rule = failure.rule
    override = policy.kinds.get(failure.kind)
    if rule.own_budget:
        tries = TryCounts(tries.own, tries.infrastructure + 1, tries.crashes)
        done, allowed = tries.infrastructure, policy.max_infrastructure_retries
    else:
        tries = TryCounts(tries.own + 1, tries.infrastructure, tries.crashes)
        done, allowed = tries.own, policy.max_retries
    if override is not None and override.max_retries is not None:
        allowed = override.max_retries
    if not rule.retryable or done > allowed:
        return GiveUp(tries)
    base = policy.base_delay_seconds
    if override is not None and override.base_delay_seconds is not None:
        base = override.base_delay_seconds
    delay = backoff_seconds(policy, base, done) * (1 + JITTER * (2 * luck - 1))
    delay = max(delay, rule.min_delay_seconds * (1 + JITTER * luck))
    if failure.retry_after_seconds is not None:
        asked = min(max(failure.retry_after_seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
        delay = max(delay, asked * (1 + JITTER * luck))  # never before the time that the site named
    return RetryIn(delay, tries)


def parse_retry_after(text: str) -> float | None:
    """The wait of a Retry-After header that is a number of seconds, however large; None when it is no number."""
    return min(float(text), _MAX_PARSED_SECONDS) if _SECONDS.fullmatch(text) else None


def backoff_seconds(policy: Retries, base: float, retry: int) -> float:
    """The delay before the `retry`-th retry (from 1), before jitter."""
    match policy.backoff:
        case Backoff.EXPONENTIAL:
            factor = policy.backoff_factor ** min(retry - 1, 64)
        case Backoff.LINEAR:
            factor = float(retry)
        case Backoff.FIXED:
            factor = 1.0
    return float(min(base * factor, policy.max_delay_seconds))
