"""The store on bad days: lost answers, throttles, conflicts, and a table that is gone for a while."""

from pathlib import Path
from typing import Any

import pytest

from harness.fakes.aws_faults import Faults, Rates
from swath.backends.aws.client.client import Answer, Send
from swath.domain.errors import StoreUnavailable
from swath.domain.item import HandedBackItem
from swath.domain.job import Counts, WaitingFor
from swath.domain.lease import SlotReport
from tests.contract.suites.builders import batch, claimed, end_job, finished, listing, new_job, ready, success
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock


class NoAnswers:
    """Carries out commits and never answers, until it is told to be well."""

    def __init__(self) -> None:
        self.ill = False

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        answer = await send()
        if self.ill and (operation == "transact_write_items" or "ConditionExpression" in params):
            raise TimeoutError("the answer was lost")
        return answer


@pytest.mark.req("Z1", "Q3")
@pytest.mark.parametrize("seed", range(3))
async def test_a_job_run_on_bad_days_loses_nothing_and_counts_nothing_twice(
    stores: Stores, tmp_path: Path, seed: int
) -> None:
    rates = Rates(throttled=0.05, conflict=0.1, server_error=0.05, lost_answer=0.1, unprocessed=0.2)
    faults = Faults(seed, rates)
    store = stores.open(tmp_path, FakeClock(), intercept=faults)
    await store.submit(new_job())
    for number in range(3):
        ids = [str(n) for n in range(100 * number, 100 * number + 120)]
        assert (await store.load("job", batch(number, 1 + 120 * number, ids))).added == (120 if number == 0 else 100)
    await store.seal("job", 3)
    accepted: list[int] = []
    while (lease := await store.claim("worker")) is not None:
        seqs = [item.seq for item in lease.items]
        back = [HandedBackItem(seq=seq) for seq in seqs if seq % 7 == 0 and lease.items[0].first]
        ended = [success(seq) for seq in seqs if seq not in {each.seq for each in back}]
        grant = await finished(store, lease, ended, back, SlotReport(ceiling=0, demand=0))
        assert grant.accepted == set(seqs)
        accepted += [end.seq for end in ended]
        await store.release("worker", lease.fence)
    status = await end_job(store)
    assert status.counts == Counts(success=320, total=320)
    assert sorted(accepted) == sorted(await listing(store))
    assert faults.injected["lost_answer"] > 3


@pytest.mark.req("Z1", "Q3", "Z9")
async def test_a_commit_whose_answer_never_came_is_answered_for_when_it_is_repeated(
    stores: Stores, tmp_path: Path
) -> None:
    """Else the worker would throw away the files of items that count."""
    network = NoAnswers()
    store = stores.open(tmp_path, FakeClock(), intercept=network, patience_seconds=1.0)
    await ready(store, items=12)
    lease = await claimed(store)
    network.ill = True
    with pytest.raises(StoreUnavailable) as told:
        await finished(store, lease, [success(1), success(2)], [HandedBackItem(seq=3)])
    assert told.value.waiting_for is WaitingFor.STORE
    network.ill = False
    grant = await finished(store, lease, [success(1), success(2), success(4)], [HandedBackItem(seq=3)])
    assert grant.accepted == {1, 2, 3, 4}
    assert (await store.status("job")).counts == Counts(success=3, pending=9, total=12)
    assert (await finished(store, lease, [success(1)], [HandedBackItem(seq=3)])).accepted == frozenset()


@pytest.mark.req("Z9", "Q3")
async def test_while_the_table_is_gone_calls_say_so_and_afterwards_all_goes_on(stores: Stores, tmp_path: Path) -> None:
    faults = Faults(1, Rates())
    store = stores.open(tmp_path, FakeClock(), intercept=faults, patience_seconds=1.0)
    await ready(store, items=4)
    lease = await claimed(store)
    faults.down.add("dynamodb")
    for call in (finished(store, lease, [success(1)]), store.status("job"), store.renew("worker", [lease.fence])):
        with pytest.raises(StoreUnavailable) as told:
            await call
        assert told.value.waiting_for is WaitingFor.STORE
    assert store.begin(lease, 2), "what is known is known"
    faults.down.clear()
    assert (await finished(store, lease, [success(1)])).accepted == {1}


@pytest.mark.req("Z1", "Q3")
async def test_a_claim_without_an_answer_leaves_items_that_are_rescued_like_any(stores: Stores, tmp_path: Path) -> None:
    network, clock = NoAnswers(), FakeClock()
    store = stores.open(tmp_path, clock, intercept=network, patience_seconds=1.0)
    await ready(store, items=4)
    await store.release("worker", (await claimed(store)).fence)
    network.ill = True
    with pytest.raises(StoreUnavailable):
        await store.claim("worker")
    network.ill = False
    clock.advance(15)
    (rescued,) = await store.rescue("worker")
    await store.release("worker", rescued.fence)
    assert [item.seq for item in (await claimed(store)).items][:2] == [1, 2]
