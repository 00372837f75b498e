"""Jobs of a controller, over its API; follows a job by its server-sent events, across broken connections (I2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote

import msgspec

from swath.domain.errors import BadInput, StoreUnavailable, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import ItemRecord, RetrySelection
from swath.domain.job import JobStatus
from swath.domain.result import Artifact
from swath.domain.storage_keys import artifact_file_name
from swath.domain.validation_messages import quoted_list
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import ProgressDisplay
from swath.entrypoints.cli.remote.client import (
    ControllerBusy,
    ControllerClient,
    RequestRefused,
    item_from_view,
    make_merge_patch,
    status_from_view,
    wait_until_deleted,
    wait_until_ended,
    wait_until_sent,
    webhook_from_entry,
)
from swath.entrypoints.cli.remote.create_job import create_remote_job
from swath.entrypoints.cli.run_args import RunArgs
from swath.pipeline.results.provenance import Evidence

__all__ = ["RemoteJobs", "ServerSentEvent", "follow_job", "parse_events"]

RECONNECT_SECONDS: Final = 2.0
MAX_LINE_BYTES: Final = 16 << 20


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One that is whole. `event_id` is None if it has none of its own."""

    name: str
    data: str
    event_id: str | None = None


async def parse_events(pieces: AsyncIterable[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Events in a stream of bytes, wherever these are cut. One that was not ended by an empty line is none."""
    held = b""
    fields: dict[str, str] = {}
    async for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if len(held) > MAX_LINE_BYTES:
            raise ValueError("an event without an end")
        for line in (raw.removesuffix(b"\r").decode() for raw in lines):
            if not line:
                if "data" in fields:
                    yield ServerSentEvent(fields.get("event", "message"), fields["data"], fields.get("id"))
                fields = {}
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


async def follow_job(
    client: ControllerClient, job_id: str, note: Callable[[str], None]
) -> AsyncGenerator[JobStatus, None]:
    """The job as it stands, and whenever it changes, for as long as somebody asks.

    Who cannot be reached at first raises; later it is noted once, and tried again until it is back. Raises UnknownName
    when the job is deleted.
    """
    view = await client.ask("GET", "jobs", job_id, "status")
    with client.understanding():
        status = status_from_view(view)
    yield status
    last_id: str | None = None
    away = False
    while True:
        wait_seconds = RECONNECT_SECONDS
        try:
            async with aclosing(_stream_events(client, job_id, last_id)) as events:
                async for event in events:
                    if away:
                        note(f"{client.address.url} is back")
                        away = False
                    last_id = event.event_id or last_id
                    yield _status_of_event(client, job_id, event)
        except (StoreUnavailable, ControllerBusy) as error:
            wait_seconds = getattr(error, "wait_seconds", wait_seconds)
            if not away:
                note(f"{error}; trying again until it is back, Ctrl-C stops")
                away = True
        await asyncio.sleep(wait_seconds)


def _status_of_event(client: ControllerClient, job_id: str, event: ServerSentEvent) -> JobStatus:
    if event.name == "gone":
        raise UnknownName(f"there is no job {job_id!r} any more; it was deleted")
    with client.understanding():
        return status_from_view(json.loads(event.data))


async def _stream_events(
    client: ControllerClient, job_id: str, last_id: str | None
) -> AsyncGenerator[ServerSentEvent, None]:
    headers = {"Accept": "text/event-stream", **({} if last_id is None else {"Last-Event-ID": last_id})}
    async with client.wire.streaming(client.address.path("jobs", job_id, "events"), headers) as stream:
        if stream.status == 200 and stream.headers.get("content-type", "").startswith("text/event-stream"):
            with client.understanding():
                async for event in parse_events(stream.pieces()):
                    if event.name in ("status", "gone"):
                        yield event
        elif stream.status != 204:  # which says that the last event was the end
            client.data_of(await stream.whole())


PAGE_JOBS: Final = 1_000  # the most that the API gives at once


class RemoteJobs:
    """See Jobs. Nothing is kept between calls."""

    def __init__(self, client: ControllerClient, default_scraper: str | None = None) -> None:
        self._client = client
        self._default_scraper = default_scraper

    async def create(self, order: RunArgs, display: ProgressDisplay) -> JobStatus:
        """See Jobs."""
        scraper = order.scraper or self._default_scraper
        if scraper is None:
            raise BadInput("name a scraper of the controller, or set SWATH_DEFAULT_SCRAPER")
        if scraper.endswith(".py") or "/" in scraper or "\\" in scraper:
            raise BadInput(
                f"{scraper}: a file is not sent to a controller; put it into a folder of SWATH_SCRAPERS there, and "
                "give the id of its scraper"
            )
        return await create_remote_job(self._client, order, scraper, display)

    async def jobs(self, limit: int) -> list[JobStatus]:
        """See Jobs."""
        found: list[JobStatus] = []
        cursor: str | None = None
        while len(found) < limit:
            query = {"limit": min(PAGE_JOBS, limit - len(found)), "cursor": cursor, "on_demand": "true"}
            page = await self._client.ask("GET", "jobs", query=query)
            with self._client.understanding():
                found += map(status_from_view, page["jobs"])
                cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    async def status(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("GET", job_id, "status")

    def follow(self, job_id: str, note: Callable[[str], None]) -> AsyncGenerator[JobStatus, None]:
        """See Jobs."""
        return follow_job(self._client, job_id, note)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """See Jobs."""
        view = await self._client.ask("GET", "jobs", job_id, "items", item_id)
        with self._client.understanding():
            return item_from_view(view)

    async def evidence(self, job_id: str, item_id: str) -> Evidence:
        """See Jobs."""
        view = await self._client.ask("GET", "jobs", job_id, "items", item_id, query={"evidence": "true"})
        with self._client.understanding():
            return msgspec.convert(view["evidence"], Evidence)

    async def pause(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("POST", job_id, "pause")

    async def resume(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("POST", job_id, "resume")

    async def cancel(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await wait_until_ended(self._client, await self._asked("POST", job_id, "cancel"))

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """See Jobs. The controller looks whether others were faster: it makes what is sent a part of what there is."""
        former = expected or (await self.status(job_id)).job.policy
        part = make_merge_patch(
            former.model_dump(mode="json"), policy.model_dump(mode="json"), only_changes=expected is not None
        )
        await self._client.ask("PATCH", "jobs", job_id, "policy", body=part)
        return await self.status(job_id)

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        """See Jobs."""
        asked = sorted(selection.item_ids)
        body = {
            "failed": selection.failed,
            "kinds": sorted(selection.kinds),
            "not_run": selection.not_run,
            "item_ids": asked,
            "since": selection.since,
        }
        try:
            return await self._asked("POST", job_id, "retry", body=body)
        except RequestRefused as refused:
            fields = [str(field.get("path")) for field in refused.details.get("fields", ())]
            unknown = [asked[int(path[9:-1])] for path in fields if path.startswith("item_ids[")]
            if not unknown:
                raise
            told = f"job {job_id!r} has no item {quoted_list(unknown)}; nothing is run again"
            raise BadInput(told) from refused

    async def delete(self, job_id: str) -> None:
        """See Jobs."""
        await self._client.ask("DELETE", "jobs", job_id)

    async def removed(self, job_id: str, note: Callable[[str], None]) -> bool:
        """See Jobs."""
        del note
        return await wait_until_deleted(self._client, job_id)

    async def webhooks(self, job_id: str) -> list[dict[str, Any]]:
        """See Jobs."""
        found: list[dict[str, Any]] = await self._client.ask("GET", "jobs", job_id, "webhooks")
        return found

    async def resend(self, job_id: str) -> Webhook:
        """See Jobs."""
        entry = await self._client.ask("POST", "jobs", job_id, "webhooks", "resend")
        with self._client.understanding():
            webhook_id = entry["webhook_id"]
        sent = await wait_until_sent(self._client, job_id, webhook_id)
        with self._client.understanding():
            return webhook_from_entry(sent)

    def location(self, job_id: str) -> str:
        """See Jobs."""
        return f"{self._client.address.url}/jobs/{quote(job_id, safe='')}/results"

    def place_of(self, job_id: str, item_id: str, artifact: Artifact) -> str:
        """See Jobs."""
        path = "/".join(quote(part, safe="") for part in ("jobs", job_id, "items", item_id, "download"))
        name = quote(artifact_file_name(item_id, artifact.key), safe="")
        return f"{self._client.address.url}/{path}?artifact={name}"

    def command(self, *words: str) -> str:
        """See Jobs."""
        return command(*words, "--server", self._client.address.url)

    def who_works(self, job_id: str) -> str:
        """See Jobs."""
        return f"the workers of the controller run it: `{self.command('jobs', 'watch', job_id)}`"

    async def _asked(self, method: str, job_id: str, what: str, body: object = None) -> JobStatus:
        view = await self._client.ask(method, "jobs", job_id, what, body=body)
        with self._client.understanding():
            return status_from_view(view)
