"""The slots of a session manager, each with at most one session of its provider, and their counters."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.providers.protocol import ProviderSession
from swath.fetch.browser.sessions.distributor import SessionView

__all__ = ["ManagerOptions", "ManagerStats", "SessionSlot", "SessionStats"]

_MOST_DOMAINS: Final = 8
_K = FailureKind
# What may be the session's own fault: its cookies, its face, its way out. A site that is down is not.
_SESSION_FAULTS: Final = frozenset(
    {_K.BLOCKED, _K.CAPTCHA, _K.SESSION_EXPIRED, _K.NAVIGATION, _K.TIMEOUT, _K.PROXY, _K.BROWSER_CRASH}
)


class ManagerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`session_timeout_seconds` is how old a session gets, and `idle_seconds` how long it is kept without work; no item
    begins within `margin_seconds` of a session's end. After `most_errors` in a row it is replaced. An item waits
    `patience_seconds` at most for a session that cannot be had yet."""

    max_sessions: int
    session_timeout_seconds: float = 1_800.0
    idle_seconds: float = 300.0
    margin_seconds: float = 90.0
    most_errors: int = 3
    create_seconds: float = 60.0
    open_seconds: float = 30.0
    patience_seconds: float = 10.0
    tend_seconds: float = 5.0


class SessionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Of one session. `current_load` is how many items it serves now: one, or none."""

    session_id: str
    items_processed: int
    errors: int
    uptime_seconds: float
    current_load: int


class ManagerStats(msgspec.Struct, frozen=True, kw_only=True):
    """Of all, those that have ended included; `sessions` are those that live. `held_for_seconds`: how long no further
    session is asked for, because of `last_failure`."""

    provider: str
    max_sessions: int
    sessions: tuple[SessionStats, ...]
    items_processed: int
    errors: int
    created: int
    destroyed: int
    held_for_seconds: float
    last_failure: Failure | None


class SessionSlot:
    """One place. `taken`: an item has it, or is about to; or its session is being made or ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken = False
        self.session: ProviderSession | None = None
        self.wanted_fresh = False
        self.since = 0.0
        self.idle_since = 0.0
        self.items = 0
        self.errors = 0
        self._errors_in_a_row = 0
        self._domains: OrderedDict[str, None] = OrderedDict()

    def fill(self, session: ProviderSession, now: float) -> None:
        """With a new session, of which nothing is known yet."""
        self.session = session
        self.since = self.idle_since = now
        self.empty_counts()

    def empty_counts(self) -> None:
        """Nothing of the last session is the next one's."""
        self.items = self.errors = self._errors_in_a_row = 0
        self.wanted_fresh = False
        self._domains.clear()

    def keep(self, domain: str) -> None:
        """The session has something of this domain from now on; the one that was longest without use is forgotten."""
        self._domains[domain] = None
        self._domains.move_to_end(domain)
        while len(self._domains) > _MOST_DOMAINS:
            self._domains.popitem(last=False)

    def count(self, failure: Failure | None) -> None:
        """One more item is done with."""
        self.items += 1
        if failure is not None:
            self.errors += 1
        self._errors_in_a_row = (
            self._errors_in_a_row + 1 if failure is not None and failure.kind in _SESSION_FAULTS else 0
        )

    def due(self, options: ManagerOptions, now: float) -> bool:
        """Whether its session must not serve another item."""
        if self.session is None:
            return False
        expires_at = self.session.expires_at
        return (
            self.wanted_fresh
            or self.session.gone
            or self._errors_in_a_row >= options.most_errors
            or now - self.since >= options.session_timeout_seconds
            or (expires_at is not None and now >= expires_at - options.margin_seconds)
        )

    def view(self) -> SessionView:
        """For the distributor."""
        return SessionView(str(self.number), int(self.taken), frozenset(self._domains))

    def stats(self, now: float) -> SessionStats | None:
        """None while there is no session."""
        if self.session is None:
            return None
        return SessionStats(
            session_id=self.session.session_id,
            items_processed=self.items,
            errors=self.errors,
            uptime_seconds=now - self.since,
            current_load=int(self.taken),
        )
