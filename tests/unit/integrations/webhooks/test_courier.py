"""N1: webhooks are delivered from a durable outbox, whatever the receiver does, and lead nowhere that is private."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import standardwebhooks
from msgspec.structs import replace

from swath.bootstrap.network import OutboundAccess, open_outbound
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_finisher
from swath.domain.errors import Conflict, StoreUnavailable, UnknownName
from swath.domain.item import RetrySelection
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret
from swath.domain.webhook import Webhook, WebhookState
from swath.integrations.webhooks import courier as courier_module
from swath.integrations.webhooks.delivery_log import delivery_log_entry, schedule_resend
from swath.observability.task_context import current_task_context
from swath.settings import Settings
from tests.contract.suites.builders import ready, run_all
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.unit.integrations.webhooks.receiver import Answer, Receiver, receiving, saying

pytestmark = pytest.mark.req("N1")

KEY = b"k" * 32
SECRET = Secret("whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=")


class Office:
    """A store with a courier, and a receiver that it may reach."""

    def __init__(self, services: Services, outside: OutboundAccess, receiver: Receiver) -> None:
        self.services = services
        self.outside = outside
        self.receiver = receiver

    async def end_job(self, url: str | None = None, job_id: str = "job", request_id: str | None = None) -> None:
        """A job of three items that ends now."""
        await ready(self.services.store, job_id, callback_url=url or self.receiver.url, request_id=request_id)
        await run_all(self.services.store)
        assert await make_finisher(self.services, "finisher").run_once() is not None

    async def end_again(self) -> None:
        """All its items run again, and it ends."""
        await self.services.store.retry("job", RetrySelection(since=0.0))
        await run_all(self.services.store)
        assert await make_finisher(self.services, "finisher").run_once() is not None

    async def send(self) -> Webhook:
        """One round of the courier; the webhook as it is then."""
        await self.outside.courier.run_once()
        await self.outside.courier.settle()
        return await self.webhook()

    async def webhook(self, job_id: str = "job") -> Webhook:
        return (await self.services.store.webhooks(job_id))[-1]

    async def send_all(self) -> Webhook:
        """Rounds until nothing more is due."""
        async with asyncio.timeout(60):
            while (webhook := await self.send()).state is WebhookState.PENDING:
                await asyncio.sleep(0.02)
        return webhook


@asynccontextmanager
async def office(folder: Path, *answers: Answer, timeout_seconds: float = 5.0) -> AsyncIterator[Office]:
    async with receiving(*answers) as receiver:
        settings = Settings(
            data=folder,
            allow_private=(receiver.address,),
            webhook_secret=(SECRET,),
            webhook_retry_seconds=(0.02, 0.04, 0.08),
            webhook_timeout_seconds=timeout_seconds,
        )
        async with open_services(settings) as services, open_outbound(services) as outside:
            yield Office(services, outside, receiver)


async def test_a_webhook_is_delivered_signed_and_noted(tmp_path: Path) -> None:
    async with office(tmp_path) as one:
        await one.end_job()
        webhook = await one.send()
        (came,) = one.receiver.received
    assert standardwebhooks.Webhook(KEY).verify(came.body, came.headers)["job_id"] == "job"
    assert came.headers["webhook-id"] == came.told["webhook_id"] == webhook.webhook_id
    assert came.headers["x-webhook-timestamp"] == str(came.told["sent_at"])  # so the plain signature covers it too
    assert (came.told["status"], came.told["counts"]["success"], len(came.told["results"])) == ("completed", 3, 3)
    assert (webhook.state, webhook.due_at, [one.status for one in webhook.deliveries]) == ("delivered", None, [200])
    assert came.headers["content-type"] == "application/json"


async def test_it_is_sent_again_on_schedule_under_one_id_and_then_given_up(tmp_path: Path) -> None:
    async with office(tmp_path, saying(500)) as one:
        await one.end_job()
        webhook = await one.send_all()
        came = one.receiver.received
    assert webhook.state is WebhookState.GIVEN_UP
    assert [delivery.status for delivery in webhook.deliveries] == [500] * 4
    assert {one.headers["webhook-id"] for one in came} == {webhook.webhook_id}
    pauses = [after.at - before.at - before.seconds for before, after in pairwise(webhook.deliveries)]
    assert all(pause >= planned for pause, planned in zip(pauses, (0.02, 0.04, 0.08), strict=True))


@pytest.mark.req("O1")
async def test_lines_about_a_webhook_have_the_ids_of_its_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Property 38: also when a try could not be noted."""
    told: list[tuple[int, str | None, str | None]] = []

    class Served(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            told.append((record.levelno, current_task_context().request_id, current_task_context().job_id))
            return True

    async def away(*_: object) -> bool:
        raise StoreUnavailable("it is away", WaitingFor.STORE)

    log, served = logging.getLogger("swath.webhook"), Served()
    caplog.set_level(logging.INFO, log.name)
    log.addFilter(served)
    try:
        async with office(tmp_path, saying(500)) as one:
            await one.end_job(request_id="6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01")
            await one.send()
            await asyncio.sleep(0.05)
            monkeypatch.setattr(type(one.services.store), "note_webhook", away)
            await one.send()
            monkeypatch.undo()
    finally:
        log.removeFilter(served)
    ids = ("6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01", "job")
    assert told == [(logging.INFO, *ids), (logging.WARNING, *ids)]


async def test_the_courier_knows_when_it_has_to_look_again(tmp_path: Path) -> None:
    async with office(tmp_path, saying(503), saying(204)) as one:
        courier = one.outside.courier
        assert courier.rest_seconds == courier_module.POLL_SECONDS
        await one.end_job()
        await one.send()
        assert 0 <= courier.rest_seconds <= 0.03
        assert courier.wanted.is_set()
        assert (await one.send_all()).state is WebhookState.DELIVERED
        assert courier.rest_seconds == courier_module.POLL_SECONDS


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.req("Z4")
async def test_a_redirect_is_a_failure_and_is_not_followed(tmp_path: Path, status: int) -> None:
    async with receiving() as private:
        async with office(tmp_path, saying(status, f"Location: {private.url}")) as one:
            await one.end_job()
            webhook = await one.send()
        assert [delivery.status for delivery in webhook.deliveries] == [status]
        assert webhook.state is WebhookState.PENDING
        assert private.received == []


async def test_a_receiver_that_is_gone_gets_no_more(tmp_path: Path) -> None:
    async with office(tmp_path, saying(410)) as one:
        await one.end_job()
        webhook = await one.send()
        await one.send()
        assert (webhook.state, webhook.due_at, len(one.receiver.received)) == (WebhookState.GIVEN_UP, None, 1)


async def _silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(600):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.1)


