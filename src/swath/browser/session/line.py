"""Line: what is known of one page whose documents pass the gate: its own CDP session, and where its main frame stands.

documents.py keeps one for each window of an attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from swath.browser.session.document import Document

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, Page

__all__ = ["Line"]


class Line:
    """`shown` is what the page shows, if it came this way. `asked` is the loader whose document is on its way, from the
    first word of it; `coming` is that document, once the gate has let it out."""

    __slots__ = (
        *("announced_at", "asked", "cdp", "coming", "entering", "error_comes", "error_url", "failed", "main_frame"),
        *("page", "shown"),
    )

    def __init__(self, page: Page, cdp: CDPSession, main_frame: str) -> None:
        self.page = page
        self.cdp = cdp
        self.main_frame = main_frame
        self.asked: str | None = None
        self.coming: Document | None = None
        self.shown: Document | None = None
        self.entering: asyncio.Task[None] | None = None
        self.announced_at: float | None = None
        self.error_comes = False
        self.error_url: str | None = None
        self.failed: Callable[[Any], None] | None = None  # what listens for requests that came to nothing

    @property
    def awaits_site(self) -> bool:
        """Whether a document was asked for, and nothing has come of it yet."""
        return self.asked is not None and (self.coming is None or self.coming.response is None)

    def over(self, loader_id: str) -> None:
        """Nothing more comes of this document."""
        if self.asked == loader_id:
            self.asked = self.coming = None
