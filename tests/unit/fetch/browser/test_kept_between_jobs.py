"""What a job leaves in a kept context, by every means that a page has to leave something: another job finds nothing.

Both use the same session, browser and site. The same job does find it, so the ways to look for it are good.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from harness.fakes.listener import Listener
from harness.fakes.proxies.http_messages import read_request, request_bytes
from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput, Failed
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.http.messages import UnrestrictedGate
from tests.unit.fetch.browser.test_local_sessions import Scene

pytestmark = [pytest.mark.req("B1", "B3", "Z4", "Z7"), pytest.mark.asyncio(loop_scope="module")]

FIRST = TabRequest(site="site.example", keeps=True, owner="first job")
OTHER = TabRequest(site="site.example", keeps=True, owner="other job")
NOT_KEPT = TabRequest(site="site.example", owner="first job")

LEAVE = """async () => {
  document.cookie = "script=left; max-age=9999";
  localStorage.left = "left";
  const done = request => new Promise((good, bad) => { request.onsuccess = () => good(request.result);
    request.onerror = bad; request.onupgradeneeded = () => request.result.createObjectStore("left") });
  const base = await done(indexedDB.open("left"));
  await done(base.transaction("left", "readwrite").objectStore("left").put("left", "left"));
  base.close();
  await (await caches.open("left")).put("/left", new Response("left"));
  const file = await (await navigator.storage.getDirectory()).getFileHandle("left", {create: true});
  const writing = await file.createWritable(); await writing.write("left"); await writing.close();
  await (await fetch("/cached")).text();
  const link = document.createElement("a"); link.download = "left.txt";
  link.href = URL.createObjectURL(new Blob(["left in a file"])); link.click();
}"""
LOOK = """async () => {
  const found = [];
  if (document.cookie.includes("script=left")) found.push("cookie");
  if (localStorage.length) found.push("localStorage");
  if (sessionStorage.length) found.push("sessionStorage");
  if ((await indexedDB.databases()).length) found.push("indexedDB");
  if ((await caches.keys()).length) found.push("caches");
  for await (const _ of (await navigator.storage.getDirectory()).keys()) found.push("files");
  if ((await navigator.serviceWorker.getRegistrations()).length) found.push("service worker");
  if (window.name) found.push("window.name");
  if (window.opener) found.push("opener");
  if (history.length > 2) found.push("history");
  await (await fetch("/cached")).text();
  return found;
}"""
# What lives in another process than the page: whether somebody answers who was there before.
TALKERS = """() => new Promise(done => {
  const heard = [], channel = new BroadcastChannel("left");
  channel.onmessage = event => heard.push(event.data);
  channel.postMessage("who is there?");
  const shared = new SharedWorker("/shared.js", "left");
  shared.port.onmessage = event => { heard.push("worker " + event.data); done(heard) };
  shared.port.postMessage("count");
})"""
SHARED = b"""let visits = 0;
onconnect = event => { const port = event.ports[0];
  port.onmessage = () => { visits += 1; port.postMessage(visits) } };
new BroadcastChannel("left").onmessage = event => { if (event.data === "who is there?")
  new BroadcastChannel("left").postMessage("the one before") };"""


class LeavingSite(Listener):
    """Sets a cookie, and counts who asks for what may be kept."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await read_request(reader)
            headers = {name.lower(): value for name, value in asked.headers.items()}
            told = " ".join(f"{name}={headers[name]}" for name in ("cookie", "if-none-match") if name in headers)
            self.asked.append((asked.target, told))
            if asked.target == "/shared.js":
                answer, body = {"Content-Type": "text/javascript"}, SHARED
            elif asked.target == "/cached":
                answer, body = {"Content-Type": "text/plain", "Cache-Control": "max-age=9999", "ETag": '"left"'}, b"x"
            else:
                answer, body = {"Content-Type": "text/html", "Set-Cookie": "server=left; HttpOnly"}, b"<h1>here</h1>"
            writer.write(request_bytes(200, "OK", answer, body))
            await writer.drain()

    def told(self, path: str) -> list[str]:
        return [told for target, told in self.asked if target == path]


class Both:
    def __init__(self, scene: Scene, site: LeavingSite, session: ProviderSession) -> None:
        self.scene, self.site, self.session = scene, site, session

    async def go(self, wish: TabRequest) -> BrowserTab:
        opened = await self.scene.open(self.session, wish)
        self.site.asked.clear()
        await opened.page.goto(self.site.url)
        return opened

    async def finds(self, wish: TabRequest) -> tuple[set[str], str]:
        """What an item of the job finds there, and what its first request gives away."""
        opened = await self.go(wish)
        found = set(await opened.page.evaluate(LOOK))
        if not self.site.told("/cached"):
            found.add("http cache")
        (given_away, *_) = self.site.told("/")
        await opened.close()
        return found, given_away


@pytest_asyncio.fixture(loop_scope="module")
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with LeavingSite() as site:
        scene = Scene(site.url, tmp_path)
        await scene.exits.start()
        try:
            session = await scene.provider.create()
            made = Both(scene, site, session)
            opened = await made.go(FIRST)
            async with opened.page.expect_event("download") as coming:
                await opened.page.evaluate(LEAVE)
            await (await coming.value).path()
            await opened.close()
            yield made
        finally:
            await scene.provider.close()
            await scene.exits.close()


async def test_what_a_job_leaves_is_found_by_its_own_items_and_by_no_other_job(both: Both) -> None:
    for wish in (OTHER, NOT_KEPT):
        assert await both.finds(wish) == (set(), "")
    found, given_away = await both.finds(FIRST)
    assert found >= {"cookie", "localStorage", "indexedDB", "caches", "files", "http cache"}, "or it proves nothing"
    assert "server=left" in given_away
    assert len({launched.pid for launched in both.scene.launched}) == 1, "or it proves nothing"


async def test_what_a_job_keeps_running_does_not_answer_another(both: Both) -> None:
    opened = await both.go(FIRST)
    assert await opened.page.evaluate(TALKERS) == ["worker 1"]
    second = await opened.context.new_page()
    await second.goto(both.site.url)
    assert "worker 2" in await second.evaluate(TALKERS), "or it proves nothing"
    other = await both.go(OTHER)  # at the same time, in the same browser
    assert await other.page.evaluate(TALKERS) == ["worker 1"]
    await other.close()
    await opened.close()


async def test_files_of_a_job_are_not_to_be_had_by_pages_of_another(both: Both) -> None:
    (file,) = both.scene.launched[-1].downloads.iterdir()
    assert file.read_bytes() == b"left in a file"  # its context is kept, and so is the file that nobody asked for
    opened = await both.scene.open(both.session, OTHER)
    async with BrowserSession(opened, UnrestrictedGate(), SystemClock(), SessionOptions(screenshot="never")) as browser:
        await browser.goto(both.site.url)
        told = await browser.evaluate(f"fetch('file://{file}').then(r => r.text(), () => 'refused')")
        assert told == "refused"
        with pytest.raises((Failed, BadInput)):
            await browser.goto(f"file://{file}")


async def test_one_key_for_all_jobs_would_be_found_out(both: Both) -> None:
    """The broken build: kept contexts that are not told apart by whose they are."""
    same = msgspec.structs.replace(OTHER, owner=FIRST.owner)
    found, given_away = await both.finds(same)
    assert found >= {"cookie", "localStorage"}
    assert given_away
