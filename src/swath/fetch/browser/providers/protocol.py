"""What a browser provider implements: sessions, and in them one tab per item, with its own context or a shared one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from swath.fetch.browser.fingerprint.regions import Region
from swath.fetch.browser.pool.instance import BrowserProcess
from swath.fetch.egress.forward_proxy.browser_egress import ContextProxy

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Page

__all__ = ["BrowserProvider", "BrowserTab", "ProviderSession", "TabRequest"]


class TabRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one item wants. `keeps`: cookies and storage of this `site` live on in the session, for the next item of the
    same `owner`, its job.

    `region` is where its requests come out, as far as that is known: the browser's clock and languages agree with it.
    """

    site: str
    owner: str = ""
    keeps: bool = False
    region: Region | None = None
    mobile: bool = False


class BrowserTab(Protocol):
    """One item's place in a browser. `exit` and `running`, the browser, are None where they are not ours: elsewhere.

    `keeps_page`: the page itself may go to the next item of its site, which saves the start of another. Whoever works
    in it says no when that did not end well, or when something of it stays on the page. `loads` is how many documents
    it has loaded, which is what wears a browser out.
    """

    context: BrowserContext
    page: Page
    running: BrowserProcess | None
    exit: ContextProxy | None
    keeps_page: bool
    loads: int

    def admit(self, window: str) -> None:
        """A window that a page has opened is wanted, and its documents pass the gate: they may leave. By its target."""
        ...

    async def close(self) -> None:
        """Bounded, whatever the page does, and never raises; what does not close in time is killed. Kept contexts lose
        their pages only, and may keep one that is empty."""
        ...

    async def kill(self) -> None:
        """A call did not come back: ends the browser that it was made in, and everything else that runs there."""
        ...


class ProviderSession(Protocol):
    """A browser, or a part of one, at a provider. Serves one item at a time. Times are on the boot clock."""

    session_id: str
    expires_at: float | None

    @property
    def gone(self) -> bool:
        """Whether it is known that no further item can be served; a session need not know it."""
        ...

    async def open(self, wish: TabRequest) -> BrowserTab:
        """A place for one item. Raises Failed: browser_crash when there is none (pool_exhausted), or its session is
        gone."""
        ...


class BrowserProvider(Protocol):
    """Where browsers come from."""

    name: str
    most_sessions: int

    async def create(self) -> ProviderSession:
        """Raises Failed: credential, rate_limited (with the wait), access_policy, browser_crash."""
        ...

    async def destroy(self, session: ProviderSession) -> None:
        """Gives it back. May be called again, and for one that is gone; never raises."""
        ...

    async def close(self) -> None:
        """Leaves no process and no paid session behind."""
        ...
