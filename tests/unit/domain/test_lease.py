"""How slots are shared and how large a lease is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.lease import (
    CROWD_ROUNDS,
    CROWD_WORKERS,
    LEASE_ROUNDS,
    MAX_LEASE_ITEMS,
    MIN_LEASE_ITEMS,
    WORKERS_PER_EXTRA_ROUND,
    admits_another_worker,
    fair_share,
    first_demand,
    grant_slots,
    lease_size,
    target_slots,
)

limits = st.integers(1, 200)
demand_lists = st.lists(st.integers(0, 60), max_size=12)


@pytest.mark.req("S1")
@given(limit=limits, demands=demand_lists)
def test_all_slots_are_shared_as_far_as_anybody_can_use_them(limit: int, demands: list[int]) -> None:
    assert sum(fair_share(limit, demands)) == min(limit, sum(demands))


@pytest.mark.req("S1")
@given(limit=limits, demands=demand_lists)
def test_nobody_gets_more_than_it_can_use(limit: int, demands: list[int]) -> None:
    assert all(0 <= share <= demand for share, demand in zip(fair_share(limit, demands), demands, strict=True))


@pytest.mark.req("S1")
@given(limit=limits, demands=demand_lists)
def test_whoever_could_use_more_has_no_less_than_anybody_but_for_the_odd_one(limit: int, demands: list[int]) -> None:
    shares = fair_share(limit, demands)
    hungry = [share for share, demand in zip(shares, demands, strict=True) if share < demand]
    assert all(share <= least + 1 for least in hungry for share in shares)


@given(limit=limits, demands=demand_lists)
def test_the_same_question_has_the_same_answer(limit: int, demands: list[int]) -> None:
    assert fair_share(limit, demands) == fair_share(limit, demands)


@pytest.mark.parametrize(
    ("limit", "demands", "shares"),
    [
        (8, [8, 8], [4, 4]),
        (8, [1, 8], [1, 7]),
        (3, [9, 9, 9, 9], [1, 1, 1, 0]),
        (7, [1, 10, 10], [1, 3, 3]),
        (5, [], []),
    ],
)
def test_shares_that_a_person_would_agree_with(limit: int, demands: list[int], shares: list[int]) -> None:
    assert fair_share(limit, demands) == shares


@pytest.mark.req("S1")
@given(
    limit=st.integers(1, 20),
    reports=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 20)), max_size=60),
)
def test_ceilings_granted_one_after_the_other_never_exceed_the_limit(
    limit: int, reports: list[tuple[int, int, int]]
) -> None:
    ceilings, demands = [0] * 5, [0] * 5
    for who, demand, lowered in reports:
        demands[who] = demand
        ceiling = min(ceilings[who], lowered)  # a worker reports its ceiling, which it may have lowered
        target = fair_share(limit, demands)[who]
        ceilings[who] = grant_slots(limit, ceiling, target, sum(ceilings) - ceilings[who])
        assert ceilings[who] >= ceiling
        assert sum(ceilings) <= limit


@pytest.mark.req("S1")
@given(limit=st.integers(1, 20), demands=st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_workers_that_shrink_to_their_target_reach_the_fair_share_after_two_rounds(
    limit: int, demands: list[int]
) -> None:
    fair = fair_share(limit, demands)
    ceilings = [0] * len(demands)
    ceilings[0] = limit  # one had them all
    for _ in range(2):
        for who, target in enumerate(fair):
            kept = min(ceilings[who], target)
            ceilings[who] = grant_slots(limit, kept, target, sum(ceilings) - ceilings[who])
    assert ceilings == fair


@given(claimable=st.integers(1, 10**7), workers=st.integers(0, 500), limit=limits)
def test_a_lease_is_never_empty_nor_larger_than_what_there_is_or_the_most_allowed(
    claimable: int, workers: int, limit: int
) -> None:
    assert 1 <= lease_size(claimable, workers, limit) <= min(claimable, MAX_LEASE_ITEMS)


@given(claimable=st.integers(1, 10**5), workers=st.integers(1, 50), limit=limits)
def test_a_lease_fills_the_share_of_its_worker_as_far_as_there_is_work(
    claimable: int, workers: int, limit: int
) -> None:
    share = min(MIN_LEASE_ITEMS, -(-limit // workers))
    assert lease_size(claimable, workers, limit) >= min(claimable, share)


@given(claimable=st.integers(2 * MIN_LEASE_ITEMS, 10**5), workers=st.integers(1, 50), limit=limits)
def test_a_lease_leaves_at_least_half_for_the_others_while_there_is_much(
    claimable: int, workers: int, limit: int
) -> None:
    assert lease_size(claimable, workers, limit) <= -(-claimable // 2)


@pytest.mark.req("S1")
@pytest.mark.parametrize(("workers", "limit", "last"), [(2, 8, 4), (4, 4, 1), (3, 2, 1), (1, 50, 8)])
def test_leases_shrink_towards_the_end_of_a_job_so_that_none_holds_it_up(workers: int, limit: int, last: int) -> None:
    left, sizes = 1_000, []
    while left:
        sizes.append(lease_size(left, workers, limit))
        left -= sizes[-1]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == min(MAX_LEASE_ITEMS, LEASE_ROUNDS * -(-limit // workers))
    assert sizes[-1] <= last


@pytest.mark.req("S3")
def test_a_worker_with_few_slots_gets_small_leases_so_that_urgent_work_need_not_wait_long() -> None:
    assert lease_size(10**6, 1, 1) == LEASE_ROUNDS
    assert lease_size(10**6, 1, 8) == MAX_LEASE_ITEMS


@pytest.mark.req("S1", "J5")
@given(limit=limits, ceilings=st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_after_the_limit_was_lowered_nobody_starts_what_others_must_make_room_for(
    limit: int, ceilings: list[int]
) -> None:
    mine, others = ceilings[0], sum(ceilings[1:])
    target = target_slots(limit, mine, limit, others)
    assert target == (limit if mine + others <= limit else max(0, limit - others))


@pytest.mark.req("S1")
@given(limit=limits, workers=st.integers(0, 300), slots=st.integers(0, 300))
def test_a_worker_gets_in_where_others_leave_a_slot_and_among_few_also_where_they_will(
    limit: int, workers: int, slots: int
) -> None:
    room = admits_another_worker(limit, workers, slots)
    if workers >= limit:
        assert not room
    elif workers < CROWD_WORKERS or slots < limit:
        assert room
    else:
        assert not room, "a crowd does not pass slots around"


@pytest.mark.req("Q3", "S1")
def test_leases_of_a_crowd_are_longer_so_that_its_claims_leave_time_for_its_commits() -> None:
    few, many = (
        lease_size(10**6, CROWD_WORKERS - 1, 2 * CROWD_WORKERS),
        lease_size(10**6, 2 * CROWD_WORKERS, 4 * CROWD_WORKERS),
    )
    assert few == LEASE_ROUNDS * 3
    assert many == CROWD_ROUNDS * 2
    assert lease_size(10**6, 160, 160) == CROWD_ROUNDS


@pytest.mark.req("S1", "Q3")
@pytest.mark.parametrize(("workers", "limit"), [(50, 200), (79, 158), (158, 158), (500, 500)])
def test_leases_of_a_crowd_shrink_too_but_not_to_one_item_each_while_all_have_work(workers: int, limit: int) -> None:
    left, sizes = 100_000, []
    while left:
        sizes.append(lease_size(left, workers, limit))
        left -= sizes[-1]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= -(-limit // workers), "as many as run at once"
    rounds = workers // WORKERS_PER_EXTRA_ROUND
    assert sum(size < rounds * -(-limit // workers) for size in sizes) < 10, "only the very last are smaller"


@pytest.mark.req("S1")
@given(items=st.integers(1, 100), workers=st.integers(1, 300), limit=limits)
def test_a_newcomer_wants_all_it_got_but_in_a_crowd_no_more_than_its_even_share(
    items: int, workers: int, limit: int
) -> None:
    wants = first_demand(items, workers, limit)
    assert 1 <= wants <= items
    assert wants == items if workers < CROWD_WORKERS else wants <= -(-limit // workers)
