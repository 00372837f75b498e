import json
import time
from contextlib import AsyncExitStack

import pytest

from swath.demo.county import Counters, DemoCountyServer, FaultSettings, control
from tests.unit.demo.county.client import Client, until

pytestmark = pytest.mark.req("K5")

FOR_EVER_MS = 600_000


async def counted(client: Client) -> dict[str, object]:
    answer = await client.get("/_site/counters")
    result: dict[str, object] = json.loads(answer.body)
    return result


async def test_requests_are_counted_by_kind_and_status(county: DemoCountyServer, client: Client) -> None:
    await client.agree()
    await client.search("200-14-030")
    await client.get("/parcel/200-14-030")
    await client.get("/parcel/200-14-030/bill.pdf")
    await client.get("/")
    await client.get("/nothing")
    client.cookie = ""
    await client.get("/parcel/200-14-030")
    shown = await counted(client)
    assert shown["by_kind"] == {
        "disclaimer": {"200": 1, "302": 1},
        "search": {"200": 1, "302": 1},
        "parcel": {"200": 1, "302": 1},
        "bill": {"200": 1},
        "home": {"302": 1},
        "other": {"404": 1},
    }
    assert shown["by_status"] == {"200": 4, "302": 4, "404": 1}
    assert shown["requests"] == 9
    assert (shown["open_requests"], shown["open_items"], shown["peak_open_requests"]) == (0, 0, 1)


async def test_open_requests_and_their_peak_are_exact(county: DemoCountyServer) -> None:
    """Fifteen visitors at a site that does not answer; five leave, three come: open 13, peak 15."""
    county.switches = FaultSettings(latency_ms=FOR_EVER_MS)
    async with AsyncExitStack() as stack:
        visitors = [await stack.enter_async_context(Client(county.base_url)) for _ in range(18)]
        for visitor in visitors[:15]:
            await visitor.send(visitor.request("GET", "/echo"))
        await until(lambda: county.counters.open_requests == 15)
        for visitor in visitors[:5]:
            await visitor.leave()
        await until(lambda: county.counters.open_requests == 10)
        for visitor in visitors[15:]:
            await visitor.send(visitor.request("GET", "/echo"))
        await until(lambda: county.counters.open_requests == 13)
        assert county.counters.peak_open_requests == county.counters.peak_open_items == 15
        assert county.counters.by_status() == {"aborted": 5}


async def test_requests_of_one_session_are_one_open_item(county: DemoCountyServer) -> None:
    async with AsyncExitStack() as stack:
        visitors = [await stack.enter_async_context(Client(county.base_url)) for _ in range(7)]
        await visitors[0].agree()
        await visitors[3].agree()
        visitors[1].cookie = visitors[2].cookie = visitors[0].cookie
        county.switches = FaultSettings(latency_ms=FOR_EVER_MS)
        for visitor in visitors:
            await visitor.send(visitor.request("GET", "/echo"))
        await until(lambda: county.counters.open_requests == 7)
        # One session of three requests, one of a single request, and three strangers.
        assert county.counters.open_items == county.counters.peak_open_items == 5
        await visitors[0].leave()
        await until(lambda: county.counters.open_requests == 6)
        assert county.counters.open_items == 5
        for visitor in visitors[1:3]:
            await visitor.leave()
        await until(lambda: county.counters.open_requests == 4)
        assert county.counters.open_items == 4


async def test_a_request_is_open_as_soon_as_its_head_was_read(county: DemoCountyServer, client: Client) -> None:
    request = client.request("POST", "/echo", b"a=1", "application/x-www-form-urlencoded")
    await client.send(request[:-2])
    await until(lambda: county.counters.open_requests == 1)
    await client.send(request[-2:])
    assert (await client.receive()).status == 200
    assert county.counters.open_requests == 0


