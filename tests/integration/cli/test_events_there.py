"""I2, C1: `jobs watch --server` follows a job by server-sent events, and comes back when the connection breaks."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import UnknownName
from swath.entrypoints.cli.remote import jobs
from swath.entrypoints.cli.remote.client import ControllerClient
from swath.entrypoints.cli.remote.http import ControllerAddress
from swath.entrypoints.cli.remote.jobs import RemoteJobs, ServerSentEvent, follow_job, parse_events
from tests.integration.api.serving import Place, Served, free_port

pytestmark = pytest.mark.req("I2", "C1")

STREAM = (
    b'retry: 2000\n\nid: 1-a\nevent: status\ndata: {"a": "\xc3\xa4"}\n\n: nothing new\n\n'
    b"data: x\r\ndata: y\r\n\r\ndata: half"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]

    async def pieces() -> AsyncIterator[bytes]:
        for start, end in pairwise(places):
            yield STREAM[start:end]

    async def all_of() -> list[ServerSentEvent]:
        return [event async for event in parse_events(pieces())]

    assert asyncio.run(all_of()) == [ServerSentEvent("status", '{"a": "ä"}', "1-a"), ServerSentEvent("message", "x\ny")]


def gated(place: Place, job_id: str = "job") -> dict[str, Any]:
    gate = str(place.folder / "gate")
    return {"job_id": job_id, "scraper_id": "gated", "items": [{"input": {"gate": gate, "n": n}} for n in range(3)]}


async def test_watching_survives_a_restart_and_exits_as_the_job_ended(place: Place) -> None:
    port = str(free_port())
    place.environment["SWATH_GRACE_SECONDS"] = "1"
    async with place.serving("--port", port) as served:
        await served.ask("POST", "/jobs", json=gated(place))
        watching = await place.start("jobs", "watch", "job", "--json", "--server", served.url)
        assert watching.stdout is not None
        first = json.loads(await asyncio.wait_for(watching.stdout.readline(), 60))
        assert first["job_id"] == "job"
        served.process.kill()
    await asyncio.sleep(0.5)
    async with place.serving("--port", port):
        (place.folder / "gate").touch()
        out, err = await asyncio.wait_for(watching.communicate(), 60)
    assert watching.returncode == 0, err
    last = json.loads(out.decode().splitlines()[-1])
    assert (last["status"], last["counts"]["success"]) == ("completed", 3)
    assert "trying again until it is back" in err.decode()


@pytest.mark.req("C2")
async def test_ctrl_c_leaves_the_job_alone(place: Place, served: Served) -> None:
    await served.ask("POST", "/jobs", json=gated(place))
    watching = await place.start("jobs", "watch", "job", "--json", "--server", served.url)
    assert watching.stdout is not None
    await asyncio.wait_for(watching.stdout.readline(), 60)
    watching.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(watching.wait(), 60) == 130
    assert (await served.ask("GET", "/jobs/job/status"))["status"] == "running"


async def test_a_job_that_is_deleted_meanwhile_is_unknown(place: Place, idle: Served) -> None:
    await idle.ask("POST", "/jobs", json={"job_id": "job", "scraper_id": "typed"})
    client = ControllerClient(ControllerAddress.of(idle.url), None)
    statuses = follow_job(client, "job", lambda _: None)
    assert (await anext(statuses)).job.job_id == "job"
    await RemoteJobs(client).delete("job")

    async def look_on() -> None:
        async for _ in statuses:
            continue

    with pytest.raises(UnknownName):
        await asyncio.wait_for(look_on(), 60)


async def test_a_controller_that_comes_back_is_noted_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RECONNECT_SECONDS", 0.05)
    port, notes = str(free_port()), list[str]()
    async with place.serving("--no-worker", "--port", port) as served:
        await served.ask("POST", "/jobs", json={"job_id": "job", "scraper_id": "typed"})
        statuses = follow_job(ControllerClient(ControllerAddress.of(served.url), None), "job", notes.append)
        await anext(statuses)
        await anext(statuses)
        served.process.kill()
        coming = asyncio.ensure_future(anext(statuses))
        await asyncio.sleep(1)
    async with place.serving("--no-worker", "--port", port) as served:
        await served.client.post("/jobs/job/items", content="parcel_id\n100\n", headers={"Content-Type": "text/csv"})
        status = await asyncio.wait_for(coming, 60)
        while status.loaded_rows == 0:
            status = await asyncio.wait_for(anext(statuses), 60)
        await statuses.aclose()
    assert len(notes) == 2
    assert "trying again" in notes[0]
    assert notes[1] == f"{served.url} is back"
