"""Server-sent events: how jobs go on, to whoever listens, without anybody asking again and again (I2)."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from swath.bootstrap.workers import make_remover
from swath.entrypoints.api import event_stream
from swath.entrypoints.api import events as hub
from swath.entrypoints.api.event_stream import JobEvent as WireEvent
from tests.integration.api.pages import served
from tests.integration.api.running import Api, until_ended

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.req("I2")

JOB = {"job_id": "j", "scraper_id": "example-mock", "items": [{"item_id": "a", "input": {"n": 1}}]}


class Event(NamedTuple):
    event_id: str
    name: str
    data: dict[str, Any]


class Stream:
    """One reader of a stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.comments = 0

    async def next(self, seconds: float = 60.0) -> Event | None:
        """The next event; None at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return Event(fields["id"], fields["event"], json.loads(fields["data"]))
        return None

    async def rest(self) -> list[Event]:
        """All events to the end."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def reading(client: httpx.AsyncClient, path: str, last: str | None = None) -> AsyncIterator[Stream]:
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


async def test_a_job_is_followed_to_its_end(working_api: Api, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    items = [{"item_id": str(n), "input": {"gate": str(gate), "n": n}} for n in range(3)]
    await working_api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "gated", "items": items})
    async with served(working_api) as client, reading(client, "/jobs/j/events") as stream:
        first = await stream.next()
        assert first is not None
        assert (first.name, first.data["job_id"], first.data["counts"]["total"]) == ("status", "j", 3)
        gate.touch()
        events = await stream.rest()
    assert events[-1].data["status"] == "completed"
    assert events[-1].data["counts"]["success"] == 3
    assert len({event.event_id for event in (first, *events)}) == len(events) + 1


async def test_the_last_change_is_never_lost_and_no_more_than_five_a_second_are_told(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 600.0)  # nobody looks without being told
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed"})
    begun = time.monotonic()
    async with served(api) as client, reading(client, "/jobs/j/events") as stream:
        events = [await stream.next()]
        for n in range(60):
            await api.data("PATCH", "/jobs/j/policy", json={"throttling": {"max_concurrent_workers": n + 1}})
        async with asyncio.timeout(60):
            while events[-1] is None or _workers(events[-1]) != 60:
                events.append(await stream.next())
        lasted = time.monotonic() - begun
    assert len(events) <= 2 + lasted * 5


def _workers(event: Event) -> int | None:
    found: int | None = event.data["execution_policy"].get("throttling", {}).get("max_concurrent_workers")
    return found


async def test_a_reader_that_comes_back_gets_only_what_is_new(api: Api) -> None:
    await api.data("POST", "/jobs", json=JOB)
    async with served(api) as client:
        async with reading(client, "/jobs/j/events") as stream:
            seen = await stream.next()
            assert seen is not None
        async with reading(client, "/jobs/j/events", seen.event_id) as stream:
            with pytest.raises(TimeoutError):
                await stream.next(0.5)
        await api.data("POST", "/jobs/j/pause")
        async with reading(client, "/jobs/j/events", seen.event_id) as stream:
            event = await stream.next()
            assert event is not None
            assert event.data["status"] == "paused"


async def test_a_reader_that_has_seen_the_end_need_not_come_again(working_api: Api) -> None:
    await working_api.data("POST", "/jobs", json=JOB)
    await until_ended(working_api, "j")
    async with served(working_api) as client:
        async with reading(client, "/jobs/j/events") as stream:
            (end,) = await stream.rest()
        answer = await client.get("/jobs/j/events", headers={"Last-Event-ID": end.event_id})
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_job_that_is_deleted_ends_its_stream(api: Api) -> None:
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed"})
    async with served(api) as client, reading(client, "/jobs/j/events") as stream:
        await stream.next()
        await api.data("DELETE", "/jobs/j")
        await make_remover(api.services, "w").run_once()
        events = await stream.rest()
    assert events[-1].name == "gone"


async def test_an_unknown_job_is_not_found(api: Api) -> None:
    assert (await api.error("GET", "/jobs/nobody/events"))["code"] == "job_not_found"


