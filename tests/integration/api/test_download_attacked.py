"""Z7: files that a site has sent, which a browser would run; names that break headers; files that were planted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patchright.async_api import Error, Page, async_playwright

from swath.domain.result import Download
from swath.domain.result import Page as StoredPage
from swath.domain.storage_keys import Layout
from swath.fetch.browser.chromium.find import find_binary
from swath.fetch.http.page.page import WebPage
from tests.integration.api.running import Api
from tests.integration.api.stored import with_files
from tests.support.bounds import HANGING_SECONDS
from tests.unit.pipeline.making import Made, make_job, page

pytestmark = pytest.mark.req("I2", "Z7")

URL = "/jobs/job/items/item/download"
ACTS = "new Image().src='/hit?'+document.location.pathname.slice(1)"
ENTITY = b"<!DOCTYPE x [<!ENTITY e SYSTEM '%s'><!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]>"
HOSTILE = {
    "a.svg": f"<svg xmlns='http://www.w3.org/2000/svg'><script>{ACTS}</script></svg>".encode(),
    "a.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><body><script>{ACTS}</script></body></html>".encode(),
    "a.xml": ENTITY % b"/secret"
    + b"<x xmlns:h='http://www.w3.org/1999/xhtml'>&b;<h:script>"
    + ACTS.encode()
    + b"</h:script></x>",
    "a.htm": f"<script>{ACTS}</script>".encode(),
    "a.gif": f"GIF89a/*<script>{ACTS}</script>*/=0;{ACTS}".encode(),
    "a.pdf": b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/URI/URI(/hit?a.pdf)>>>>endobj\ntrailer<</Root 1 0 R>>",
}
RUNS = {"a.svg": "image/svg+xml", "a.xhtml": "application/xhtml+xml", "a.xml": "text/xml", "a.htm": "text/html"}
ITEM = Made(
    data={}, pages=(page("html", b"<p>"),), downloads=tuple(Download(n, page("", b)) for n, b in HOSTILE.items())
)


class Replay:
    """A site that answers with the headers and the bytes that it is given, and notes which documents could act."""

    def __init__(self, answers: Mapping[str, tuple[Mapping[str, str], bytes]]) -> None:
        self._answers = answers
        self.hits: set[str] = set()
        self.asked: set[str] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode().lstrip("/")
        self.asked.add(path)
        if path.startswith("hit?"):
            self.hits.add(path.removeprefix("hit?"))
        headers, body = self._answers.get(path, ({"Content-Type": "text/html"}, b""))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(
            f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def browsing(replay: Replay) -> AsyncIterator[tuple[Page, str]]:
    server = await asyncio.start_server(replay.answer, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=find_binary(None))
        yield await browser.new_page(), address
        await browser.close()
    server.close()


async def open_all(replay: Replay) -> None:
    """Each as a document, and then inside of one in every way that a page can embed another."""
    async with asyncio.timeout(HANGING_SECONDS), browsing(replay) as (tab, address):
        for name in HOSTILE:
            try:
                await tab.goto(f"{address}/{name}", wait_until="load")
            except Error as error:
                assert "Download is starting" in str(error) or "ERR_ABORTED" in str(error)  # noqa: PT017 others are fine
        await tab.goto(f"{address}/")
        inside = "".join(f"<iframe src=/{name}></iframe><embed src=/{name}><img src=/{name}>" for name in HOSTILE)
        await tab.set_content(inside, wait_until="load")
        await tab.evaluate("() => fetch('/end')")


async def test_nothing_that_a_site_has_sent_acts_in_a_browser(api: Api) -> None:
    await make_job(api.services.store, api.services.storage, api.services.clock, {"item": ITEM}, "job", Layout.FILES)
    answers = {}
    for name, body in HOSTILE.items():
        answer = await api.client.get(URL, params={"artifact": name}, headers={"Accept": "text/html,image/svg+xml,*/*"})
        assert answer.content == body
        answers[name] = (
            {header: value for header, value in answer.headers.items() if header != "content-length"},
            answer.content,
        )
    replay = Replay(answers)
    await open_all(replay)
    assert set(HOSTILE) <= replay.asked
    assert replay.hits == set()
    bare = Replay({name: ({"Content-Type": RUNS.get(name, "image/gif")}, body) for name, body in HOSTILE.items()})
    await open_all(bare)
    assert bare.hits == set(RUNS), "what is to be held back does nothing without it"


@pytest.mark.parametrize("layout", list(Layout))
async def test_hostile_files_are_attachments_in_both_layouts(api: Api, layout: Layout) -> None:
    await make_job(api.services.store, api.services.storage, api.services.clock, {"item": ITEM}, "job", layout)
    for name, body in HOSTILE.items():
        for headers in ({"Accept": "image/svg+xml"}, {"Range": "bytes=0-"}):
            answer = await api.client.get(URL, params={"artifact": name}, headers=headers)
            assert answer.content == body
            assert answer.headers["content-type"] in ("text/plain; charset=utf-8", "image/gif")
            assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
            assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


def test_entities_are_text_to_what_reads_pages(tmp_path: Path) -> None:
    """Pages are read by parsers of HTML alone, which know nothing of a document's own entities."""
    (tmp_path / "secret").write_bytes(b"SECRET")
    body = ENTITY % (tmp_path / "secret").as_uri().encode() + b"<x>&e;&b;</x>"
    read = WebPage(StoredPage(name="html", url="https://a.test/", status=200, body=body, content_type="text/xml"))
    assert "SECRET" not in (read.tree.html or "")
    assert "haha" not in (read.tree.html or "")


NAMES = [
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    'a"; filename="evil.exe',
    "a\r\nSet-Cookie: x=1",
    "a\x1b[2J\0\x85",
    "é" * 300,
    "...",
]


@pytest.mark.parametrize("layout", list(Layout))
async def test_no_name_breaks_a_header(api: Api, layout: Layout) -> None:
    made = Made(data={}, downloads=tuple(Download(name, page("", b"x")) for name in NAMES))
    await make_job(api.services.store, api.services.storage, api.services.clock, {NAMES[0]: made}, "job", layout)
    url = "/jobs/job/items/%E2%80%AEgpj.exe/download"
    for name in NAMES:
        answer = await api.client.get(url, params={"artifact": name})
        assert answer.content == b"x"
        assert re.fullmatch(
            r'attachment; filename="[A-Za-z0-9_-][A-Za-z0-9._-]*"', answer.headers["content-disposition"]
        )
        assert "set-cookie" not in answer.headers


async def test_no_part_of_a_planted_file_is_handed_out(api: Api, tmp_path: Path) -> None:
    """Of a part no hash can be checked, so what the file is must be."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"root:secret" * 100)
    await with_files(api, {"data.json": b"{}" + b" " * 1_000})
    stored = Path(api.services.storage.location("job")) / "items/item/data.json"
    for plant in (stored.hardlink_to, stored.symlink_to):
        stored.unlink()
        plant(secret)
        stored.parent.chmod(0o777)
        for headers in ({"Range": "bytes=0-9"}, {}):
            answer = await api.client.get(URL, headers=headers)
            assert answer.status_code == 500
            assert b"secret" not in answer.content
