"""What the browsers are told of an attempt: whose it is, where it comes out, and which gate it passes (B2, B4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import pytest

from swath.backends.clock import SystemClock
from swath.domain.execution_policy import Proxy
from swath.fetch.browser import browser_access as desks
from swath.fetch.browser.browser_access import BrowserAccess
from swath.fetch.browser.providers.protocol import TabRequest
from swath.fetch.browser.remote_gate import RemoteBrowserGate
from swath.fetch.browser.request import BrowserRequest, SessionOptions
from tests.unit.fetch.browser.visiting import RecordingGate


class _Manager:
    """Has one seat, and keeps what is wished for there."""

    def __init__(self) -> None:
        self.wishes: list[TabRequest] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def pick(self, _: object) -> tuple[int, str]:
        return 0, "seat"

    @asynccontextmanager
    async def visit(self, _: object, wish: TabRequest) -> AsyncIterator[None]:
        self.wishes.append(wish)
        yield

    async def close(self) -> None:
        """Nothing is open."""


class _Session:
    def __init__(self, _: object, gate: object, *__: object) -> None:
        self.gate = gate

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is left."""


async def _visited(monkeypatch: pytest.MonkeyPatch, guard: Any, **proxy: str) -> tuple[TabRequest, object]:
    monkeypatch.setattr(desks, "BrowserSession", _Session)
    manager, options = _Manager(), SessionOptions()
    desk = BrowserAccess(cast("Any", manager), SystemClock(), guard=guard)
    visit = BrowserRequest(
        site="a.example",
        owner="job",
        keeps=True,
        mobile=True,
        proxy=Proxy.model_validate(proxy),
        options=options,
        gate=RecordingGate(),
    )
    picked = desk.pick(["a.example"])
    assert picked is not None
    async with desk.visit(picked[1], visit) as session:
        gate = cast("Any", session).gate
    await desk.close()
    return manager.wishes[0], gate


@pytest.mark.req("B2")
async def test_a_browser_shows_the_region_of_the_jobs_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    wish, gate = await _visited(monkeypatch, None, type="datacenter", country="de")
    assert wish.region is not None
    assert wish.region.timezone == "Europe/Berlin"
    assert (wish.site, wish.owner, wish.keeps, wish.mobile) == ("a.example", "job", True, True)
    assert isinstance(gate, RecordingGate)


@pytest.mark.req("B2", "B4", "Z4")
async def test_without_a_proxy_no_region_is_invented_and_browsers_elsewhere_are_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wish, gate = await _visited(monkeypatch, object())
    assert wish.region is None
    assert isinstance(gate, RemoteBrowserGate)
