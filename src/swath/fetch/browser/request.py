"""What a worker asks of the browsers for one attempt, and the limits of its tab.

Imported by every worker, so it loads neither the driver nor a browser.
"""

from __future__ import annotations

from typing import Final

import msgspec

from swath.domain.execution_policy import Proxy, Timeouts
from swath.fetch.http.messages import RequestGate

__all__ = ["BrowserRequest", "SessionOptions"]

_MEBIBYTE: Final = 1024 * 1024


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`block`: image, font, media, stylesheet. `screenshot`: never, failure, always. The rest bounds hostile pages.

    `most_bytes` is what may come over the wire for the attempt, pictures and scripts included.
    """

    timeouts: Timeouts = Timeouts()
    base_url: str | None = None
    block: tuple[str, ...] = ()
    screenshot: str = "failure"
    most_bytes: int = 128 * _MEBIBYTE
    most_page_bytes: int = 32 * _MEBIBYTE
    most_file_bytes: int = 32 * _MEBIBYTE
    most_documents: int = 60
    most_dialogs: int = 50
    most_windows: int = 20


class BrowserRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`owner` is its job, for whose items alone something is kept. `keeps` and `mobile` are the scraper's wishes.
    `proxy` says where its requests come out."""

    site: str
    owner: str
    keeps: bool
    mobile: bool
    proxy: Proxy
    options: SessionOptions
    gate: RequestGate
