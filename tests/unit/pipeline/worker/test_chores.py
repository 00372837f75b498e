"""What a worker does beside its items: what only a person can mend ends it, everything else is tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from swath.domain.errors import BadInput, Conflict, StoreDamaged, UnknownName, UserError
from swath.domain.lease import LeaseDirective
from swath.pipeline.retrying import WaitingStatus
from swath.pipeline.worker.heartbeat import Heartbeat
from swath.pipeline.worker.maintenance import PeriodicTask, run_periodically
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore

pytestmark = pytest.mark.req("Z9")


def failing(*errors: Exception | None) -> tuple[Callable[[], Awaitable[None]], asyncio.Event]:
    """An act that raises these, one after the other, and asks to stop with the last."""
    stop, left = asyncio.Event(), list(errors)

    async def act() -> None:
        error = left.pop(0)
        if not left:
            stop.set()
        if error is not None:
            raise error

    return act, stop


async def do(*errors: Exception | None) -> None:
    act, stop = failing(*errors)
    clock = FakeClock()
    async with asyncio.timeout(60):
        await run_periodically(
            PeriodicTask("sweeping", act, lambda: 0.0), WaitingStatus(MemoryStore(clock), clock, "w"), stop
        )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert not any(record.exc_info for record in caplog.records)
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def test_what_only_a_person_can_mend_ends_it_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UserError, match="no table"):
        await do(UserError("there is no table"), None)
    assert said(caplog) == []


@pytest.mark.parametrize("kind", [BadInput, Conflict, UnknownName])
async def test_a_mistake_about_one_job_does_not(kind: type[UserError], caplog: pytest.LogCaptureFixture) -> None:
    await do(kind("job 'x'"), None)
    assert said(caplog) == ["job 'x'; trying again later"]


async def test_what_stays_wrong_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    await do(*(StoreDamaged("row 1") for _ in range(4)), StoreDamaged("row 2"), None, StoreDamaged("row 2"))
    assert said(caplog) == [f"row {n}; trying again later" for n in (1, 2, 2)]


async def test_a_heartbeat_says_once_and_in_one_line_what_stays_wrong(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()

    class Gone(MemoryStore):
        async def renew(self, *_: Any) -> dict[int, LeaseDirective]:
            raise UserError("there is no table")

    book = Gone(clock)
    heartbeat = Heartbeat(book, clock, WaitingStatus(book, clock, "w"), "w", lambda: [1], lambda *_: None)
    assert [await heartbeat._beat() for _ in range(3)] == [False] * 3
    assert said(caplog) == ["leases could not be renewed: there is no table"]
