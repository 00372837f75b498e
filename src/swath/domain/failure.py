"""Failure kinds, and the one table that says what each means for retries, circuits and proxies.

A Failure is data: it is made where a page is fetched, checked or extracted, and stored with the attempt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

__all__ = ["RULES", "Culprit", "Failure", "FailureKind", "KindRule", "ProxyEffect"]


class FailureKind(StrEnum):
    """Stable codes, used in the store, manifests, API and logs alike."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    DNS_TEMPORARY = "dns_temporary"
    DNS_UNKNOWN = "dns_unknown"
    TLS = "tls"
    PROXY = "proxy"
    ACCESS_POLICY = "access_policy"
    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    CAPTCHA = "captcha"
    SERVER_ERROR = "server_error"
    MAINTENANCE = "maintenance"
    SESSION_EXPIRED = "session_expired"
    NOT_FOUND_PAGE = "not_found_page"
    HTTP_ERROR = "http_error"
    LAYOUT_CHANGED = "layout_changed"
    NAVIGATION = "navigation"
    ACTION_FAILED = "action_failed"
    INVALID_INPUT = "invalid_input"
    INVALID_OUTPUT = "invalid_output"
    ROBOTS_DENIED = "robots_denied"
    EGRESS_DENIED = "egress_denied"
    TOO_LARGE = "too_large"
    BROWSER_CRASH = "browser_crash"
    CREDENTIAL = "credential"
    POISON = "poison"
    INTERNAL = "internal"


class Culprit(StrEnum):
    """Whose fault it was."""

    SITE = "site"
    PROXY = "proxy"
    INPUT = "input"
    US = "us"


class ProxyEffect(StrEnum):
    """What a failure does to the proxy that was in use."""

    NONE = "none"
    TRY_ANOTHER = "try_another"
    MARK_UNHEALTHY = "mark_unhealthy"
    CLIMB = "climb"
    NO_CLIMB = "no_climb"


class KindRule(msgspec.Struct, frozen=True):
    """One row of the table: trigger in words, then what follows from it."""

    trigger: str
    retryable: bool
    culprit: Culprit
    job_circuit: bool
    site_circuit: bool
    proxy: ProxyEffect = ProxyEffect.NONE
    own_budget: bool = False  # retried on the infrastructure budget, not on the item's own tries
    min_delay_seconds: float = 0.0


_SITE, _PROXY, _INPUT, _US = Culprit.SITE, Culprit.PROXY, Culprit.INPUT, Culprit.US
_K = FailureKind

RULES: Final[dict[FailureKind, KindRule]] = {
    _K.TIMEOUT: KindRule("connect, read or total time over", True, _SITE, True, True, ProxyEffect.TRY_ANOTHER),
    _K.CONNECT: KindRule("refused, reset, unreachable", True, _SITE, True, True),
    _K.DNS_TEMPORARY: KindRule("resolver trouble", True, _US, False, False, own_budget=True),
    _K.DNS_UNKNOWN: KindRule("no such name", False, _INPUT, True, False),
    _K.TLS: KindRule("bad certificate or handshake", False, _SITE, True, True),
    _K.PROXY: KindRule(
        "proxy dead, 407, tunnel failed", True, _PROXY, False, False, ProxyEffect.MARK_UNHEALTHY, own_budget=True
    ),
    _K.ACCESS_POLICY: KindRule(
        "provider refuses (KYC, quota, target class)", False, _PROXY, True, False, ProxyEffect.NO_CLIMB
    ),
    _K.RATE_LIMITED: KindRule("429, 503 with Retry-After", True, _SITE, False, False),
    _K.BLOCKED: KindRule("403, 999, block signature", True, _SITE, True, True, ProxyEffect.CLIMB),
    _K.CAPTCHA: KindRule("challenge page", True, _SITE, True, True, ProxyEffect.CLIMB),
    _K.SERVER_ERROR: KindRule("5xx, 408, 425", True, _SITE, True, True),
    _K.MAINTENANCE: KindRule("signature of it", True, _SITE, True, True, min_delay_seconds=300.0),
    _K.SESSION_EXPIRED: KindRule("marker of it", True, _SITE, True, False),
    _K.NOT_FOUND_PAGE: KindRule("404, 410 where a page was expected", False, _SITE, True, False),
    _K.HTTP_ERROR: KindRule("other 4xx", False, _SITE, True, False),
    _K.LAYOUT_CHANGED: KindRule("expected marker missing", False, _SITE, True, False),
    _K.NAVIGATION: KindRule("target not reached", True, _SITE, True, True),
    _K.ACTION_FAILED: KindRule("step of a recording failed", True, _SITE, True, False),
    _K.INVALID_INPUT: KindRule("input model refuses", False, _INPUT, False, False),
    _K.INVALID_OUTPUT: KindRule("output model refuses", False, _US, True, False),
    _K.ROBOTS_DENIED: KindRule("robots.txt denies it (state skipped)", False, _SITE, False, False),
    _K.EGRESS_DENIED: KindRule("private or forbidden address", False, _INPUT, True, False),
    _K.TOO_LARGE: KindRule(
        "body, download or decompressed size over cap, or a page too heavy to parse", False, _SITE, True, False
    ),
    _K.BROWSER_CRASH: KindRule("browser or renderer died", True, _US, False, False, own_budget=True),
    _K.CREDENTIAL: KindRule("none found, or refused", False, _INPUT, True, False),
    _K.POISON: KindRule("killed its worker three times", False, _US, True, False),
    _K.INTERNAL: KindRule("our bug", False, _US, True, False),
}


MESSAGE_LIMIT: Final = 500


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why one attempt did not succeed. `retry_after_seconds` is what the site asked for, if it did."""

    kind: FailureKind
    message: str
    retry_after_seconds: float | None = None

    @property
    def rule(self) -> KindRule:
        """The table's row for this kind."""
        return RULES[self.kind]

    @classmethod
    def of(cls, kind: FailureKind, message: str, retry_after_seconds: float | None = None) -> Failure:
        """Cuts the message to a length that fits a row and a terminal."""
        flat = " ".join(message.encode("utf-8", "replace").decode().split())  # no lone surrogates: they fit no JSON
        return cls(kind, flat if len(flat) <= MESSAGE_LIMIT else flat[: MESSAGE_LIMIT - 1] + "…", retry_after_seconds)
