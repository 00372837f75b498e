"""How a worker keeps to its slots."""

from __future__ import annotations

import pytest

from swath.domain.lease import LeaseDirective, SlotGrant
from swath.pipeline.worker.outcome_buffer import EAGER_SLOT_REQUESTS
from swath.pipeline.worker.slots import JobSlots


class Holder:
    def __init__(self, ready: int) -> None:
        self.ready = ready


def plenty() -> int:
    return 1_000


def grant(slots: int, target: int) -> SlotGrant:
    return SlotGrant(directive=LeaseDirective.GO_ON, slots=slots, target=target)


@pytest.mark.req("S1")
def test_more_slots_count_at_once() -> None:
    slots = JobSlots(2, 2, plenty)
    slots.apply(grant(5, 5))
    assert slots.free == 5


@pytest.mark.req("S1")
def test_fewer_slots_are_given_up_as_items_end_and_then_reported() -> None:
    slots = JobSlots(4, 4, plenty)
    for seq in range(4):
        slots.take(seq)
    slots.apply(grant(4, 1))
    assert (slots.report().ceiling, slots.free) == (4, 0)
    slots.give(0)
    slots.give(1)
    assert (slots.report().ceiling, slots.free) == (2, 0)
    slots.give(2)
    slots.give(3)
    assert (slots.report().ceiling, slots.free) == (1, 1)


@pytest.mark.req("S1")
def test_unused_slots_above_the_target_are_given_up_at_once() -> None:
    slots = JobSlots(4, 4, plenty)
    slots.take(1)
    slots.apply(grant(4, 2))
    assert slots.report().ceiling == 2


@pytest.mark.req("J3", "J7")
def test_the_report_tells_items_that_wait_for_their_first_request_from_those_that_sent_it() -> None:
    slots = JobSlots(4, 4, plenty)
    slots.users.add(Holder(ready=7))
    slots.take(1)
    slots.take(2)
    slots.begin(2)
    report = slots.report()
    assert (report.queued, report.begun, report.demand) == ((1,), (2,), 9)


@pytest.mark.req("S1")
def test_a_worker_is_owed_slots_while_its_share_is_larger_than_what_it_has() -> None:
    slots = JobSlots(0, 3, plenty)
    assert slots.owed
    slots.apply(grant(3, 3))
    assert not slots.owed


@pytest.mark.req("W1")
def test_a_worker_runs_no_more_than_it_has_room_for_whatever_the_job_allows() -> None:
    slots = JobSlots(100, 100, lambda: 2)
    slots.users.add(Holder(ready=50))
    assert slots.free == 2
    assert slots.report().demand == 2


@pytest.mark.req("S1")
def test_slots_given_up_while_there_was_nothing_to_run_are_owed_again_when_a_further_lease_comes() -> None:
    slots = JobSlots(4, 4, plenty)
    slots.apply(grant(4, 0))
    assert (slots.free, slots.owed) == (0, False)
    slots.hope_for(8, 0)
    assert (slots.free, slots.owed) == (0, True)  # asked for, not taken: others may have got them


@pytest.mark.req("S1", "J5")
def test_a_lease_under_another_policy_binds_at_once_when_the_limit_is_lower() -> None:
    slots = JobSlots(8, 8, plenty)
    for seq in range(5):
        slots.take(seq)
    slots.hope_for(2, 1)
    assert slots.free == 0
    for seq in range(4):
        slots.give(seq)
    assert (slots.running, slots.free) == (1, 1)


@pytest.mark.req("S1", "W1")
def test_slots_that_a_worker_has_no_room_for_are_given_back_with_its_next_word() -> None:
    slots = JobSlots(100, 100, lambda: 2 - slots.running)
    slots.users.add(Holder(ready=50))
    assert (slots.idle, slots.report().ceiling, slots.report().demand, slots.idle) == (True, 2, 2, False)
    slots.take(1)
    assert (slots.free, slots.report().ceiling) == (1, 2)


@pytest.mark.req("S3", "W1")
def test_a_worker_that_is_full_keeps_one_slot_of_a_job_whose_turn_comes() -> None:
    slots = JobSlots(2, 2, lambda: 0)
    slots.users.add(Holder(ready=50))
    assert (slots.report().ceiling, slots.report().demand) == (1, 1)
    assert slots.free == 0, "but it starts nothing before there is room"


@pytest.mark.req("S1", "Q3")
def test_items_that_come_back_are_worth_a_word_only_if_more_could_run_than_the_store_knows_of() -> None:
    holder = Holder(ready=5)
    slots = JobSlots(1, 1, plenty)
    slots.users.add(holder)
    slots.take(0)
    slots.report()
    before, holder.ready = slots.unheard, 6
    assert (before, slots.unheard) == (False, True)
    busy = JobSlots(1, 1, lambda: 1 - busy.running)
    busy.users.add(holder)
    busy.take(0)
    busy.report()
    holder.ready = 7
    assert not busy.unheard, "there is no room for it anyway"


@pytest.mark.req("S1", "Q3")
def test_asking_for_slots_in_vain_makes_patient_and_getting_some_does_not() -> None:
    slots = JobSlots(0, 4, plenty)
    first = slots.tempo.hungry_seconds(0.5, 30.0)
    for _ in range(EAGER_SLOT_REQUESTS + 1):
        slots.apply(grant(0, 4))
    assert slots.tempo.hungry_seconds(0.5, 30.0) > first
    slots.apply(grant(1, 4))
    assert slots.tempo.hungry_seconds(0.5, 30.0) == first


@pytest.mark.req("S4")
def test_once_something_failed_no_more_items_than_slots_start_beyond_the_last_answer() -> None:
    slots = JobSlots(2, 2, plenty, far=True)
    for seq in (1, 2, 3, 4, 5):
        slots.take(seq)
        slots.give(seq)
    assert (slots.free, slots.in_doubt) == (2, False), "all is well"
    slots.fail()
    assert slots.in_doubt
    assert slots.free <= 0, "five have started that the last answer did not know of"
    slots.report()
    slots.apply(grant(2, 2))
    assert (slots.free, slots.in_doubt) == (2, False)


@pytest.mark.req("S4")
def test_what_starts_and_fails_while_a_word_is_under_way_is_beyond_its_answer() -> None:
    slots = JobSlots(2, 2, plenty, far=True)
    slots.report()
    slots.take(1)
    slots.give(1)
    slots.fail()
    slots.apply(grant(2, 2))
    assert (slots.in_doubt, slots.free) == (True, 1)
    slots.take(2)
    slots.give(2)
    assert slots.free == 0
    slots.report()
    slots.apply(grant(2, 2))
    assert (slots.in_doubt, slots.free) == (False, 2)


@pytest.mark.req("S4")
def test_where_the_store_is_near_each_start_knows_and_nobody_has_to_wait() -> None:
    slots = JobSlots(2, 2, plenty)
    for seq in (1, 2, 3):
        slots.take(seq)
        slots.give(seq)
    slots.fail()
    assert (slots.free, slots.in_doubt) == (2, False)
