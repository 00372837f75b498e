import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from harness.bench.site_load import existing_parcels, measure
from swath.demo import county as demo_county
from swath.demo.county import DemoCountyServer, FaultSettings, exists, serve_forever
from swath.demo.county.server import fastest_loop
from tests.unit.demo.county import test_connection, test_counters, test_switches
from tests.unit.demo.county.client import Client, until

pytestmark = pytest.mark.req("K5")


def test_what_is_listed_as_public_is_there() -> None:
    assert [name for name in demo_county.__all__ if not hasattr(demo_county, name)] == []


async def test_stopping_cuts_connections_and_may_be_done_twice() -> None:
    county = DemoCountyServer(FaultSettings(latency_ms=600_000))
    base_url = await county.start()
    async with Client(base_url) as visitor:
        await visitor.send(visitor.request("GET", "/echo"))
        await until(lambda: county.counters.open_requests == 1)
        await county.stop()
        await county.stop()
        assert county.counters.open_requests == 0
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await visitor.receive()
    with pytest.raises(ConnectionError):
        await Client(base_url).__aenter__()


async def test_a_taken_port_is_an_error(county: DemoCountyServer) -> None:
    with pytest.raises(OSError, match="address already in use"):
        await DemoCountyServer().start(port=int(county.base_url.rpartition(":")[2]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_served_by_itself_it_runs_until_it_is_told_to_stop(number: signal.Signals) -> None:
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    switches = FaultSettings(failure_rate=1)
    site = processes.Process(target=serve_forever, args=("127.0.0.1", 0, switches, theirs.send), daemon=True)
    site.start()
    try:
        assert await asyncio.to_thread(ours.poll, 30)
        async with Client(ours.recv()) as visitor:
            assert (await visitor.get("/echo")).status == 500
            assert site.pid is not None
            os.kill(site.pid, number)
            await asyncio.to_thread(site.join, 30)
        assert site.exitcode == 0
    finally:
        site.kill()
        site.join()
        site.close()
        ours.close()
        theirs.close()


def test_the_loop_that_it_runs_on_by_itself_behaves_alike() -> None:
    """Tests run on the loop of asyncio, the command on uvloop; what a connection promises must hold on both."""

    async def visit(promise: Callable[[DemoCountyServer, Client], Awaitable[None]]) -> None:
        async with DemoCountyServer() as county, Client(county.base_url) as client:
            await promise(county, client)

    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(visit(test_counters.test_a_request_is_open_until_its_last_byte_was_written))
        runner.run(visit(test_connection.test_pipelined_requests_are_answered_in_order))
        runner.run(visit(test_connection.test_a_body_may_be_as_large_as_the_limit_and_no_larger))
        runner.run(visit(test_switches.test_a_dropped_request_gets_no_answer))


async def test_the_load_generator_counts_pages_and_errors(county: DemoCountyServer) -> None:
    load = await measure(county.base_url, seconds=0.1, connections=3)
    assert load.pages > 0
    assert load.errors == 0
    assert county.counters.by_kind()["parcel"] == {"200": load.pages}
    assert "detail pages/s" in load.report()


def test_the_load_generator_asks_for_parcels_that_exist() -> None:
    numbers = [number for number, _ in zip(existing_parcels(), range(100), strict=False)]
    assert all(map(exists, numbers))
    assert len(set(numbers)) == 100


def test_the_site_imports_little() -> None:
    code = "import sys; import swath.demo.county; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"uvloop", "pydantic", "wreq", "selectolax", "click", "rich"} & set(done.stdout.split())