async def _flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(4_000):
        writer.write(b"x" * 65_536)
        await writer.drain()


async def _rubbish(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01\x02 this is no HTTP\r\n\r\n")
    await writer.drain()


async def _nothing(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.req("Z6", "W3")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_silence, "timeout"),
        (_drip, "timeout"),
        (_flood, "too_large"),
        (_rubbish, "server_error"),
        (_nothing, "connect"),
    ],
)
async def test_a_hostile_receiver_costs_bounded_time(tmp_path: Path, answer: Answer, kind: str) -> None:
    began = time.monotonic()
    async with office(tmp_path, answer, timeout_seconds=1.0) as one:
        await one.end_job()
        webhook = await one.send()
    assert time.monotonic() - began < HANGING_SECONDS
    assert webhook.state is WebhookState.PENDING
    (delivery,) = webhook.deliveries
    assert delivery.status is None
    assert (delivery.error or "").split(":")[0] == kind


@pytest.mark.req("Z4")
async def test_private_addresses_are_not_reached(tmp_path: Path) -> None:
    async with receiving() as private, office(tmp_path) as one:
        port = private.address.rpartition(":")[2]
        for number, host in enumerate(("127.0.0.1", "localhost", "[::1]", "0x7f.1", "169.254.169.254", "10.0.0.1")):
            await one.end_job(f"http://{host}:{port}/hook", f"job-{number}")
            await one.outside.courier.run_once()
            await one.outside.courier.settle()
            (delivery,) = (await one.webhook(f"job-{number}")).deliveries
            assert (delivery.error or "").startswith("egress_denied"), host
        assert private.received == []


@pytest.mark.req("Z7")
async def test_neither_token_nor_secret_is_in_the_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    async with office(tmp_path) as one:
        services = replace(one.services, settings=replace(one.services.settings, allow_private=(address,)))
        async with open_outbound(services) as outside:
            await one.end_job(f"http://{address}/hooks/t0ken?key=v3ry")
            await outside.courier.run_once()
            await outside.courier.settle()
        webhook = await one.webhook()
    shown = str(delivery_log_entry(webhook, webhook.url, FakeClock()))
    assert len(webhook.deliveries) == 1
    assert "t0ken" not in shown
    assert "v3ry" not in str(delivery_log_entry(webhook, None, FakeClock()))
    assert KEY.decode() not in shown


