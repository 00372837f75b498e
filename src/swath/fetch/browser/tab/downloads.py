"""Reads files that a page offers, as bytes. Never uses a name or a path that the site has chosen.

A file from the site is taken out of its response before Chromium would write it. One that the page makes itself (a
blob) is written by Chromium and read back as untrusted: only inside the downloads folder, by descriptors, and only a
regular file of the browser's user with no other links.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Exchange, Page
from swath.fetch.browser.pool.instance import BrowserProcess
from swath.fetch.browser.tab.action_runner import ActionRunner, BrowserCall
from swath.fetch.browser.tab.document import AwaitedFile, too_large
from swath.fetch.browser.tab.popups import PopupHandler, Windows
from swath.fetch.http.header_values import charset_of, content_type_of
from swath.fetch.http.messages import Request, Response

if TYPE_CHECKING:
    from patchright.async_api import Download

__all__ = ["FileDownloader", "read_page_made_file"]

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not hang us


def read_page_made_file(path: Path, folder: Path | None, user: int | None, most_bytes: int) -> bytes | None:
    """None: it has more. `folder` is where the browser writes, `user` whom it runs as; None of them: the driver's own,
    and as we do. Blocks. Raises Failed (navigation) when it is not a file to be trusted."""
    owner = os.geteuid() if user is None else user
    try:
        if folder is not None and path.parent != folder:
            raise _untrusted_file("it is not where the browser writes")
        return _read_checked(path, owner, most_bytes)
    except OSError as error:
        raise _untrusted_file(error.strerror or type(error).__name__) from None


def _read_checked(path: Path, owner: int, most_bytes: int) -> bytes | None:
    above = os.open(path.parent.parent, _FOLDER_FLAGS)
    try:
        status = os.fstat(above)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _untrusted_file("others may replace its folder")
        folder = os.open(path.parent.name, _FOLDER_FLAGS, dir_fd=above)
    finally:
        os.close(above)
    try:
        file = os.open(path.name, _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as reading:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _untrusted_file("it is no plain file")
        if status.st_uid != owner:
            raise _untrusted_file("it is not the browser's")
        if status.st_nlink != 1:
            raise _untrusted_file("it has other names")
        body = reading.read(most_bytes + 1)
    return body if len(body) <= most_bytes else None


def _untrusted_file(why: str) -> Failed:
    return Failed(Failure.of(FailureKind.NAVIGATION, f"the file that the page made was not read: {why}"))


_log = logging.getLogger("swath.browser.session.saving")


class FileDownloader:
    """Of one attempt. `running`: see Opened."""

    def __init__(
        self, hands: ActionRunner, nuisances: PopupHandler, windows: Windows, running: BrowserProcess | None
    ) -> None:
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

    async def file(self, what: str, begin: BrowserCall[Any], most_bytes: int) -> tuple[Page, Response | None]:
        """What came of beginning so, and the answer that it came in; none when the page has made it itself. Raises as
        Calls.run, and as `begin`."""
        documents, seconds = self._hands.documents, self._hands.options.timeouts.navigation_seconds
        wanted = documents.wanted = AwaitedFile(most_bytes)
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
        wanted: AwaitedFile,
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
            body = await asyncio.to_thread(read_page_made_file, path, folder, user, most_bytes)
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
            writing.add_done_callback(_retrieve_exception)
            writing.cancel()


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