async def test_all_jobs_are_told_together_but_no_scrapes_on_demand(working_api: Api) -> None:
    await working_api.data("POST", "/jobs", json={"job_id": "loading", "scraper_id": "typed"})
    async with served(working_api) as client, reading(client, "/events") as stream:
        first = await stream.next()
        assert first is not None
        assert first.data["job_id"] == "loading"
        demand = {"target_type": "example-mock", "target_url": "https://a.example/"}
        await working_api.data("POST", "/api/v1/scrape/sync", json=demand)
        await working_api.data("POST", "/jobs", json=JOB)
        told: list[Event] = []
        while not told or (told[-1].data["job_id"], told[-1].data["status"]) != ("j", "completed"):
            event = await stream.next()
            assert event is not None
            told.append(event)
    assert {event.data["job_id"] for event in told} == {"j"}


async def test_a_reader_of_all_jobs_hears_what_ended_while_it_was_away(working_api: Api) -> None:
    await working_api.data("POST", "/jobs", json={"job_id": "open", "scraper_id": "typed"})
    async with served(working_api) as client:
        async with reading(client, "/events") as stream:
            seen = await stream.next()
            assert seen is not None
        await working_api.data("POST", "/jobs", json=JOB)
        await until_ended(working_api, "j")
        async with reading(client, "/events", seen.event_id) as stream:
            events = [await stream.next(), await stream.next()]
    assert {event.data["job_id"]: event.data["status"] for event in events if event} == {
        "open": "loading",
        "j": "completed",
    }


async def test_silence_is_filled_with_comments(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream.EventStreamResponse.__init__, "__defaults__", (WireEvent.encode, 0.05, 30.0))
    await api.data("POST", "/jobs", json=JOB)
    async with served(api) as client, reading(client, "/jobs/j/events") as stream:
        await stream.next()
        with pytest.raises(TimeoutError):
            await stream.next(0.5)
        assert stream.comments >= 3


async def test_streams_end_when_the_controller_stops(api: Api) -> None:
    await api.data("POST", "/jobs", json=JOB)
    async with served(api) as client, reading(client, "/jobs/j/events") as one, reading(client, "/events") as other:
        await one.next()
        await other.next()
        api.controller.hub.end_streams()
        assert await one.rest() == []
        assert await other.rest() == []
        assert (await client.get("/events")).status_code == 429


async def test_a_reader_that_does_not_read_is_dropped(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream.EventStreamResponse.__init__, "__defaults__", (WireEvent.encode, 15.0, 0.3))
    labels = {f"label-{n}": "x" * 900 for n in range(90)}  # large statuses, so that sockets fill up soon
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed", "labels": labels})
    async with served(api) as client:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        narrow.connect((client.base_url.host, client.base_url.port))
        _, writer = await asyncio.open_connection(sock=narrow, limit=1_000)
        host = f"{client.base_url.host}:{client.base_url.port}"
        writer.write(f"GET /jobs/j/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await writer.drain()
        async with asyncio.timeout(60):
            while not api.controller.hub.watches:
                await asyncio.sleep(0.01)
            n = 0
            while api.controller.hub.watches:
                n += 1
                await api.data("PATCH", "/jobs/j/policy", json={"throttling": {"max_concurrent_workers": n}})
                await asyncio.sleep(0.05)
        writer.close()


@pytest.mark.req("Z9", "Z10")
@pytest.mark.parametrize("path", ["/jobs/j/events", "/events"])
async def test_a_stream_says_why_a_job_waits_and_when_the_reason_changes(api: Api, path: str) -> None:
    await api.data("POST", "/jobs", json=JOB)
    results = api.services.settings.data / "results"
    results.mkdir(exist_ok=True)

    async def told(stream: Stream, reason: str) -> None:
        while (event := await stream.next()) is not None:
            if reason in (event.data["waiting_reason"] or ""):
                assert event.data["waiting_for"] == "disk"
                return
        raise AssertionError("the stream ended")

    async with served(api) as client, reading(client, path) as stream:
        first = await stream.next()
        assert first is not None
        assert first.data["waiting_reason"] is None
        (results / "j").touch()
        await told(stream, "is a file")
        (results / "j").unlink()
        (results / "j").mkdir()
        (results / "j" / "items").touch()
        await told(stream, "'items' is a file")
