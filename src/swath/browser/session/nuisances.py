"""Nuisances: what pages do that nobody has asked for: dialogs, windows, files. Each is answered at once, and counted.

session.py has it watch the context of an attempt. A page that does not stop is given up: its process is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from swath.browser.session.calls import Calls
from swath.browser.session.options import SessionOptions
from swath.domain.errors import Failed, LeaseLost, SiteHeld
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical, shown
from swath.web.gate import Gate
from swath.web.transport import Request

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Dialog, Download, Page

__all__ = ["Nuisances"]

_MOST_TEXTS: Final = 20
_TEXT_CHARS: Final = 1_000


class Nuisances:
    """`said` is what the last dialogs said. `accept`: whether questions are answered with yes. `adopt` takes windows
    that are wanted, and `on_closed` says whether a window could close without harm.

    `file` is where a file goes that somebody waits for, and that came by no document: one that the page has made
    itself.
    """

    def __init__(self, calls: Calls, gate: Gate, options: SessionOptions) -> None:
        self._calls = calls
        self._gate = gate
        self._options = options
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dialogs = 0
        self._windows = 0
        self.said: list[str] = []
        self.accept = True
        self.adopt: Callable[[Page], None] | None = None
        self.on_closed: Callable[[Page], bool] = lambda _: False
        self.file: asyncio.Future[Download] | None = None

    def watch(self, context: BrowserContext) -> None:
        """From now on; ends with `close`."""
        self._context = context
        context.on("page", self._window)
        context.on("dialog", self._dialog)

    def watch_page(self, page: Page) -> None:
        """A page that we work in."""
        page.on("download", self._download)
        page.on("crash", self._crashed)
        page.on("close", self._closed)

    async def close(self, page: Page) -> None:
        """Stops watching: a kept context lives on, and is another attempt's next."""
        self._context.remove_listener("page", self._window)
        self._context.remove_listener("dialog", self._dialog)
        page.remove_listener("download", self._download)
        page.remove_listener("crash", self._crashed)
        page.remove_listener("close", self._closed)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _dialog(self, dialog: Dialog) -> None:
        self._dialogs += 1
        self.said.append(dialog.message[:_TEXT_CHARS])
        del self.said[:-_MOST_TEXTS]
        leave = dialog.type == "beforeunload"
        yes = leave or self.accept
        self._spawn(self._calls.bounded(_accepted(dialog) if yes else dialog.dismiss()))
        if self._dialogs > self._options.most_dialogs:
            self._give_up(f"more than {self._options.most_dialogs} dialogs, one after the other")

    def _window(self, page: Page) -> None:
        self._windows += 1
        if self.adopt is not None:
            self.adopt(page)
        else:
            self._spawn(self._shut(page))
        if self._windows > self._options.most_windows:
            self._give_up(f"more than {self._options.most_windows} windows, one after the other")

    async def _shut(self, page: Page) -> None:
        """A window that nobody wants. Browsers of our own let nothing of it out (chromium/porter.py). Elsewhere what it
        asked for has left before we could say no: the site's pace knows of it, so that whatever comes next waits."""
        url = page.url
        await self._calls.bounded(page.close())
        try:
            request = await self._gate.enter(Request(url=canonical(url)))
        except Failed:
            return  # no address, or one where we would not have gone
        except (LeaseLost, SiteHeld) as error:
            self._calls.alarm(error, for_good=True)
            return
        self._gate.leave(request, None, None)

    def _download(self, download: Download) -> None:
        if self.file is not None and not self.file.done():
            self.file.set_result(download)
        else:
            self._spawn(self._calls.bounded(download.cancel()))

    def _crashed(self, _: Page) -> None:
        self._calls.alarm(self._calls.gone("the page's process died"), for_good=True)

    def _closed(self, page: Page) -> None:
        if not self.on_closed(page) and page is self._calls.page:
            self._calls.alarm(self._calls.gone("the page was closed, or the browser is gone"), for_good=True)

    def _give_up(self, what: str) -> None:
        if self._calls.is_over:
            return
        message = f"the page {shown(self._calls.page.url)} opened {what}"
        self._calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, message)), for_good=True)
        self._spawn(self._calls.end_renderer())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _accepted(dialog: Dialog) -> None:
    """OK, as a person presses it: a prompt keeps the text that the page has put into it."""
    if dialog.type == "prompt":
        await dialog.accept(dialog.default_value)
    else:
        await dialog.accept()
