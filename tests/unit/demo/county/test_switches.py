import asyncio
import json
import time
from collections import Counter
from dataclasses import replace

import pytest

from swath.demo.county import DemoCountyServer, FaultSettings
from swath.demo.county.control import FaultDice
from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")


async def turn(client: Client, **switches: object) -> None:
    answer = await client.ask("POST", "/_site/switches", json.dumps(switches).encode(), "application/json")
    assert answer.status == 200, answer.body


async def statuses(client: Client, number: int) -> Counter[int]:
    return Counter([(await client.get("/echo")).status for _ in range(number)])


async def test_switches_are_read_and_turned_while_the_site_runs(county: DemoCountyServer, client: Client) -> None:
    await turn(client, failure_rate=0.25, maintenance=True, latency_ms=3)
    shown = json.loads((await client.get("/_site/switches")).body)
    assert FaultSettings(**shown) == county.switches == FaultSettings(failure_rate=0.25, maintenance=True, latency_ms=3)


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"latency": 5}', b'{"failure_rate": 1.5}', b'{"failure_rate": -1}', b'{"failure_rate": NaN}'),
        *(b'{"failure_rate": "1"}', b'{"failure_rate": true}', b'{"latency_ms": null}', b'{"latency_ms": 1e9}'),
        *(b'{"maintenance": 1}', b'{"seed": 1.5}', b'{"retry_after_seconds": -1}', b"[]", b"{", b"", b"[" * 100_000),
    ],
)
async def test_a_wrong_switch_is_refused_and_changes_nothing(
    county: DemoCountyServer, client: Client, body: bytes
) -> None:
    answer = await client.ask("POST", "/_site/switches", body, "application/json")
    assert answer.status == 400
    assert json.loads(answer.body)["error"]
    assert county.switches == FaultSettings()


def test_an_unknown_switch_is_named() -> None:
    with pytest.raises(ValueError, match="unknown switches: latency"):
        FaultSettings().changed({"latency": 1, "seed": 2})


@pytest.mark.parametrize(("switch", "status"), [("failure_rate", 500), ("rate_429", 429), ("block_rate", 403)])
async def test_a_rate_of_one_spoils_every_request_and_of_one_half_about_half(
    client: Client, switch: str, status: int
) -> None:
    await turn(client, **{switch: 1})
    assert await statuses(client, 5) == {status: 5}
    await turn(client, **{switch: 0.5})
    seen = await statuses(client, 200)
    assert set(seen) == {200, status}
    assert 60 < seen[status] < 140
    await turn(client, **{switch: 0})
    assert await statuses(client, 5) == {200: 5}


async def test_a_429_says_when_to_come_back(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(rate_429=1, retry_after_seconds=7)
    answer = await client.get("/search")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


async def test_a_block_reads_like_one(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(block_rate=1)
    assert b"You have been blocked" in (await client.get("/search")).body


async def test_maintenance_reads_like_it(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(maintenance=True)
    answer = await client.get("/search")
    assert answer.status == 503
    assert answer.text_of("h1") == "Down for maintenance"


async def test_a_dropped_request_gets_no_answer(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(drop_rate=1)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.get("/echo")
    assert county.counters.by_status() == {"dropped": 1}
    assert county.counters.open_requests == 0


async def test_latency_holds_an_answer_back(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(latency_ms=20, latency_jitter_ms=5)
    started = time.monotonic()
    await client.get("/echo")
    assert time.monotonic() - started >= 0.019  # event loops may round a timer down by a millisecond


def test_jitter_is_added_to_the_latency_and_differs() -> None:
    dice = FaultDice(FaultSettings(latency_ms=100, latency_jitter_ms=50))
    delays = [dice.delay_seconds() for _ in range(100)]
    assert min(delays) >= 0.1
    assert max(delays) <= 0.15
    assert len(set(delays)) > 90
    assert FaultDice(FaultSettings(latency_ms=100)).delay_seconds() == 0.1


async def test_the_controls_are_never_spoiled(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(latency_ms=600_000, maintenance=True, drop_rate=1, block_rate=1)
    assert (await client.get("/_site/counters")).status == 200
    await turn(client, latency_ms=0, maintenance=False, drop_rate=0, block_rate=0)
    assert (await client.get("/echo")).status == 200
    assert (await client.get("/_site/nothing")).status == 404
    assert (await client.post("/_site/counters", {})).status == 404


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    def faults(dice: FaultDice) -> list[str | None]:
        return [dice.fault() for _ in range(50)]

    switches = FaultSettings(failure_rate=0.3, rate_429=0.2, seed=5)
    dice = FaultDice(switches)
    first = faults(dice)
    assert set(first) == {None, "server_error", "rate_limited"}
    assert faults(FaultDice(switches)) == first
    dice.turn(replace(switches, seed=6))
    other = faults(dice)
    assert other != first
    dice.turn(switches)
    assert faults(dice) == first
