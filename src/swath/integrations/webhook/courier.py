"""Courier: takes webhooks that are due from the outbox, sends them, and notes how that went (N1).

Before: a job ended, and its webhook was committed with the end. After: the receiver has it, at least once, always under
one id; or the delivery log says why not. Runs in every worker and controller; who dies leaves it to the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import copy_context
from typing import Final

import msgspec

from swath.domain.errors import Failed, StoreUnavailable, SwathError, UnknownName
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret
from swath.domain.webhook import RETRY_SECONDS, Delivery, Webhook, WebhookState, logged, noted
from swath.integrations.webhook.payload import Payload
from swath.integrations.webhook.sign import signature_headers
from swath.observe.context import serve_job
from swath.observe.crash_points import reach
from swath.ports.clock import Clock
from swath.ports.webhook_outbox import WebhookOutbox
from swath.web.address import shown
from swath.web.transport import Request, Transport

__all__ = ["Courier", "CourierOptions"]

_log = logging.getLogger("swath.webhook")

MOST_AT_ONCE: Final = 32
REST_SECONDS: Final = 5.0  # between looks for what others have left behind; what happens here is known at once
READING_PART: Final = 0.8  # of a lease, for reading results; what is left of it is for the commit
NOTE_TRIES: Final = 5  # against others who note something of the same webhook
MOST_ANSWER_BYTES: Final = 1 << 20
LEAVE_SECONDS: Final = 12.0  # for what is being sent when the process stops; it is sent again if that is not enough


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
        self, outbox: WebhookOutbox, payload: Payload, transport: Transport, clock: Clock, options: CourierOptions
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
        room, now = MOST_AT_ONCE - len(self._under_way), self._clock.boot()
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
        return max(0.0, min(0.0 if self._may_be_more else REST_SECONDS, next_due_at - self._clock.boot()))

    async def settle(self) -> None:
        """Returns when all that was begun is sent and noted."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self) -> None:
        """Gives what is being sent a little time; whatever is broken off is sent again by somebody."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=LEAVE_SECONDS)
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
        _tell(after, delivery)

    async def _note(self, webhook: Webhook, delivery: Delivery) -> Webhook | None:
        """The webhook after this try. None when it is not ours any more: a person has had it sent again, or it was
        given to another. Then the try is put into the log alone: the receiver has had it."""
        known: Webhook | None = webhook
        boot = self._clock.boot()
        for _ in range(NOTE_TRIES):
            if known is None:
                return None
            ours = known.due_at == webhook.due_at  # every hold and every wish to send again has a due time of its own
            after = noted(known, delivery, boot, self._options.retry_seconds) if ours else logged(known, delivery)
            if await self._outbox.note_webhook(after):
                return after if ours else None
            found = await self._outbox.webhooks(webhook.job_id)
            known = next((one for one in found if one.webhook_id == webhook.webhook_id), None)
        return None

    async def _body(self, webhook: Webhook, sent_at: int) -> bytes:
        try:
            async with asyncio.timeout(self._options.lease_seconds * READING_PART):
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
            largest_bytes=MOST_ANSWER_BYTES,
        )
        status = error = None
        try:
            status = (await self._transport.send(request)).status
        except Failed as failed:
            # Of the address nothing is told: what comes after the host often is all that one needs to post there.
            error = f"{failed.failure.kind}: {failed.failure.message.replace(shown(webhook.url), 'the receiver')}"
        return Delivery(at=began_at, seconds=self._clock.boot() - began, status=status, error=error)


def _tell(webhook: Webhook, delivery: Delivery) -> None:
    what = delivery.error if delivery.status is None else f"answered {delivery.status}"
    match webhook.state:
        case WebhookState.DELIVERED:
            _log.info("job %s: its webhook %s was delivered", webhook.job_id, webhook.webhook_id)
        case WebhookState.GIVEN_UP:
            _log.error("job %s: its webhook %s is given up: %s", webhook.job_id, webhook.webhook_id, what)
        case _:
            _log.info("job %s: its webhook %s was not taken: %s", webhook.job_id, webhook.webhook_id, what)