async def test_a_request_is_open_until_its_last_byte_was_written(county: DemoCountyServer, client: Client) -> None:
    """Some 20 MB of answers, more than the buffers between us hold, to a visitor who does not read them at first."""
    body = ('"' + "ü" * 520_000 + '"').encode()
    for _ in range(7):
        await client.send(client.request("POST", "/echo", body, "application/json"))
    await until(lambda: county.counters.requests == 7)
    assert county.counters.open_requests > 0
    assert county.counters.by_status().get("200", 0) < 7
    for _ in range(7):
        assert (await client.receive()).status == 200
    await until(lambda: county.counters.open_requests == 0)
    assert county.counters.by_status() == {"200": 7}


async def test_reset_starts_from_zero_but_knows_what_is_open(county: DemoCountyServer, client: Client) -> None:
    async with Client(county.base_url) as visitor:
        await client.get("/echo")
        county.switches = FaultSettings(latency_ms=FOR_EVER_MS)
        await visitor.send(visitor.request("GET", "/echo"))
        await until(lambda: county.counters.open_requests == 1)
        assert (await client.post("/_site/counters/reset", {})).status == 200
        shown = await counted(client)
        assert (shown["requests"], shown["by_kind"], shown["largest_window"], shown["by_second"]) == (0, {}, 0, [])
        assert (shown["open_requests"], shown["peak_open_requests"], shown["peak_open_items"]) == (1, 1, 1)
    await until(lambda: county.counters.open_requests == 0)
    assert county.counters.by_status() == {}


async def test_timestamps_are_monotonic_seconds_of_every_request(county: DemoCountyServer, client: Client) -> None:
    before = time.monotonic()
    for _ in range(5):
        await client.get("/echo")
    stamps = json.loads((await client.get("/_site/timestamps")).body)
    assert len(stamps) == 5
    assert stamps == sorted(stamps)
    assert before - 0.001 < stamps[0] <= stamps[-1] < time.monotonic()


def test_the_largest_window_slides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four requests within one second, though no second of the clock has more than three."""
    seen = _at(monkeypatch, 10.0, 10.6, 10.9, 11.1, 11.5, 14.0)
    assert seen.largest_window == 4
    assert seen.by_second() == [(10, 3), (11, 2), (14, 1)]


def test_requests_a_whole_second_apart_are_in_no_window_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _at(monkeypatch, 10.0, 10.5, 11.0).largest_window == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "KEPT_TIMESTAMPS", 3)
    monkeypatch.setattr(control, "KEPT_SECONDS", 2)
    monkeypatch.setattr(control, "KEPT_PARCELS", 2)
    seen = _at(monkeypatch, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert list(seen.timestamps) == [3.0, 4.0, 5.0]
    assert seen.by_second() == [(3, 1), (4, 1), (5, 1)]
    for parcel_id in ("100-00-001", "100-00-002", "100-00-003", "100-00-001"):
        seen.count_parcel("parcel", parcel_id)
    assert seen.by_parcel == {"parcel": {"100-00-001": 2, "100-00-002": 1}}
    assert seen.parcels_left_out == 1


def _at(monkeypatch: pytest.MonkeyPatch, *times: float) -> Counters:
    seen = Counters()
    clock = iter(times)
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(clock))
        for _ in times:
            seen.finished(seen.opened("echo", None), "200")
    return seen


async def test_requests_are_counted_by_parcel_when_asked_to(county: DemoCountyServer, agreed: Client) -> None:
    await agreed.get("/parcel/200-14-030")
    county.switches = FaultSettings(count_parcels=True, failure_rate=1)
    await agreed.get("/parcel/200-14-030")
    await agreed.get("/parcel/200-14-030/bill.pdf")
    county.switches = FaultSettings(count_parcels=True)
    await agreed.get("/parcel/200-14-030")
    await agreed.get("/parcel/200-14-031")
    shown = json.loads((await agreed.get("/_site/parcels")).body)
    assert shown == {"parcel": {"200-14-030": 2, "200-14-031": 1}, "bill": {"200-14-030": 1}}
