"""Delivers webhooks: takes due ones from the outbox, builds and sends their bodies, and records each delivery.

Delivery is at least once, always under one id. Every worker and controller runs a courier. The results of a small
job
are read when the webhook is sent, so the outbox stays small.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import Any, Final
from urllib.parse import quote

import msgspec

from swath.domain.errors import Failed, StoreUnavailable, SwathError, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import WaitingFor
from swath.domain.result import Artifact
from swath.domain.secret import Secret
from swath.domain.webhook import (
    RETRY_SECONDS,
    Delivery,
    Webhook,
    WebhookState,
    append_delivery,
    record_delivery,
    signature_headers,
)
from swath.fetch.http.messages import Request, Transport
from swath.fetch.url import redacted
from swath.observability.crash_points import reach
from swath.observability.task_context import serve_job
from swath.pipeline.formats.artifacts import DATA_FILE
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage
from swath.ports.store import WebhookOutbox

__all__ = ["FULL_ITEMS", "Courier", "CourierOptions", "WebhookPayload"]

FULL_ITEMS: Final = 100
MOST_DATA_BYTES: Final = 8 << 20  # of all records in one body; a receiver fetches what is beyond


class WebhookPayload:
    """Makes bodies. `public_url` is where receivers find the controller, if that is known."""

    def __init__(self, store: JobStore, storage: ResultStorage, public_url: str | None = None) -> None:
        self._store = store
        self._storage = storage
        self._public_url = public_url or ""

    async def body(self, webhook: Webhook, sent_at: int) -> bytes:
        """The bytes to send at this time, in whole Unix seconds; it is in them, and so is signed with them.

        `results` is null beyond 100 items, and when the items have gone on into another generation since.
        """
        status = webhook.summary.get("status", "ended")
        return msgspec.json.encode(
            {
                "webhook_id": webhook.webhook_id,
                "event": f"job.{status}",
                "sent_at": sent_at,
                **webhook.summary,
                "manifest_url": f"{self._public_url}/jobs/{quote(webhook.job_id, safe='')}/results",
                "results": await self._results(webhook),
            }
        )

    async def _results(self, webhook: Webhook) -> list[dict[str, Any]] | None:
        if webhook.summary["counts"]["total"] > FULL_ITEMS:
            return None
        status = await self._store.status(webhook.job_id)
        if status.generation != webhook.generation or not status.state.terminal:
            return None
        records = await self._store.items(webhook.job_id, limit=FULL_ITEMS)
        found = await asyncio.gather(*(self._data(webhook.job_id, artifact) for artifact in _records_that_fit(records)))
        return [
            _result(record, data, on_demand=status.job.on_demand) for record, data in zip(records, found, strict=True)
        ]

    async def _data(self, job_id: str, artifact: Artifact | None) -> bytes | None:
        """An item's record as it is stored."""
        try:
            return None if artifact is None else await self._storage.get(job_id, artifact.key)
        except KeyError:  # somebody removed it; the rest is worth telling
            return None


def _records_that_fit(records: list[ItemRecord]) -> Iterator[Artifact | None]:
    """The record of each item; None when it has none, or one that has no room any more."""
    room_bytes = MOST_DATA_BYTES
    for record in records:
        found = next((one for one in record.artifacts if one.key.rpartition("/")[2] == DATA_FILE), None)
        if found is not None and found.size > room_bytes:
            found = None
        room_bytes -= 0 if found is None else found.size
        yield found


def _result(record: ItemRecord, data: bytes | None, *, on_demand: bool) -> dict[str, Any]:
    return {
        **({"task_id": record.item_id} if on_demand else {}),
        "item_id": record.item_id,
        "input": record.input,
        "state": record.state.value,
        "outcome": None if record.finding is None else record.finding.value,
        "failure": None if record.failure is None else msgspec.to_builtins(record.failure),
        "reason": record.reason,
        "scraper_version": record.scraper_version,
        "artifacts": msgspec.to_builtins(record.artifacts),
        "data": None if data is None else msgspec.Raw(data),
    }


_log = logging.getLogger("swath.webhook")

MAX_PARALLEL_DELIVERIES: Final = 32
POLL_SECONDS: Final = 5.0  # between looks for what others have left behind; what happens here is known at once
READING_LEASE_FRACTION: Final = 0.8  # of a lease, for reading results; what is left of it is for the commit
RECORD_TRIES: Final = 5  # against others who note something of the same webhook
MAX_ANSWER_BYTES: Final = 1 << 20
SHUTDOWN_SECONDS: Final = 12.0  # for what is being sent when the process stops; it is sent again if that is not enough


class CourierOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`secrets` sign, the first in both ways. `agent` is how we introduce ourselves. A courier that is silent for
    `lease_seconds` beside its request is taken for dead, and others send what it had taken."""

    secrets: Sequence[Secret] = ()
    retry_seconds: Sequence[float] = RETRY_SECONDS
    timeout_seconds: float = 10.0
    lease_seconds: float = 15.0
    agent: str = "swath"


class Courier:
    """A service: `run_once` begins what is due and does not wait for the receivers, of whom some are slow.

    `wanted` is set when there is reason to look again before `rest_seconds` are over.
    """

    def __init__(
        self,
        outbox: WebhookOutbox,
        payload: WebhookPayload,
        transport: Transport,
        clock: Clock,
        options: CourierOptions,
    ) -> None:
        self.wanted = asyncio.Event()
        self._outbox = outbox
        self._payload = payload
        self._transport = transport
        self._clock = clock
        self._options = options
        self._under_way: set[asyncio.Task[None]] = set()
        self._due_at: dict[str, float] = {}  # on the boot clock; of those that were sent from here in vain
        self._may_be_more = False

    async def run_once(self) -> int:
        """Takes what is due, as far as there is room, and begins to send it; answers with how many."""
        room, now = MAX_PARALLEL_DELIVERIES - len(self._under_way), self._clock.boot()
        self._may_be_more = False
        self._due_at = {name: due_at for name, due_at in self._due_at.items() if due_at > now}
        if room <= 0:
            return 0  # the next one that ends makes room, and says so
        hold_seconds = self._options.timeout_seconds + self._options.lease_seconds
        taken = await self._outbox.take_webhooks(hold_seconds, room)
        self._may_be_more = len(taken) == room
        for webhook in taken:
            context = copy_context()
            context.run(serve_job, webhook.summary.get("request_id"), webhook.job_id)
            task = asyncio.create_task(self._deliver(webhook), context=context)
            self._under_way.add(task)
            task.add_done_callback(self._ended, context=context)
        return len(taken)

    @property
    def rest_seconds(self) -> float:
        """How long there is nothing to do, as far as is known here."""
        next_due_at = min(self._due_at.values(), default=float("inf"))
        return max(0.0, min(0.0 if self._may_be_more else POLL_SECONDS, next_due_at - self._clock.boot()))

    async def settle(self) -> None:
        """Returns when all that was begun is sent and noted."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self) -> None:
        """Gives what is being sent a little time; whatever is broken off is sent again by somebody."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=SHUTDOWN_SECONDS)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreUnavailable):
            _log.warning("a webhook is sent again later: %s", error)
        elif isinstance(error, UnknownName):
            _log.info("a webhook is not sent any more: %s", error)
        elif isinstance(error, SwathError):
            _log.error("a webhook is sent again later: %s", error)
        elif error is not None:
            _log.error("a webhook is sent again later", exc_info=error)
        self.wanted.set()

    async def _deliver(self, webhook: Webhook) -> None:
        """One try. Raises what the store does; then it was not noted, and comes again when the hold is over."""
        sent_at = int(self._clock.now())
        body = await self._body(webhook, sent_at)
        reach("before_webhook_send")
        delivery = await self._send(webhook, sent_at, body)
        reach("after_webhook_send")
        after = await self._note(webhook, delivery)
        if after is None:
            _log.info("job %s: somebody else sends its webhook as well, or has by now", webhook.job_id)
            return
        reach("after_webhook_note")
        if after.due_at is not None:
            self._due_at[after.webhook_id] = after.due_at
        _log_delivery(after, delivery)

    async def _note(self, webhook: Webhook, delivery: Delivery) -> Webhook | None:
        """The webhook after this try. None when it is not ours any more: a person has had it sent again, or it was
        given to another. Then the try is put into the log alone: the receiver has had it."""
        known: Webhook | None = webhook
        boot = self._clock.boot()
        for _ in range(RECORD_TRIES):
            if known is None:
                return None
            ours = known.due_at == webhook.due_at  # every hold and every wish to send again has a due time of its own
            after = (
                record_delivery(known, delivery, boot, self._options.retry_seconds)
                if ours
                else append_delivery(known, delivery)
            )
            if await self._outbox.note_webhook(after):
                return after if ours else None
            found = await self._outbox.webhooks(webhook.job_id)
            known = next((one for one in found if one.webhook_id == webhook.webhook_id), None)
        return None

    async def _body(self, webhook: Webhook, sent_at: int) -> bytes:
        try:
            async with asyncio.timeout(self._options.lease_seconds * READING_LEASE_FRACTION):
                return await self._payload.body(webhook, sent_at)
        except TimeoutError:
            told = f"the results of job {webhook.job_id!r} cannot be read in time"
            raise StoreUnavailable(told, WaitingFor.STORE) from None

    async def _send(self, webhook: Webhook, sent_at: int, body: bytes) -> Delivery:
        options, began, began_at = self._options, self._clock.boot(), self._clock.now()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": options.agent,
            **signature_headers(webhook.webhook_id, sent_at, body, options.secrets),
        }
        request = Request(
            url=webhook.url,
            method="POST",
            headers=tuple(headers.items()),
            body=body,
            connect_timeout_seconds=options.timeout_seconds,
            request_timeout_seconds=options.timeout_seconds,
            largest_bytes=MAX_ANSWER_BYTES,
        )
        status = error = None
        try:
            status = (await self._transport.send(request)).status
        except Failed as failed:
            # Of the address nothing is told: what comes after the host often is all that one needs to post there.
            error = f"{failed.failure.kind}: {failed.failure.message.replace(redacted(webhook.url), 'the receiver')}"
        return Delivery(at=began_at, seconds=self._clock.boot() - began, status=status, error=error)


def _log_delivery(webhook: Webhook, delivery: Delivery) -> None:
    what = delivery.error if delivery.status is None else f"answered {delivery.status}"
    match webhook.state:
        case WebhookState.DELIVERED:
            _log.info("job %s: its webhook %s was delivered", webhook.job_id, webhook.webhook_id)
        case WebhookState.GIVEN_UP:
            _log.error("job %s: its webhook %s is given up: %s", webhook.job_id, webhook.webhook_id, what)
        case _:
            _log.info("job %s: its webhook %s was not taken: %s", webhook.job_id, webhook.webhook_id, what)
