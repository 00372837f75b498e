"""Saving: files that a page hands out, as bytes of ours. Never by the name, or to the place, that a site would like.

A file that comes from the site is taken out of its answer, before Chromium would write it (browser/documents.py). One
that a page makes by itself (a blob) is written by Chromium to the folder of its downloads and read from there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from swath.browser.document import FileWanted
from swath.browser.files import too_large
from swath.browser.hands import Hands
from swath.browser.nuisances import Nuisances
from swath.browser.windows import Windows
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.page import Exchange, Page
from swath.web.charset import charset_of, content_type_of
from swath.web.transport import Request, Response

if TYPE_CHECKING:
    from patchright.async_api import Download

__all__ = ["Saving"]


class Saving:
    """Of one attempt."""

    def __init__(self, hands: Hands, nuisances: Nuisances, windows: Windows) -> None:
        self._hands = hands
        self._nuisances = nuisances
        self._windows = windows

    def made(self, body: bytes, content_type: str) -> Page:
        """Something that was made of the page, as a page is stored."""
        url = self._hands.calls.page.url
        return Page(
            name="file", url=url, status=200, body=body, content_type=content_type, fetched_at=self._hands.now()
        )

    async def file(self, click: str | None, url: str | None, most_bytes: int) -> tuple[Page, Response | None]:
        """What came, and the answer that it came in; none when the page has made it itself. Raises as Calls.run."""
        documents, seconds = self._hands.documents, self._hands.options.timeouts.navigation_seconds
        wanted = documents.wanted = FileWanted(most_bytes)
        by_page = self._nuisances.file = asyncio.get_running_loop().create_future()
        try:
            await self._begin(click, url)
            what = f"downloading by {click}" if click is not None else "downloading"
            return await self._hands.calls.run(what, lambda: self._came(wanted, by_page, most_bytes), seconds)
        finally:
            documents.wanted = self._nuisances.file = None

    async def _begin(self, click: str | None, url: str | None) -> None:
        page, ms = self._hands.calls.page, self._hands.action_ms
        if click is not None:
            await self._hands.act(f"click on {click}", lambda: page.locator(click).first.click(timeout=ms))
            return
        await self._hands.act("downloading", lambda: self._open(str(url)))

    async def _open(self, url: str) -> None:
        page = self._hands.calls.page
        try:
            await page.goto(url, timeout=0, referer=page.url if page.url.startswith("http") else None)
        except self._hands.calls.driver_error as error:
            if not self._windows.was_ours(error):
                raise

    async def _came(
        self, wanted: FileWanted, by_page: asyncio.Future[Download], most_bytes: int
    ) -> tuple[Page, Response | None]:
        await asyncio.wait((wanted.came, by_page), return_when=asyncio.FIRST_COMPLETED)
        if wanted.came.done():
            request, response = wanted.came.result()
            return self._page(request, response), response
        return await self._made_by_page(by_page.result(), most_bytes), None

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

    async def _made_by_page(self, download: Download, most_bytes: int) -> Page:
        path = Path(await download.path())
        if (await asyncio.to_thread(path.stat)).st_size > most_bytes:
            await download.delete()
            raise too_large(self._hands.calls.page.url, most_bytes)
        body = await asyncio.to_thread(path.read_bytes)
        await download.delete()
        if not body:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "the file that the page made is empty"))
        return self.made(body, "application/octet-stream")
