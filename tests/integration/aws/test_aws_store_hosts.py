"""Workers on several hosts: folders stand for hosts, because processes of one host see each other's lock files."""

import asyncio
from pathlib import Path

import pytest

from swath.backends.aws.store import leases
from swath.backends.aws.store.returned_items import MAX_DEATHS
from swath.backends.aws.store.store import AwsStore
from swath.domain.errors import StoreUnavailable
from swath.domain.failure import FailureKind
from swath.domain.item import HandedBackItem, TryCounts
from swath.domain.job import Counts, WaitingFor
from swath.domain.lease import (
    MAX_SILENCE_DELAY_SECONDS,
    MAX_SILENCES,
    POISON_CRASHES,
    WORKER_SILENT,
    LeaseDirective,
    RescuedLease,
    SlotReport,
)
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import begun, claim_all, claimed, finished, listing, policy, ready, success
from tests.integration.aws.stores import Stores, killer
from tests.support.clock import FakeClock

LEASE_SECONDS = 30.0


@pytest.fixture
def here(stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path / "here", clock, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def there(stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path / "there", clock, lease_seconds=LEASE_SECONDS)


async def rescued_for_silence(watcher: AwsStore, *clocks: FakeClock) -> list[RescuedLease]:
    """What the watcher takes away after it has seen no sign of life for the length of a lease."""
    assert await watcher.rescue("cleaner") == []
    for clock in clocks:
        clock.advance(LEASE_SECONDS)
    return await watcher.rescue("cleaner")


async def suspects(store: AwsStore) -> list[int]:
    return [seq for seq, record in (await listing(store)).items() if record.suspect]


@pytest.mark.req("W5", "Z1", "Q3")
async def test_a_worker_of_another_host_is_dead_when_its_lease_is_over_and_not_before(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    await ready(here, items=4)
    lease = await claimed(there)
    killer(there)("worker")
    assert await here.rescue("cleaner") == []
    clock.advance(LEASE_SECONDS - 1)
    assert await here.rescue("cleaner") == []
    clock.advance(1)
    (rescued,) = await here.rescue("cleaner")
    assert (rescued.fence, rescued.dead, rescued.returned) == (lease.fence, False, len(lease.items))


@pytest.mark.req("S6", "Q3")
async def test_of_a_worker_of_another_host_what_it_last_reported_to_run_is_suspected(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    await ready(here, items=6)
    lease = await claimed(there)
    begun(there, lease, 1, 2, 3)
    await finished(there, lease, report=SlotReport(ceiling=3, demand=3, queued=(2,), begun=(1,)))
    await rescued_for_silence(here, clock)
    assert await suspects(here) == [1, 2]


async def told(store: AwsStore, what: WaitingFor | None) -> bool:
    """Whether the status comes to say that; it is written in the background."""
    for _ in range(500):
        if (await store.status("job")).waiting_for is what:
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.req("Z9", "Q3")
async def test_what_a_worker_of_another_host_waits_for_is_seen_until_it_is_over_or_the_worker_is_gone(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    await ready(here, items=4)
    lease = await claimed(there)
    there.tell_waiting("worker", WaitingFor.DISK)
    assert await told(here, WaitingFor.DISK)
    there.tell_waiting("worker", None)
    assert await told(here, None)
    there.tell_waiting("worker", WaitingFor.QUEUE)
    assert await told(here, WaitingFor.QUEUE)
    await there.renew("worker", [lease.fence])
    assert (await here.status("job")).waiting_for is WaitingFor.QUEUE
    clock.advance(LEASE_SECONDS + 1)
    assert (await here.status("job")).waiting_for is None


@pytest.mark.req("Z9", "Q3")
async def test_what_could_not_be_told_at_once_is_told_with_the_next_sign_of_life(
    here: AwsStore, there: AwsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(here, items=4)
    lease = await claimed(there)
    monkeypatch.setattr(leases, "tell_waiting", unavailable)
    there.tell_waiting("worker", WaitingFor.DISK)
    assert (await here.status("job")).waiting_for is None
    await there.renew("worker", [lease.fence])
    assert (await here.status("job")).waiting_for is WaitingFor.DISK
    there.tell_waiting("worker", None)
    await finished(there, lease, [success(lease.items[0].seq)])
    assert (await here.status("job")).waiting_for is None


@pytest.mark.req("Z9", "Q3")
async def test_of_its_own_host_a_store_says_what_is_true_and_not_what_was_written(
    here: AwsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(here, items=4)
    lease = await claimed(here)
    monkeypatch.setattr(leases, "tell_waiting", unavailable)
    here.tell_waiting("worker", WaitingFor.DISK)
    await here.renew("worker", [lease.fence])
    here.tell_waiting("worker", None)
    assert (await here.status("job")).waiting_for is None


async def unavailable(*_: object) -> None:
    raise StoreUnavailable("the table is away", WaitingFor.STORE)


@pytest.mark.req("S6", "Q3")
async def test_an_item_that_takes_its_whole_host_along_ends_but_not_as_poison(
    stores: Stores, here: AwsStore, clock: FakeClock, tmp_path: Path
) -> None:
    """Each worker is gone, on a host of its own, before it has reported anything but what ran alone: nobody can tell
    whether it died."""
    await ready(here, items=1)
    for losses in range(MAX_DEATHS + 1 + MAX_SILENCES):
        host = stores.open(tmp_path / f"host-{losses}", clock, lease_seconds=LEASE_SECONDS)
        lease = await claimed(host, f"worker-{losses}")
        begun(host, lease, 1)
        assert lease.alone == (losses > MAX_DEATHS)
        if lease.alone:
            await finished(host, lease, report=SlotReport(ceiling=1, demand=1, begun=(1,)))
        for rescued in await rescued_for_silence(here, clock):
            await here.release("cleaner", rescued.fence)
        clock.advance(MAX_SILENCE_DELAY_SECONDS)
    record = await here.item("job", "1")
    assert record.failure is not None
    assert (record.failure.kind, record.reason) == (FailureKind.INTERNAL, WORKER_SILENT)
    assert record.tries == TryCounts()


@pytest.mark.req("S6", "Q3")
async def test_deaths_that_another_process_of_the_host_has_seen_make_poison(
    stores: Stores, here: AwsStore, clock: FakeClock, tmp_path: Path
) -> None:
    await ready(here, items=1)
    for deaths in range(1 + POISON_CRASHES):
        folder = tmp_path / f"host-{deaths}"
        host, beside = (stores.open(folder, clock, lease_seconds=LEASE_SECONDS) for _ in range(2))
        lease = await claimed(host, "worker")
        begun(host, lease, 1)
        if lease.alone:
            await finished(host, lease, report=SlotReport(ceiling=1, demand=1, begun=(1,)))
        killer(host)("worker")
        (rescued,) = await beside.rescue("beside")
        assert rescued.dead
        await beside.release("beside", rescued.fence)
    record = await here.item("job", "1")
    assert record.failure is not None
    assert record.failure.kind is FailureKind.POISON


@pytest.mark.req("Z10", "S6", "Z1", "Q3")
@pytest.mark.parametrize("ahead", [20.0, -20.0, 400 * 86_400.0, -400 * 86_400.0])
async def test_hosts_whose_clocks_differ_neither_take_living_leases_nor_blame_their_items(
    stores: Stores, here: AwsStore, clock: FakeClock, tmp_path: Path, ahead: float
) -> None:
    """The other host's clock is `ahead`; both look after each other while a suspect runs for four leases there."""
    theirs = FakeClock(clock.now() + ahead, boot=77.0)
    there = stores.open(tmp_path / "there", theirs, lease_seconds=LEASE_SECONDS)
    await ready(here, items=1)
    begun(there, await claimed(there, "first"), 1)
    killer(there)("first")
    for rescued in await there.rescue("cleaner there"):
        await there.release("cleaner there", rescued.fence)
    for store, watcher in ((there, here), (here, there)):
        lease = await claimed(store, "holder")
        assert lease.alone
        begun(store, lease, 1)
        await finished(store, lease, report=SlotReport(ceiling=1, demand=1, begun=(1,)))
        for _ in range(8):
            for each in (clock, theirs):
                each.advance(LEASE_SECONDS / 2)
            assert await watcher.rescue("watcher") == []
            assert (await store.renew("holder", [lease.fence]))[lease.fence] is LeaseDirective.GO_ON
        taken = await rescued_for_silence(watcher, clock, theirs)
        assert [(one.fence, one.dead) for one in taken] == [(lease.fence, False)]
        await watcher.release("cleaner", lease.fence)
    record = await here.item("job", "1")
    assert (record.state, record.tries, record.suspect) == (ItemState.PENDING, TryCounts(), True)


@pytest.mark.req("Z10", "S6")
async def test_a_host_whose_clock_is_days_ahead_does_not_make_items_wait_for_days(
    stores: Stores, clock: FakeClock, tmp_path: Path
) -> None:
    ahead = FakeClock(now=clock.now() + 400 * 86_400)
    here, there = stores.open(tmp_path / "here", clock), stores.open(tmp_path / "there", ahead)
    await ready(here, items=2)
    lease = await claimed(there)
    assert await here.claim("other") is None
    await finished(there, lease, [success(1)], [HandedBackItem(seq=2, delay_seconds=5.0)])
    await there.release("worker", lease.fence)
    assert await here.claim("other") is None
    for _ in range(3):  # waits are listed by five seconds
        clock.advance(5.0)
        if (again := await here.claim("other")) is not None:
            break
    assert again is not None
    assert [item.seq for item in again.items] == [2]


@pytest.mark.req("S6", "Q3")
async def test_an_item_that_is_handed_back_in_between_is_no_suspect(
    stores: Stores, here: AwsStore, clock: FakeClock, tmp_path: Path
) -> None:
    await ready(here, items=1)
    for n in range(2 * MAX_DEATHS + 2):
        host = stores.open(tmp_path / f"host-{n}", clock, lease_seconds=LEASE_SECONDS)
        lease = await claimed(host, f"worker-{n}")
        assert not lease.alone
        if n % 2:
            await finished(host, lease, handed_back=[HandedBackItem(seq=1)])
            await host.release(f"worker-{n}", lease.fence)
        else:
            for rescued in await rescued_for_silence(here, clock):
                await here.release("cleaner", rescued.fence)
    assert await suspects(here) == []


@pytest.mark.req("Z1", "Q3", "W5")
async def test_a_worker_that_slept_through_its_lease_changes_nothing(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    """Its process believes in the head as it left it; the table does not."""
    await ready(here, items=4)
    lost = await claimed(there)
    await rescued_for_silence(here, clock)
    again = await claimed(here, "cleaner")
    grant = await finished(there, lost, [success(1), success(2)])
    assert (grant.directive, grant.accepted) == (LeaseDirective.LOST, frozenset())
    assert not there.begin(lost, 3)
    assert (await finished(here, again, [success(1)])).accepted == {1}
    assert (await here.status("job")).counts == Counts(success=1, pending=3, total=4)


@pytest.mark.req("S1", "Q3")
async def test_workers_of_another_host_hear_of_a_word_with_their_next_commit(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    await ready(here, items=20)
    lease = await claimed(there)
    await here.pause("job")
    assert (await finished(there, lease, [success(1)])).directive is LeaseDirective.STOP
    assert not there.begin(lease, 2)
    await here.resume("job")
    assert (await there.renew("worker", [lease.fence]))[lease.fence] is LeaseDirective.GO_ON
    assert there.begin(lease, 2)
    await here.change_policy("job", policy(2))
    assert (await there.renew("worker", [lease.fence]))[lease.fence] is LeaseDirective.STOP


@pytest.mark.req("S1", "Q3")
async def test_a_word_that_seems_to_change_nothing_is_compared_with_the_table(here: AwsStore, there: AwsStore) -> None:
    """A process that is alone on a job trusts its own copy of the head, but never to refuse or to do nothing."""
    await ready(here, items=20)
    await claimed(there)
    await there.pause("job")
    await here.resume("job")
    assert (await there.pause("job")).state is JobState.PAUSED
    assert (await here.status("job")).state is JobState.PAUSED


@pytest.mark.req("W5", "Z1", "S1", "Q3")
async def test_many_workers_on_many_hosts_end_each_item_once(stores: Stores, clock: FakeClock, tmp_path: Path) -> None:
    """All at once on one job, so that most changes find that somebody was faster."""
    hosts = [stores.open(tmp_path / f"host-{n}", clock, lease_seconds=LEASE_SECONDS) for n in range(4)]
    await ready(hosts[0], items=200, limit=16)
    accepted: list[int] = []

    async def work(store: AwsStore, worker_id: str) -> None:
        for _ in range(100):
            lease = await store.claim(worker_id)
            if lease is None:
                if not (await store.status("job")).counts.remaining:
                    return
                await asyncio.sleep(0.01)
                continue
            seqs = [item.seq for item in lease.items]
            for part in (seqs[: len(seqs) // 2], seqs[len(seqs) // 2 :]):
                grant = await finished(
                    store, lease, [success(seq) for seq in part], report=SlotReport(ceiling=0, demand=len(seqs))
                )
                accepted.extend(grant.accepted)
            await store.release(worker_id, lease.fence)

    await asyncio.gather(*(work(store, f"w{n}") for n, store in enumerate(hosts)))
    assert sorted(accepted) == list(range(1, 201))
    assert (await hosts[0].status("job")).counts == Counts(success=200, total=200)
    assert await claim_all(hosts[1]) == []
