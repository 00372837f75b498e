"""Saving: files that a page hands out, as bytes of ours. Never by the name, or to the place, that a site would like.

A file that comes from the site is taken out of its answer, before Chromium would write it (documents.py). One
that a page makes by itself (a blob) is written by Chromium to the folder of its downloads and read from there.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swath.browser.chromium.running import Running
from swath.browser.session.document import FileWanted
from swath.browser.session.files import too_large
from swath.browser.session.hands import Begin, Hands
from swath.browser.session.made_files import read_made
from swath.browser.session.nuisances import Nuisances
from swath.browser.session.windows import Windows
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.page import Exchange, Page
from swath.web.charset import charset_of, content_type_of
from swath.web.transport import Request, Response

if TYPE_CHECKING:
    from patchright.async_api import Download

__all__ = ["Saving"]

_log = logging.getLogger(__name__)


class Saving:
    """Of one attempt. `running`: see Opened."""

    def __init__(self, hands: Hands, nuisances: Nuisances, windows: Windows, running: Running | None) -> None:
        self._hands = hands
        self._nuisances = nuisances
        self._windows = windows
        self._running = running

    def made(self, body: bytes, content_type: str) -> Page:
        """Something that was made of the page, as a page is stored."""
        url = self._hands.calls.page.url
        return Page(
            name="file", url=url, status=200, body=body, content_type=content_type, fetched_at=self._hands.now()
        )

    async def file(self, what: str, begin: Begin[Any], most_bytes: int) -> tuple[Page, Response | None]:
        """What came of beginning so, and the answer that it came in; none when the page has made it itself. Raises as
        Calls.run, and as `begin`."""
        documents, seconds = self._hands.documents, self._hands.options.timeouts.navigation_seconds
        wanted = documents.wanted = FileWanted(most_bytes)
        by_page = self._nuisances.file = asyncio.get_running_loop().create_future()
        try:
            with self._growth(most_bytes) as too_much:
                await begin()
                coming = functools.partial(self._came, wanted, by_page, most_bytes, too_much)
                return await self._hands.calls.run(what, coming, seconds)
        finally:
            documents.wanted = self._nuisances.file = None

    async def click(self, selector: str) -> None:
        """Begins by a click."""
        page, ms = self._hands.calls.page, self._hands.action_ms
        await self._hands.act(f"click on {selector}", lambda: page.locator(selector).first.click(timeout=ms))

    async def open(self, url: str) -> None:
        """Begins by going to an address."""
        await self._hands.act("downloading", lambda: self._open(url))

    async def _open(self, url: str) -> None:
        page = self._hands.calls.page
        try:
            await page.goto(url, timeout=0, referer=page.url if page.url.startswith("http") else None)
        except self._hands.calls.driver_error as error:
            if not self._windows.was_ours(error):
                raise

    async def _came(
        self,
        wanted: FileWanted,
        by_page: asyncio.Future[Download],
        most_bytes: int,
        too_much: asyncio.Future[None],
    ) -> tuple[Page, Response | None]:
        await asyncio.wait((wanted.came, by_page), return_when=asyncio.FIRST_COMPLETED)
        if wanted.came.done():
            request, response = wanted.came.result()
            return self._page(request, response), response
        return await self._made_by_page(by_page.result(), most_bytes, too_much), None

    def _page(self, request: Request, response: Response) -> Page:
        content_type = response.header("content-type")
        return Page(
            name="file",
            url=response.url,
            status=response.status,
            body=response.body,
            content_type=content_type_of(content_type),
            charset=charset_of(content_type, response.body),
            fetched_at=self._hands.now(),
            exchange=Exchange(
                method=request.method, request_headers=request.headers, response_headers=response.headers
            ),
        )

    @contextmanager
    def _growth(self, most_bytes: int) -> Iterator[asyncio.Future[None]]:
        """Done as soon as Chromium says that a file which the page has made has more than so many bytes."""
        cdp = self._hands.calls.cdp
        too_much: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def grown(event: Mapping[str, Any]) -> None:
            if max(event["totalBytes"], event["receivedBytes"]) > most_bytes and not too_much.done():
                too_much.set_result(None)

        if cdp is not None:
            cdp.on("Page.downloadProgress", grown)
        try:
            yield too_much
        finally:
            if cdp is not None:
                cdp.remove_listener("Page.downloadProgress", grown)

    async def _made_by_page(self, download: Download, most_bytes: int, too_much: asyncio.Future[None]) -> Page:
        path = await self._written(download, most_bytes, too_much)
        running = self._running
        folder, user = (None, None) if running is None else (running.downloads, running.user)
        try:
            body = await asyncio.to_thread(read_made, path, folder, user, most_bytes)
        except Failed as failed:
            _log.warning("%s: %s", self._hands.calls.page.url, failed.failure.message)
            raise
        finally:
            await download.delete()
        if body is None:
            raise too_large(self._hands.calls.page.url, most_bytes)
        if not body:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "the file that the page made is empty"))
        return self.made(body, "application/octet-stream")

    async def _written(self, download: Download, most_bytes: int, too_much: asyncio.Future[None]) -> Path:
        """Where it is. Raises Failed too_large before all of it is there, and navigation when it never will be."""
        calls = self._hands.calls
        writing = asyncio.ensure_future(download.path())
        try:
            await asyncio.wait((writing, too_much), return_when=asyncio.FIRST_COMPLETED)
            if too_much.done():
                await calls.bounded(download.cancel())
                raise too_large(calls.page.url, most_bytes)
            return Path(writing.result())
        except calls.driver_error as error:
            reason = await calls.bounded(download.failure())
            if reason is None:
                raise error from None  # not the file is lost, but the browser
            message = f"the page made a file that the browser could not write: {reason}"
            raise Failed(Failure.of(FailureKind.NAVIGATION, message)) from error
        finally:
            writing.add_done_callback(_heard)
            writing.cancel()


def _heard(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