async def test_a_slow_receiver_does_not_hold_up_others(tmp_path: Path) -> None:
    async with receiving(_silence) as slow, office(tmp_path, timeout_seconds=20.0) as one:
        settings = replace(one.services.settings, allow_private=(slow.address, one.receiver.address))
        services = replace(one.services, settings=settings)
        async with open_outbound(services) as outside, asyncio.timeout(60):
            await one.end_job(slow.url, "slow")
            await outside.courier.run_once()
            await slow.until(1)
            await one.end_job(job_id="quick")
            await outside.courier.run_once()
            await one.receiver.until(1)
            for task in outside.courier._under_way:
                task.cancel()  # nobody waits for the slow one


async def test_what_nobody_noted_is_sent_again_when_its_time_is_over(tmp_path: Path) -> None:
    """As after the death of whoever took it: at least once, under one id."""
    async with office(tmp_path) as one:
        await one.end_job()
        (taken,) = await one.services.store.take_webhooks(0.1)
        assert await one.outside.courier.run_once() == 0
        await asyncio.sleep(0.15)
        webhook = await one.send()
        assert webhook.state is WebhookState.DELIVERED
        assert one.receiver.received[0].headers["webhook-id"] == taken.webhook_id


async def test_a_person_can_send_it_again(tmp_path: Path) -> None:
    async with office(tmp_path, saying(500)) as one:
        store, clock = one.services.store, one.services.clock
        await one.end_job()
        given_up = await one.send_all()
        one.receiver.answers[:] = [saying(200)]
        again = await schedule_resend(store, clock, "job")
        assert (again.webhook_id, again.tries, again.state) == (given_up.webhook_id, 0, WebhookState.PENDING)
        webhook = await one.send()
        assert webhook.state is WebhookState.DELIVERED
        assert [delivery.status for delivery in webhook.deliveries] == [500, 500, 500, 500, 200]
        with pytest.raises(Conflict, match="wh_none"):
            await schedule_resend(store, clock, "job", "wh_none")
        with pytest.raises(UnknownName):
            await schedule_resend(store, clock, "nobody")


@pytest.mark.parametrize("first_ends", [True, False], ids=["the first ends first", "the second ends first"])
async def test_what_was_sent_while_a_person_had_it_sent_again_is_in_the_log(tmp_path: Path, first_ends: bool) -> None:
    """Both were received, so both are told of; and neither makes the other be sent once more."""
    may_end = [asyncio.Event(), asyncio.Event()]

    def held(number: int) -> Answer:
        async def answer(writer: asyncio.StreamWriter) -> None:
            await may_end[number].wait()
            await saying(200 + number)(writer)

        return answer

    async with office(tmp_path, held(0), held(1)) as one:
        courier, order = one.outside.courier, [0, 1] if first_ends else [1, 0]
        await one.end_job()
        (former,) = await one.services.store.take_webhooks(60.0)
        await one.end_again()
        await courier.run_once()
        await one.receiver.until(1)
        await schedule_resend(one.services.store, one.services.clock, "job")
        await courier.run_once()
        await one.receiver.until(2)
        may_end[order[0]].set()
        async with asyncio.timeout(60):
            while not (webhook := await one.webhook()).deliveries:
                await asyncio.sleep(0.01)
        assert webhook.state is (WebhookState.PENDING if first_ends else WebhookState.DELIVERED)
        may_end[order[1]].set()
        await courier.settle()
        webhook = await one.webhook()
        assert (webhook.state, webhook.due_at, webhook.tries) == (WebhookState.DELIVERED, None, 1)
        assert [delivery.status for delivery in webhook.deliveries] == [200 + number for number in order]
        assert (await one.services.store.webhooks("job"))[0] == former  # that of another end of the job


async def test_a_job_that_told_nobody_has_nothing_to_send_again(tmp_path: Path) -> None:
    async with office(tmp_path) as one:
        await ready(one.services.store)
        with pytest.raises(Conflict, match="SWATH_WEBHOOK_URL"):
            await schedule_resend(one.services.store, one.services.clock, "job")


async def test_a_deleted_jobs_webhook_is_forgotten(tmp_path: Path) -> None:
    async with office(tmp_path) as one:
        await one.end_job()
        (taken,) = await one.services.store.take_webhooks(30.0)
        store = one.services.store
        await store.delete("job")
        lease = await store.claim_deletion("remover")
        assert lease is not None
        while await store.purge(lease, 100):
            pass
        assert await store.take_webhooks(30.0) == []
        assert not await store.note_webhook(taken)
