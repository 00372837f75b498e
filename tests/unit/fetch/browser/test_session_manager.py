"""Sessions are made when they are needed, shared, replaced and ended; items are placed on them (B5, B6)."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.pool.instance import BrowserProcess
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from swath.fetch.browser.sessions.manager import SessionManager
from swath.fetch.browser.sessions.session_slot import ManagerOptions, SessionSlot
from swath.fetch.egress.forward_proxy.browser_egress import ContextProxy
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("B5")


def _failed(kind: FailureKind, wait_seconds: float | None = None) -> Failed:
    return Failed(Failure.of(kind, "as a test asked for", wait_seconds))


class _Place:
    """Implements Opened, without a browser."""

    context = page = cast("Any", None)
    running: BrowserProcess | None = None
    exit: ContextProxy | None = None
    keeps_page = False
    loads = 0

    def __init__(self, session: "_Session") -> None:
        self._session = session

    def admit(self, window: str) -> None:
        """There are no windows."""

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._session.open_places -= 1

    async def kill(self) -> None:
        self._session.dead = self._session.gone = True


class _Session:
    def __init__(self, number: int, expires_at: float | None) -> None:
        self.session_id = f"s{number}"
        self.expires_at = expires_at
        self.open_places = 0
        self.dead = False
        self.gone = False

    async def open(self, wish: TabRequest) -> BrowserTab:
        await asyncio.sleep(0)
        if self.dead:
            raise _failed(FailureKind.BROWSER_CRASH)
        self.open_places += 1
        assert self.open_places == 1, "a session serves one item at a time"
        return _Place(self)


class _Provider:
    """Implements Provider: sessions that die, expire and cannot be had as a test likes."""

    name = "stand-in"

    def __init__(self, clock: FakeClock, most_sessions: int = 8, lifetime_seconds: float | None = None) -> None:
        self.most_sessions = most_sessions
        self.made: list[_Session] = []
        self.live: list[_Session] = []
        self.refusals: list[Failed] = []
        self.asked = 0
        self.closed = False
        self._clock = clock
        self._lifetime_seconds = lifetime_seconds

    async def create(self) -> ProviderSession:
        self.asked += 1
        await asyncio.sleep(0)
        if self.refusals:
            raise self.refusals.pop(0)
        ends = None if self._lifetime_seconds is None else self._clock.boot() + self._lifetime_seconds
        session = _Session(len(self.made) + 1, ends)
        self.made.append(session)
        self.live.append(session)
        assert len(self.live) <= self.most_sessions
        return session

    async def destroy(self, session: ProviderSession) -> None:
        self.live = [other for other in self.live if other is not session]

    async def close(self) -> None:
        self.closed = True


def _manager(clock: FakeClock, provider: _Provider, most: int = 2, **options: float) -> SessionManager:
    return SessionManager(provider, ManagerOptions(max_sessions=most, **cast("Any", options)), clock)


def _picked(manager: SessionManager, *sites: str) -> tuple[int, SessionSlot]:
    picked = manager.pick(list(enumerate(sites)))
    assert picked is not None
    return picked


async def _item(manager: SessionManager, site: str = "a.example", error: Exception | None = None) -> str:
    """Runs one, and says in which session."""
    _, seat = _picked(manager, site)
    async with manager.visit(seat, TabRequest(site=site, keeps=True)):
        served_by = [stats.session_id for stats in manager.active if stats.current_load]
        if error is not None:
            raise error
    (session_id,) = served_by
    return session_id


async def test_items_share_sessions_that_are_made_when_they_are_needed() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)
    assert (manager.free, provider.asked) == (2, 0)

    assert {await _item(manager) for _ in range(5)} == {"s1"}

    clock.advance(7)
    (only,) = manager.active
    assert (only.session_id, only.items_processed, only.errors, only.current_load) == ("s1", 5, 0, 0)
    assert only.uptime_seconds == 7


async def test_no_more_items_start_than_there_are_sessions() -> None:
    clock = FakeClock()
    manager = _manager(clock, _Provider(clock, most_sessions=2), most=5)

    _, first = _picked(manager, "a", "b", "c")
    _, second = _picked(manager, "b", "c")
    assert (manager.free, manager.pick([(0, "c")])) == (0, None)
    assert not manager.stats.created

    manager.give_back(first)
    assert manager.free == 1
    async with manager.visit(second, TabRequest(site="b")):
        assert [session.current_load for session in manager.active] == [1]
        assert manager.free == 1
    assert manager.free == 2


@pytest.mark.req("B6")
async def test_an_item_goes_to_the_session_that_has_kept_its_site_and_others_are_not_passed_over_for_ever() -> None:
    clock = FakeClock()
    manager = _manager(clock, _Provider(clock))
    _, seat_a = _picked(manager, "a.example")
    _, seat_b = _picked(manager, "b.example")
    for seat, site in ((seat_a, "a.example"), (seat_b, "b.example")):
        async with manager.visit(seat, TabRequest(site=site, keeps=True)):
            pass

    index, seat = _picked(manager, "c.example", "b.example")
    assert (index, seat) == (1, seat_b)
    manager.give_back(seat)

    overtakings = 0
    while (picked := _picked(manager, "c.example", "b.example"))[0] == 1:
        manager.give_back(picked[1])
        overtakings += 1
        assert overtakings < 10


async def test_one_that_died_between_two_items_is_replaced_and_the_item_does_not_notice() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)
    await _item(manager)
    provider.made[0].dead = True

    assert await _item(manager) == "s2"
    assert [session.session_id for session in provider.live] == ["s2"]


async def test_one_that_crashes_under_an_item_is_destroyed_and_the_item_fails() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)

    async def crashing() -> None:
        _, seat = _picked(manager, "a.example")
        async with manager.visit(seat, TabRequest(site="a.example")) as opened:
            await opened.kill()
            raise _failed(FailureKind.BROWSER_CRASH)

    with pytest.raises(Failed):
        await crashing()

    assert provider.live == []
    assert (manager.stats.items_processed, manager.stats.errors, manager.stats.destroyed) == (1, 1, 1)
    assert await _item(manager) == "s2"


@pytest.mark.parametrize(
    ("kind", "replaced"),
    [(FailureKind.BLOCKED, True), (FailureKind.BROWSER_CRASH, True), (FailureKind.SERVER_ERROR, False)],
)
async def test_one_that_errs_often_is_replaced_unless_it_is_the_site(kind: FailureKind, replaced: bool) -> None:
    clock = FakeClock()
    manager = _manager(clock, _Provider(clock), most_errors=3)
    for _ in range(3):
        with pytest.raises(Failed):
            await _item(manager, error=_failed(kind))

    assert await _item(manager) == ("s2" if replaced else "s1")


async def test_old_idle_and_expiring_sessions_are_ended() -> None:
    clock = FakeClock()
    provider = _Provider(clock, lifetime_seconds=600)
    manager = _manager(clock, provider, session_timeout_seconds=400, idle_seconds=50, margin_seconds=60)
    await _item(manager)
    clock.advance(49)
    await manager.tend()
    assert len(provider.live) == 1
    clock.advance(1)
    await manager.tend()
    assert provider.live == []

    for age, kept in ((399.0, True), (1.0, False)):
        assert await _item(manager) == "s2"
        clock.advance(age)
        assert bool(manager._ready()) is kept
    assert await _item(manager) == "s3"

    provider = _Provider(clock, lifetime_seconds=100)
    manager = _manager(clock, provider, margin_seconds=60)
    await _item(manager)
    clock.advance(40)
    assert await _item(manager) == "s2"


@pytest.mark.req("W3")
@pytest.mark.parametrize(
    ("failed", "held_seconds"),
    [
        (_failed(FailureKind.CREDENTIAL), 60.0),
        (_failed(FailureKind.ACCESS_POLICY), 60.0),
        (_failed(FailureKind.BROWSER_CRASH), 0.5),
        (_failed(FailureKind.RATE_LIMITED, 42.0), 42.0),
    ],
    ids=lambda value: str(value) if isinstance(value, Failed) else "",
)
async def test_a_session_that_cannot_be_had_fails_its_item_by_name_and_is_not_asked_for_again_at_once(
    failed: Failed, held_seconds: float
) -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    provider.refusals = [failed]
    manager = _manager(clock, provider)

    with pytest.raises(Failed) as raised:
        await _item(manager)

    assert raised.value.failure == failed.failure
    assert (manager.free, manager.pick([(0, "a.example")]), provider.asked) == (0, None, 1)
    assert (manager.stats.held_for_seconds, manager.stats.last_failure) == (held_seconds, failed.failure)
    clock.advance(held_seconds)
    assert await _item(manager) == "s1"
    assert manager.stats.last_failure is None


async def test_who_waits_for_a_seat_is_told_when_sessions_may_be_asked_for_again() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    provider.refusals = [_failed(FailureKind.CREDENTIAL)]
    manager = _manager(clock, provider)
    with pytest.raises(Failed):
        await _item(manager)
    told: list[int] = []
    manager.on_free = lambda: told.append(manager.free)

    for _ in range(4):
        await manager.tend()
        clock.advance(30)

    assert told == [2]


async def test_a_short_wait_for_a_session_costs_no_try() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    provider.refusals = [_failed(FailureKind.RATE_LIMITED, 4.0)]
    manager = _manager(clock, provider, patience_seconds=10)

    running = asyncio.ensure_future(_item(manager))
    await _until(lambda: clock.sleeping == 1)
    clock.advance(4)

    assert await running == "s1"


async def test_failures_in_a_row_are_waited_for_longer_each_time_and_told(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    provider.refusals = [_failed(FailureKind.BROWSER_CRASH) for _ in range(12)]
    manager = _manager(clock, provider)

    waits = []
    for _ in range(12):
        with pytest.raises(Failed):
            await _item(manager)
        waits.append(manager.stats.held_for_seconds)
        clock.advance(waits[-1])

    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    told = [record.getMessage() for record in caplog.records]
    assert told[2] == "there is no browser; the next try is in 2 s: as a test asked for"
    assert len(told) == 12


async def test_warm_up_refresh_and_destroy() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider, most=3)

    assert await manager.warm_up(2) == 2
    assert await manager.warm_up(9) == 3
    assert await manager.refresh("s2")
    assert [session.session_id for session in manager.active] == ["s1", "s4", "s3"]
    assert await manager.destroy("s1")
    assert not await manager.destroy("s1")
    assert not await manager.refresh("nobody")
    assert [session.session_id for session in provider.live] == ["s3", "s4"]


async def test_one_that_is_at_work_is_replaced_after_its_item() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)
    _, seat = _picked(manager, "a")
    async with manager.visit(seat, TabRequest(site="a")):
        assert await manager.refresh("s1")
        assert [session.session_id for session in provider.live] == ["s1"]
    await manager.tend()

    assert provider.live == []
    assert await _item(manager) == "s2"


@pytest.mark.req("W3")
async def test_an_item_that_is_cut_short_leaves_its_seat_free_and_its_place_closed() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)
    _, seat = _picked(manager, "a")
    inside = asyncio.Event()

    async def work() -> None:
        async with manager.visit(seat, TabRequest(site="a")):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await inside.wait()
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert (manager.free, provider.made[0].open_places) == (2, 0)


@pytest.mark.req("W3")
async def test_a_browser_that_does_not_open_in_time_is_given_up() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider, open_seconds=0.05)
    await manager.warm_up(1)

    async def never(wish: TabRequest) -> BrowserTab:
        await asyncio.Event().wait()
        raise AssertionError

    provider.made[0].open = never  # type: ignore[method-assign]
    with pytest.raises(Failed, match="browser_crash: no page in a browser"):
        await _item(manager)
    assert provider.live == []


async def test_close_leaves_no_session_and_makes_none() -> None:
    clock = FakeClock()
    provider = _Provider(clock)
    manager = _manager(clock, provider)
    await manager.warm_up(2)

    await manager.close()

    assert (provider.live, provider.closed, manager.free) == ([], True, 0)


_steps = st.lists(
    st.tuples(st.sampled_from(["start", "end", "fail", "crash", "time", "tend", "refuse", "die"]), st.integers(0, 7)),
    max_size=40,
)


@pytest.mark.req("W3")
@settings(deadline=None)
@given(_steps)
def test_whatever_happens_seats_are_neither_lost_nor_given_twice(steps: list[tuple[str, int]]) -> None:
    asyncio.run(_through(steps))


class _Crowd:
    """Items that are under way, until they are told how to end."""

    def __init__(self, manager: SessionManager, provider: _Provider, clock: FakeClock) -> None:
        self.manager = manager
        self.provider = provider
        self.clock = clock
        self.running: list[tuple[asyncio.Task[Any], asyncio.Future[Exception | None]]] = []

    async def step(self, what: str, number: int) -> None:
        if what == "start" and (picked := self.manager.pick([(0, f"{number}.example")])) is not None:
            end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            self.running.append((asyncio.ensure_future(self._work(picked[1], end)), end))
        elif what == "time":
            self.clock.advance(number * 30.0)
        elif what == "tend":
            await self.manager.tend()
        elif what == "refuse":
            self.provider.refusals.append(_failed(FailureKind.RATE_LIMITED, 20.0))
        elif what == "die" and self.provider.live:
            self.provider.live[number % len(self.provider.live)].dead = True
        elif what in _ENDS and self.running:
            await self.end(number % len(self.running), _ENDS[what])

    async def end(self, place: int, kind: FailureKind | None) -> None:
        task, end = self.running.pop(place)
        end.set_result(None if kind is None else _failed(kind))
        await asyncio.gather(task, return_exceptions=True)

    async def _work(self, seat: SessionSlot, end: asyncio.Future[Exception | None]) -> None:
        async with self.manager.visit(seat, TabRequest(site="a")):
            error = await end
            if error is not None:
                raise error


_ENDS = {"end": None, "fail": FailureKind.BLOCKED, "crash": FailureKind.BROWSER_CRASH}


async def _through(steps: list[tuple[str, int]]) -> None:
    clock = FakeClock()
    provider = _Provider(clock, most_sessions=3, lifetime_seconds=500)
    manager = _manager(clock, provider, most=3, patience_seconds=0, idle_seconds=100)
    crowd = _Crowd(manager, provider, clock)
    for what, number in steps:
        await crowd.step(what, number)
        for _ in range(10):  # a seat is free some turns before its task is done
            await asyncio.sleep(0)
        assert manager.free + sum(not task.done() for task, _ in crowd.running) <= 3
        assert len(provider.live) <= 3
    while crowd.running:
        await crowd.end(0, None)
    clock.advance(1_000)
    provider.refusals.clear()
    assert manager.free == 3
    await manager.close()
    assert provider.live == []


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0)
