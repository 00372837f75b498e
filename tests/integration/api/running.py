"""The whole API in this process, on a real store in a folder, with or without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from swath.bootstrap.network import open_outbound
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.secret import Secret
from swath.domain.service_key import Scope, new_key
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.auth import Authenticator
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.events import EventHub
from swath.settings import Settings

HERE = "http://127.0.0.1:8000"

TYPED = '''
"""Scrapers for tests of the API: one that is particular about its input, and one that waits until it may go on."""

import asyncio
from pathlib import Path

from pydantic import Field

from swath import HttpScraper, Input, Output, Page, WebPage, scraper


class Parcel(Input):
    parcel_id: str = Field(pattern=r"^[0-9]{3}$")
    year: int = Field(default=2024, ge=1900, le=2100)


@scraper("typed", version="3", description="Particular.")
class Typed(HttpScraper):
    Input = Parcel

    async def fetch(self, item, web):
        return WebPage(Page(name="html", url="mock:typed", status=200, body=b"<h1>ok</h1>"))


class Inner(Input):
    input: str
    item_id: int = 0


@scraper("inner", version="1", description="Its fields are called like those of an item.")
class Confusing(HttpScraper):
    Input = Inner

    async def fetch(self, item, web):
        return WebPage(Page(name="html", url="mock:inner", status=200, body=b"<h1>ok</h1>"))


class Gated(Input):
    gate: str
    n: int


@scraper("gated", version="1", description="Waits for a file.")
class Waits(HttpScraper):
    Input = Gated

    async def fetch(self, item, web):
        while not Path(item.gate).exists():
            await asyncio.sleep(0.01)
        return WebPage(Page(name="html", url="mock:gated", status=200, body=b"<h1>ok</h1>"))
'''


class Api(msgspec.Struct, frozen=True):
    """A running controller, and a client on this machine."""

    controller: Controller
    client: httpx.AsyncClient

    @property
    def services(self) -> Services:
        """Its back end."""
        return self.controller.services

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; every answer to it has the envelope."""
        answer = await self.client.request(method, path, **options)
        check_envelope(answer)
        if not answer.is_success:
            code, known = answer.json()["error"]["code"], declared_codes(self, method, answer.url.raw_path)
            assert known is None or code in known, f"{method} {path} is not said to answer {code}"
        return answer

    async def data(self, method: str, path: str, **options: Any) -> Any:
        """What a request that succeeds is answered with."""
        answer = await self.ask(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    async def error(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """What a request that fails is answered with."""
        answer = await self.ask(method, path, **options)
        assert not answer.is_success, answer.text
        found: dict[str, Any] = answer.json()["error"]
        return found

    async def key(self, *scopes: Scope, expires_at: float | None = None) -> Secret:
        """A new service key."""
        key, shown = new_key("test", scopes, self.services.clock.now(), expires_at)
        await self.services.store.add_key(key)
        return shown


def check_envelope(answer: httpx.Response) -> None:
    """Property 1 for one answer."""
    body = answer.json()
    assert set(body) == {"success", "data", "error", "request_id"}, body
    assert body["success"] == answer.is_success
    assert (body["error"] is None) == answer.is_success
    assert answer.headers["x-request-id"] == body["request_id"]
    if not answer.is_success:
        assert body["data"] is None
        assert set(body["error"]) == {"code", "message", "details"}


def codes_of(document: Mapping[str, Any]) -> dict[tuple[str, str], set[str]]:
    """The error codes that an OpenAPI document gives each method and path."""
    return {
        (method.upper(), path): {
            code
            for status, answer in operation["responses"].items()
            if int(status) >= 400
            for code in answer["content"]["application/json"]["examples"]
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def declared_codes(api: Api, method: str, raw_path: bytes) -> set[str] | None:
    """What the document gives an address; None when it has none for it, or not with that method."""
    document = api.client._transport.app.openapi()  # type: ignore[attr-defined]  # it is a transport of ours
    segments = raw_path.decode().partition("?")[0].split("/")

    def names(path: str) -> bool:
        parts = path.split("/")
        return len(parts) == len(segments) and all(
            segment != "" if part.startswith("{") else part == segment
            for part, segment in zip(parts, segments, strict=True)
        )

    found = [path for path in document["paths"] if names(path)]
    best = min(found, key=lambda path: path.count("{"), default="")  # a name of ours wins over an id
    return codes_of(document).get((method, best))


@asynccontextmanager
async def running(folder: Path, *, work: bool = False, **settings: Any) -> AsyncIterator[Api]:
    """The API over the store in that folder; with `work` there is a worker, too."""
    scrapers = folder / "scrapers"
    scrapers.mkdir(exist_ok=True)
    (scrapers / "typed.py").write_text(TYPED)
    chosen = {"scrapers": (scrapers,), "requests_per_minute": 1_000_000, **settings}
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(open_services(Settings(data=folder / "data", **chosen)))
        outside = await stack.enter_async_context(open_outbound(services))
        registry, stop = make_registry(services.settings), asyncio.Event()
        hub = EventHub(services.store, services.status, services.clock, services.with_trouble)
        stack.push_async_callback(hub.close)
        worker = None
        if work:
            worker = await stack.enter_async_context(make_worker(services, registry, outside=outside))
            running_worker = asyncio.create_task(worker.run(stop))
            stack.push_async_callback(_stopped, stop, running_worker)
        controller = Controller(
            services=services,
            registry=registry,
            doorkeeper=Authenticator(services.store, services.clock, services.settings.requests_per_minute),
            hub=hub,
            outside=outside,
            worker=worker,
            started_at=services.clock.now(),
        )
        transport = httpx.ASGITransport(make_app(controller))
        yield Api(controller, await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=HERE)))


async def _stopped(stop: asyncio.Event, worker: asyncio.Task[None]) -> None:
    stop.set()
    await asyncio.wait_for(worker, 60)


async def until_ended(api: Api, job_id: str, seconds: float = 120.0) -> dict[str, Any]:
    """The job's status once it has ended."""
    async with asyncio.timeout(seconds):
        while True:
            status: dict[str, Any] = await api.data("GET", f"/jobs/{job_id}/status")
            if status["ended_at"] is not None and status["status"] not in ("pending", "running", "loading", "paused"):
                return status
            await asyncio.sleep(0.02)
