"""Public recordings and the pages they were made on, served over TLS under the names, ports and paths that they say.

Chromium reaches them through an exit of ours, whose guard lets these names through to this machine and nothing else.
What happens on a page is seen by a script of the test's own that stands beside it, and by the server.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.fakes.proxies.certificates import Authority
from swath.backends.clock import SystemClock
from swath.domain.execution_policy import Timeouts
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxies
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.recordings.importers import import_recording
from swath.recordings.player.play import play
from swath.recordings.player.step_times import StepTime
from swath.recordings.validation.check import check_recording
from tests.support.clock import FakeClock
from tests.unit.fetch.browser.visiting import RecordingGate, Stand
from tests.unit.fetch.http.sites import TableResolver

DATA: Final = Path(__file__).parents[4] / "shared" / "data" / "chrome-recorder"
FOLDER: Final = "/test/e2e/resources/recorder/"
REPLAY_FOLDER: Final = "/replay/"
_FOLDERS: Final = {FOLDER: "devtools-e2e-pages", REPLAY_FOLDER: "replay-test-pages"}
NAMES: Final = ("localhost", "devtools.oopif.test", "oopifdomain", "www.wikipedia.org", "wikipedia.org")
ENCYCLOPAEDIA: Final = "<!DOCTYPE html><title>Ours</title><h1>Not the real one</h1>"
WINDOW: Final = {"width": 901, "height": 601}  # of the context, until a recording says otherwise

WITNESS: Final = """(() => {
  if (window === top) window.witnessed = [];
  const seen = top.witnessed;
  let depth = 0;
  for (let at = window; at !== top; at = at.parent) depth += 1;
  for (const type of "mousedown click auxclick dblclick keydown keyup input change submit".split(" ")) {
    addEventListener(type, event => {
      const on = event.composedPath()[0], key = type.startsWith("key");
      seen.push([type, on.id || on.localName, depth, key ? event.key : event.button ?? on.value ?? null]);
    }, true);
  }
  const log = console.log;
  console.log = (...words) => { seen.push(["log", words.join(" "), depth, null]); log(...words); };
})()"""


class Event(NamedTuple):
    """Something that happened. `depth` counts the frames around it; `detail` is a key, a button, or a value."""

    what: str
    on: str
    depth: int
    detail: Any


class PublicSite:
    """Serves the folders of pages. `asked` is what came, as `host path`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path, host = head.split(" ", 2)[1], re.findall(r"(?im)^host: ([^\s:]+)", head)[0]
                self.asked.append(f"{host} {path}")
                body = self._page(host, path.partition("?")[0])
                status = "404 Not Found" if body is None else "200 OK"
                about = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                writer.write(f"{about}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))
                await writer.drain()
        writer.transport.abort()

    def _page(self, host: str, path: str) -> bytes | None:
        if host.endswith("wikipedia.org"):
            return ENCYCLOPAEDIA.encode() if path == "/" else None
        folder, _, name = path.rpartition("/")
        page = DATA / _FOLDERS.get(f"{folder}/", "none") / name
        return page.read_bytes() if page.is_file() else None


class ToThisMachine(EgressGuard):
    """The guard with exceptions for the test. What is said to be on port 443, which may be taken, is on the site's."""

    site_port = 0

    async def check_origin(self, origin: str) -> EgressTarget:
        target = await super().check_origin(origin)
        return EgressTarget(
            target.scheme, target.host, self.site_port if target.port == 443 else target.port, target.addresses
        )


class Replayed:
    """A recording that has been played, and what it did."""

    def __init__(self, site: PublicSite, place: Stand) -> None:
        self.site, self.place = site, place
        self.asked: list[str] = []
        self.times: list[StepTime] = []
        self.events: list[Event] = []

    async def evaluate(self, expression: str) -> Any:
        """In the page's own world."""
        cdp = await self.place.context.new_cdp_session(self.place.page)
        told = await cdp.send(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True}
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    @property
    def shown(self) -> str:
        """What the main window shows, without the folder of pages."""
        return self.place.page.url.rpartition("/")[2]

    def happened(self, what: str) -> list[tuple[str, int, Any]]:
        return [(event.on, event.depth, event.detail) for event in self.events if event.what == what]


class PublicScene:
    """A site, the only way to it, and a browser."""

    def __init__(self, launched: ChromiumProcess, site: PublicSite, exits: BrowserProxies) -> None:
        self.launched, self.site, self.exits = launched, site, exits

    @asynccontextmanager
    async def replayed(self, text: str, name: str) -> AsyncIterator[Replayed]:
        """Imports a recording and plays it. The page is still there inside the block."""
        recording = import_recording(text.replace("<test-port>", str(self.site.port)), name).recording
        check_recording(recording, name, javascript=False)
        exit_ = await self.exits.open(self.launched.user)
        context = await self.launched.browser.new_context(
            proxy={"server": f"http://127.0.0.1:{exit_.port}"},
            ignore_https_errors=True,  # the certificate is one of the test's own
            viewport=WINDOW,  # type: ignore[arg-type] # a size
            service_workers="block",
        )
        place = Stand(self.launched, context, await context.new_page())
        place.exit = exit_
        cdp = await context.new_cdp_session(place.page)
        await cdp.send("Page.enable")
        await cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": WITNESS})
        gate, options = RecordingGate(), SessionOptions(timeouts=Timeouts())
        made, before = Replayed(self.site, place), len(self.site.asked)
        async with BrowserSession(place, gate, SystemClock(), options) as browser:
            await play(recording, {}, browser, watch=made.times.append)
            made.asked = self.site.asked[before:]
            told = json.loads(await made.evaluate("JSON.stringify(window.witnessed || [])"))
            made.events = [Event(*one) for one in told]
            yield made
        await exit_.close()


@asynccontextmanager
async def public_scene(launched: ChromiumProcess) -> AsyncIterator[PublicScene]:
    site = PublicSite()
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=Authority("Ours").context("localhost"))
        stack.callback(server.close)
        site.port = server.sockets[0].getsockname()[1]
        allowed = [f"{name}:{443 if name.endswith('org') else site.port}" for name in NAMES]
        guard = ToThisMachine(
            TableResolver({name: ["127.0.0.1"] for name in NAMES}), FakeClock(), allow_private=allowed
        )
        guard.site_port = site.port
        exits = BrowserProxies(guard)
        await exits.start()
        stack.push_async_callback(exits.close)
        yield PublicScene(launched, site, exits)
