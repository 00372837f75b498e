"""Which session gets which items (B6, property 44)."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.fetch.browser.sessions.distributor import (
    DistributionOptions,
    ItemStanding,
    PlaceableItem,
    SessionShare,
    SessionView,
    Strategy,
    items_to_sessions,
)

pytestmark = pytest.mark.req("B6", "property 44")

_DOMAINS = ("a.example", "b.example", "c.example", "d.example")
_domains = st.sampled_from(_DOMAINS)
_items = st.lists(st.tuples(_domains, st.sampled_from(ItemStanding)), max_size=40).map(
    lambda rows: [PlaceableItem(f"i{n}", domain, standing) for n, (domain, standing) in enumerate(rows)]
)
_sessions = st.lists(st.tuples(st.integers(0, 5), st.frozensets(_domains)), max_size=6).map(
    lambda rows: [SessionView(f"s{n}", load, domains) for n, (load, domains) in enumerate(rows)]
)
_options = st.builds(
    DistributionOptions,
    strategy=st.sampled_from(Strategy),
    max_items_per_session=st.none() | st.integers(0, 8),
    prioritize_domains=st.lists(_domains, max_size=3).map(tuple),
    with_failed=st.booleans(),
    with_invalid=st.booleans(),
)


def _wanted(items: Sequence[PlaceableItem], options: DistributionOptions) -> set[str]:
    out = {ItemStanding.DONE}
    out |= set() if options.with_failed else {ItemStanding.FAILED}
    out |= set() if options.with_invalid else {ItemStanding.INVALID}
    return {item.item_id for item in items if item.standing not in out}


def _open(domains: Sequence[str]) -> list[PlaceableItem]:
    return [PlaceableItem(f"i{n}", domain) for n, domain in enumerate(domains)]


def _placed(shares: Sequence[SessionShare]) -> list[str]:
    return [item.item_id for share in shares for item in share.items]


@settings(deadline=None)
@given(_items, _sessions, _options)
def test_property_44_one_entry_per_session_each_open_item_at_most_once_and_none_lost_below_the_cap(
    items: list[PlaceableItem], sessions: list[SessionView], options: DistributionOptions
) -> None:
    shares = items_to_sessions(items, sessions, options)

    assert [share.session_id for share in shares] == [session.session_id for session in sessions]
    placed = _placed(shares)
    wanted = _wanted(items, options)
    assert len(placed) == len(set(placed))
    assert set(placed) <= wanted
    most = options.max_items_per_session
    room = 0 if not sessions else len(wanted) if most is None else most * len(sessions)
    assert len(placed) == min(len(wanted), room)
    assert most is None or all(len(share.items) <= most for share in shares)


@settings(deadline=None)
@example(
    [PlaceableItem("i0", "c.example"), PlaceableItem("i1", "b.example")],
    [SessionView("s0")],
    DistributionOptions(prioritize_domains=("a.example", "a.example", "b.example")),
)
@given(_items, _sessions, _options)
def test_the_same_question_has_the_same_answer_and_shares_keep_the_order(
    items: list[PlaceableItem], sessions: list[SessionView], options: DistributionOptions
) -> None:
    shares = items_to_sessions(items, sessions, options)

    assert shares == items_to_sessions(items, sessions, options)
    first = {domain: rank for rank, domain in reversed(list(enumerate(options.prioritize_domains)))}
    rows = {item.item_id: row for row, item in enumerate(items)}
    for share in shares:
        order = [(first.get(item.domain, 99), rows[item.item_id]) for item in share.items]
        assert order == sorted(order)


@settings(deadline=None)
@given(st.lists(_domains, max_size=30), _sessions, st.none() | st.integers(0, 8))
def test_round_robin_deals_them_out_one_by_one(
    domains: list[str], sessions: list[SessionView], most: int | None
) -> None:
    shares = items_to_sessions(_open(domains), sessions, DistributionOptions(max_items_per_session=most))

    for place, share in enumerate(shares):
        dealt = [f"i{n}" for n in range(len(domains)) if n % len(sessions) == place]
        assert [item.item_id for item in share.items] == dealt[:most]


@settings(deadline=None)
@given(st.lists(_domains, max_size=30), _sessions, st.none() | st.integers(1, 8))
def test_least_loaded_never_gives_to_one_that_has_more_to_do(
    domains: list[str], sessions: list[SessionView], most: int | None
) -> None:
    options = DistributionOptions(strategy=Strategy.LEAST_LOADED, max_items_per_session=most)
    shares = items_to_sessions(_open(domains), sessions, options)

    loads = [session.current_load + len(share.items) for session, share in zip(sessions, shares, strict=True)]
    with_room = [load for load, share in zip(loads, shares, strict=True) if most is None or len(share.items) < most]
    for load, share in zip(loads, shares, strict=True):
        assert not share.items or not with_room or load - 1 <= min(with_room)


@settings(deadline=None)
@given(st.lists(_domains, max_size=30), _sessions)
def test_domain_affinity_keeps_a_domain_together_and_at_home(domains: list[str], sessions: list[SessionView]) -> None:
    shares = items_to_sessions(_open(domains), sessions, DistributionOptions(strategy=Strategy.DOMAIN_AFFINITY))

    at = Counter((item.domain, place) for place, share in enumerate(shares) for item in share.items)
    for domain in set(domains) if sessions else ():
        places = [place for (of, place) in at if of == domain]
        assert len(places) == 1
        homes = [place for place, session in enumerate(sessions) if domain in session.domains]
        assert not homes or places[0] in homes


def test_domains_without_a_home_go_where_there_is_the_least_to_do() -> None:
    sessions = [SessionView("busy", 3), SessionView("home", 0, frozenset({"a.example"})), SessionView("idle", 0)]

    shares = items_to_sessions(
        _open(["b.example", "a.example", "b.example"]), sessions, DistributionOptions(strategy=Strategy.DOMAIN_AFFINITY)
    )

    assert [[item.item_id for item in share.items] for share in shares] == [[], ["i1"], ["i0", "i2"]]


def test_a_domain_that_does_not_fit_into_its_home_goes_on_to_the_next() -> None:
    sessions = [SessionView("home", 9, frozenset({"a.example"})), SessionView("other")]
    options = DistributionOptions(strategy=Strategy.DOMAIN_AFFINITY, max_items_per_session=2)

    shares = items_to_sessions(_open(["a.example"] * 5), sessions, options)

    assert [[item.item_id for item in share.items] for share in shares] == [["i0", "i1"], ["i2", "i3"]]


def test_no_sessions_give_no_entries() -> None:
    assert items_to_sessions(_open(["a.example"]), []) == ()
