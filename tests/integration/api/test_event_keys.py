"""I5: an event stream ends when the key that opened it may no longer read it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.service_key import Scope, new_key
from swath.entrypoints.api import auth, event_stream
from swath.entrypoints.api.event_stream import JobEvent
from tests.integration.api.pages import served
from tests.integration.api.running import Api
from tests.support.bounds import HANGING_SECONDS

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.req("I2", "I5")

PATHS = ("/events", "/jobs/j/events")


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.0)
    monkeypatch.setattr(event_stream.EventStreamResponse.__init__, "__defaults__", (JobEvent.encode, 0.1, 30.0))


class Reader:
    """Somebody who reads a stream; only one iterator may read an answer."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self._lines = answer.aiter_lines()

    async def begin(self) -> None:
        """Returns when the first event came."""
        assert self._answer.status_code == 200, await self._answer.aread()
        await self._until("data: ")

    async def beat(self) -> None:
        """Returns at the next heartbeat."""
        await self._until(":")

    async def end(self) -> None:
        """Returns when the controller has ended the answer."""
        assert not await self._until("no line begins like this")

    async def _until(self, prefix: str) -> bool:
        async with asyncio.timeout(HANGING_SECONDS):  # against hanging
            async for line in self._lines:
                if line.startswith(prefix):
                    return True
        return False


async def add_key(api: Api, name: str) -> tuple[str, dict[str, str]]:
    """The id of a new key, and the header that shows it."""
    key, shown = new_key(name, (Scope.READ,), api.services.clock.now())
    await api.services.store.add_key(key)
    return key.key_id, {"X-Service-Key": shown.reveal()}


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_ends_when_its_key_is_revoked_and_others_go_on(api: Api, path: str) -> None:
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed"})
    revoked, headers = await add_key(api, "revoked")
    _, others = await add_key(api, "other")
    async with (
        served(api) as client,
        client.stream("GET", path, headers=headers) as answer,
        client.stream("GET", path, headers=others) as other_answer,
    ):
        reader, other = Reader(answer), Reader(other_answer)
        await reader.begin()
        await other.begin()
        await reader.beat()
        await api.services.store.revoke_key(revoked)
        await reader.end()
        await other.beat()
        await other.beat()
        assert (await client.get(path, headers=headers)).status_code == 401


async def test_a_stream_on_which_events_never_stop_ends_too(api: Api) -> None:
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed"})

    async def change() -> None:
        for n in itertools.count(1):
            policy = {"throttling": {"max_concurrent_workers": n % 1_000 + 1}}
            await api.services.store.change_policy("j", ExecutionPolicy.model_validate(policy))

    revoked, headers = await add_key(api, "revoked")
    async with served(api) as client, client.stream("GET", "/jobs/j/events", headers=headers) as answer:
        reader, changing = Reader(answer), asyncio.create_task(change())
        try:
            await reader.begin()
            await api.services.store.revoke_key(revoked)
            await reader.end()
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)


async def test_a_stream_without_a_key_ends_when_the_first_key_is_made(api: Api) -> None:
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "typed"})
    async with served(api) as client, client.stream("GET", "/events") as answer:
        reader = Reader(answer)
        await reader.begin()
        await reader.beat()
        await add_key(api, "first")
        await reader.end()
