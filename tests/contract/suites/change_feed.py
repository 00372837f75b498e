"""What every store promises to subscribers: they see every change that this process makes. Part of JobStoreContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.item import HandedBackItem, RetrySelection
from swath.domain.lease import Lease
from swath.ports.job_store import ChangeFeed
from tests.contract.suites.builders import (
    Kill,
    Store,
    batch,
    claimed,
    dies,
    end_job,
    finished,
    new_job,
    policy,
    ready,
    run_all,
    success,
    webhook,
)

__all__ = ["ChangeFeedContract", "hears", "quiet"]

PATIENCE_SECONDS = 60.0
QUIET_SECONDS = 0.05


async def hears(news: ChangeFeed, job_id: str = "job") -> None:
    """Waits until the listener knows that this job may have changed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            heard = await news.hear(PATIENCE_SECONDS)
            if heard is None or job_id in heard:
                return


async def quiet(news: ChangeFeed) -> None:
    """Waits until the listener hears nothing any more."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            heard = await news.hear(QUIET_SECONDS)
            if heard is not None and not heard:
                return


class ChangeFeedContract:
    """See JobStoreContract."""

    @pytest.mark.req("I2")
    async def test_who_listens_hears_of_every_step_of_a_job(self, store: Store, kill: Kill) -> None:
        news = store.news()
        await quiet(news)
        leases: list[Lease] = []

        async def claim() -> None:
            leases.append(await claimed(store))

        async def release() -> None:
            await store.release("worker", leases[0].fence)

        async def die() -> None:
            await claimed(store, "mortal")
            await quiet(news)
            await dies(store, kill, "mortal")

        for step in (
            lambda: store.submit(new_job()),
            lambda: store.begin_load("job", "key"),
            lambda: store.load("job", batch(0, 1, [str(n) for n in range(40)])),
            lambda: store.seal("job", 1),
            claim,
            lambda: finished(store, leases[0], [success(1)], [HandedBackItem(seq=2)]),
            release,
            die,
            lambda: store.pause("job"),
            lambda: store.resume("job"),
            lambda: store.change_policy("job", policy(3)),
            lambda: run_all(store),
            lambda: end_job(store, webhook=webhook()),
            lambda: store.note_webhook(webhook()),
            lambda: store.retry("job", RetrySelection(since=0.0)),
            lambda: store.cancel("job"),
            lambda: end_job(store),
            lambda: store.delete("job"),
        ):
            await step()
            await hears(news)
            await quiet(news)
        news.close()

    @pytest.mark.req("I2", "I3")
    async def test_who_waits_is_woken(self, store: Store) -> None:
        await ready(store)
        news = store.news()
        await quiet(news)
        waiting = asyncio.create_task(hears(news))
        await asyncio.sleep(0)
        await store.pause("job")
        await waiting
        news.close()

    @pytest.mark.req("I3")
    async def test_an_order_is_news(self, store: Store) -> None:
        news = store.news()
        await store.order(new_job(), batch(0, 1, "ab"))
        await hears(news)
        news.close()

    @pytest.mark.req("I2")
    async def test_nothing_is_missed_while_nobody_asks(self, store: Store) -> None:
        for name in ("a", "b"):
            await ready(store, name)
        news = store.news()
        for name in ("a", "b"):
            await store.pause(name)
        heard: set[str] = set()
        while not heard >= {"a", "b"}:
            told = await news.hear(PATIENCE_SECONDS)
            assert told is None or told
            heard |= {"a", "b"} if told is None else set(told)
        news.close()

    @pytest.mark.req("I2")
    async def test_every_listener_hears_and_one_that_is_closed_keeps_nobody_from_it(self, store: Store) -> None:
        await ready(store)
        first, second = store.news(), store.news()
        await store.pause("job")
        await hears(first)
        await hears(second)
        first.close()
        first.close()
        await store.resume("job")
        await hears(second)
        second.close()

    @pytest.mark.req("I2")
    async def test_when_the_time_is_over_nothing_was_heard(self, store: Store) -> None:
        news = store.news()
        await quiet(news)
        heard = await news.hear(0.01)
        assert heard is not None
        assert not heard
        news.close()
