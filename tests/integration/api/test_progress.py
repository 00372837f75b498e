"""I1, R4, R7: an answer that tells how far it is while it works; what goes wrong late is its last line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from swath.domain.errors import Conflict
from swath.entrypoints.api.routes import checks
from swath.entrypoints.api.routes.checks import ProgressCount, ReportedWork, with_error_line
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I1", "R4", "R7")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PROGRESS_SECONDS", 0.02)


class Gated:
    """Work that stands still until it may go on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.steps = 0
        self._error = error

    async def __call__(self, told: ProgressCount) -> str:
        told.add(3)
        await self.gate.wait()
        if self._error is not None:
            raise self._error
        while self.steps < 1_000:
            self.steps += 1
            told.add(1)
            await asyncio.sleep(0)
        return "done"


async def _lines(work: ReportedWork[str]) -> AsyncGenerator[bytes, None]:
    async with aclosing(work.lines()) as lines:
        async for one in lines:
            yield one


async def test_progress_goes_on_while_nothing_ends() -> None:
    gated = Gated()
    work = ReportedWork(gated, 10)
    told = []
    async for one in work.lines():
        told.append(json.loads(one))
        if len(told) == 3:
            gated.gate.set()
    assert told[:3] == [{"progress": {"done": 3, "total": 10}}] * 3
    assert work.result == "done"


async def test_an_error_that_comes_late_is_the_last_line_and_an_early_one_is_raised() -> None:
    late = Gated(Conflict("job 'a' changed"))
    told = []
    async for one in with_error_line(_lines(ReportedWork(late, 10))):
        told.append(json.loads(one))
        late.gate.set()
    assert told[-1]["error"]["code"] == "conflict"
    assert "changed" in told[-1]["error"]["message"]
    early = Gated(Conflict("job 'a' changed"))
    early.gate.set()
    with pytest.raises(Conflict):
        [one async for one in with_error_line(_lines(ReportedWork(early, 10)))]


async def test_work_that_nobody_reads_any_more_stops_at_its_next_step() -> None:
    gated = Gated()
    lines = with_error_line(_lines(ReportedWork(gated, 10)))
    await anext(lines)
    asyncio.get_running_loop().call_later(0.05, gated.gate.set)
    async with asyncio.timeout(HANGING_SECONDS):
        await lines.aclose()
    assert gated.steps == 1
