"""A job's server-sent events as statuses, across broken connections (I2). Before: wire.py. After: `jobs watch`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

import msgspec

from swath.domain.errors import StoreUnavailable, UnknownName
from swath.domain.job import JobStatus
from swath.entrypoints.cli.remote.answers import Busy, Client
from swath.entrypoints.cli.remote.shapes import status_of

__all__ = ["Event", "follow", "parsed"]

AGAIN_SECONDS: Final = 2.0
MOST_LINE_BYTES: Final = 16 << 20


class Event(msgspec.Struct, frozen=True):
    """One that is whole. `event_id` is None if it has none of its own."""

    name: str
    data: str
    event_id: str | None = None


async def parsed(pieces: AsyncIterable[bytes]) -> AsyncIterator[Event]:
    """Events in a stream of bytes, wherever these are cut. One that was not ended by an empty line is none."""
    held = b""
    fields: dict[str, str] = {}
    async for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if len(held) > MOST_LINE_BYTES:
            raise ValueError("an event without an end")
        for line in (raw.removesuffix(b"\r").decode() for raw in lines):
            if not line:
                if "data" in fields:
                    yield Event(fields.get("event", "message"), fields["data"], fields.get("id"))
                fields = {}
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


async def follow(client: Client, job_id: str, note: Callable[[str], None]) -> AsyncGenerator[JobStatus, None]:
    """The job as it stands, and whenever it changes, for as long as somebody asks.

    Who cannot be reached at first raises; later it is noted once, and tried again until it is back. Raises UnknownName
    when the job is deleted.
    """
    view = await client.ask("GET", "jobs", job_id, "status")
    with client.understanding():
        status = status_of(view)
    yield status
    last_id: str | None = None
    away = False
    while True:
        wait_seconds = AGAIN_SECONDS
        try:
            async with aclosing(_events(client, job_id, last_id)) as events:
                async for event in events:
                    if away:
                        note(f"{client.address.url} is back")
                        away = False
                    last_id = event.event_id or last_id
                    yield _told(client, job_id, event)
        except (StoreUnavailable, Busy) as error:
            wait_seconds = getattr(error, "wait_seconds", wait_seconds)
            if not away:
                note(f"{error}; trying again until it is back, Ctrl-C stops")
                away = True
        await asyncio.sleep(wait_seconds)


def _told(client: Client, job_id: str, event: Event) -> JobStatus:
    if event.name == "gone":
        raise UnknownName(f"there is no job {job_id!r} any more; it was deleted")
    with client.understanding():
        return status_of(json.loads(event.data))


async def _events(client: Client, job_id: str, last_id: str | None) -> AsyncGenerator[Event, None]:
    headers = {"Accept": "text/event-stream", **({} if last_id is None else {"Last-Event-ID": last_id})}
    async with client.wire.streaming(client.address.path("jobs", job_id, "events"), headers) as stream:
        if stream.status == 200 and stream.headers.get("content-type", "").startswith("text/event-stream"):
            with client.understanding():
                async for event in parsed(stream.pieces()):
                    if event.name in ("status", "gone"):
                        yield event
        elif stream.status != 204:  # which says that the last event was the end
            client.data_of(await stream.whole())
