"""Decides which session serves which items. Pure: the same input always gives the same result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

__all__ = [
    "DistributionOptions",
    "ItemStanding",
    "PlaceableItem",
    "SessionShare",
    "SessionView",
    "Strategy",
    "items_to_sessions",
]


class ItemStanding(StrEnum):
    """Where an item stands, as far as it matters here."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    INVALID = "invalid"


class Strategy(StrEnum):
    """How items are dealt out; all three are in order of the items."""

    ROUND_ROBIN = "round-robin"
    DOMAIN_AFFINITY = "domain-affinity"
    LEAST_LOADED = "least-loaded"


class PlaceableItem(msgspec.Struct, frozen=True):
    """An item to be placed."""

    item_id: str
    domain: str
    standing: ItemStanding = ItemStanding.OPEN


class SessionView(msgspec.Struct, frozen=True):
    """A session that can take some. `domains` are those it has kept something of: cookies, a login."""

    session_id: str
    current_load: int = 0
    domains: frozenset[str] = frozenset()


class DistributionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. `max_items_per_session` is of what is handed out now; None: no limit.

    Items of `prioritize_domains` come first, in the order of that list. Failed and invalid items are left out unless
    they are asked for; done ones always are.
    """

    strategy: Strategy = Strategy.ROUND_ROBIN
    max_items_per_session: int | None = None
    prioritize_domains: tuple[str, ...] = ()
    with_failed: bool = False
    with_invalid: bool = False


class SessionShare(msgspec.Struct, frozen=True):
    """What one session gets, in the order in which it is to be done."""

    session_id: str
    items: tuple[PlaceableItem, ...] = ()


class _Assignments:
    """Cards on the table: what each session has been given so far."""

    def __init__(self, sessions: Sequence[SessionView], most: int | None) -> None:
        self.sessions = sessions
        self.given: list[list[int]] = [[] for _ in sessions]
        self._most = most

    def has_room(self, place: int) -> bool:
        return self._most is None or len(self.given[place]) < self._most

    def least(self, places: Iterable[int]) -> int | None:
        """Of these, the one with room that has the least to do; then the one that keeps the least, then the first."""
        with_room = (place for place in places if self.has_room(place))
        return min(with_room, key=lambda place: (self.load(place), len(self.sessions[place].domains)), default=None)

    def load(self, place: int) -> int:
        return self.sessions[place].current_load + len(self.given[place])


def items_to_sessions(
    items: Sequence[PlaceableItem], sessions: Sequence[SessionView], options: DistributionOptions | None = None
) -> tuple[SessionShare, ...]:
    """One share per session, in their order; none when there are no sessions.

    Every item that is to be done is in one share at most, and is left out only when all sessions have their most.
    """
    options = options or DistributionOptions()
    ordered = _ordered(items, options)
    deal = _Assignments(sessions, options.max_items_per_session)
    if sessions:
        _STRATEGIES[options.strategy](deal, ordered)
    return tuple(
        SessionShare(session.session_id, tuple(ordered[turn] for turn in sorted(given)))
        for session, given in zip(sessions, deal.given, strict=True)
    )


def _ordered(items: Sequence[PlaceableItem], options: DistributionOptions) -> list[PlaceableItem]:
    wanted = {ItemStanding.OPEN}
    if options.with_failed:
        wanted.add(ItemStanding.FAILED)
    if options.with_invalid:
        wanted.add(ItemStanding.INVALID)
    ranks = {domain: rank for rank, domain in reversed(tuple(enumerate(options.prioritize_domains)))}
    last = len(options.prioritize_domains)
    return sorted((item for item in items if item.standing in wanted), key=lambda item: ranks.get(item.domain, last))


def _round_robin(deal: _Assignments, items: Sequence[PlaceableItem]) -> None:
    count = len(deal.sessions)
    for turn in range(len(items)):
        # All have the same number before anyone has more, so one that is full means that the rest are, or soon will be.
        if deal.has_room(turn % count):
            deal.given[turn % count].append(turn)


def _least_loaded(deal: _Assignments, items: Sequence[PlaceableItem]) -> None:
    places = range(len(deal.sessions))
    for turn in range(len(items)):
        place = deal.least(places)
        if place is None:
            return
        deal.given[place].append(turn)


def _domain_affinity(deal: _Assignments, items: Sequence[PlaceableItem]) -> None:
    """Whole domains: to where one is at home, else to where there is the least to do; what does not fit goes on to the
    next. Those that have a home come first, so that strangers do not take its room."""
    places = range(len(deal.sessions))
    by_domain: dict[str, list[int]] = {}
    for turn, item in enumerate(items):
        by_domain.setdefault(item.domain, []).append(turn)
    homes = {domain: [p for p in places if domain in deal.sessions[p].domains] for domain in by_domain}
    for domain, turns in sorted(by_domain.items(), key=lambda pair: not homes[pair[0]]):
        place: int | None = None
        for turn in turns:
            if place is None or not deal.has_room(place):
                place = deal.least(homes[domain])
                place = deal.least(places) if place is None else place
            if place is None:
                return
            deal.given[place].append(turn)


_STRATEGIES = {
    Strategy.ROUND_ROBIN: _round_robin,
    Strategy.DOMAIN_AFFINITY: _domain_affinity,
    Strategy.LEAST_LOADED: _least_loaded,
}
