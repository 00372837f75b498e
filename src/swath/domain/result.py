"""Pages as they were fetched, what an attempt hands to storage, and the artifacts that storage kept."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

__all__ = ["Artifact", "Download", "Exchange", "Page", "Result"]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent and what came beside the body, as far as it is known. Names of response headers are lower-case."""

    method: str
    request_headers: tuple[tuple[str, str], ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One response body with where, when and how it was got. `url` is the address after redirects."""

    name: str
    url: str
    status: int
    body: bytes
    content_type: str = "text/html"
    charset: str = "utf-8"
    fetched_at: float = 0.0
    exchange: Exchange | None = None  # a page read back from storage has none
    from_cache: bool = False  # the answer to an earlier request of its job; nothing was sent for it
    digest: str = ""  # its `sha256`, where that is known: of a page read back from storage
    length: int | None = None  # its `size`, where the body was let go of

    @property
    def text(self) -> str:
        """The body as text; bytes that do not fit the charset are replaced, never an error."""
        try:
            return self.body.decode(self.charset, "replace")
        except (LookupError, ValueError):  # a charset nobody knows, or one that is not for text: idna, undefined
            return self.body.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Of the body as fetched, before compression."""
        return self.digest or hashlib.sha256(self.body).hexdigest()

    @property
    def size(self) -> int:
        """Of the body, in bytes."""
        return len(self.body) if self.length is None else self.length

    def without_body(self) -> Page:
        """All that is known of the page but the page itself, whose memory others can have."""
        return msgspec.structs.replace(self, body=b"", digest=self.sha256, length=self.size)


class Artifact(msgspec.Struct, frozen=True, gc=False):
    """One stored file: its key inside the job's folder, and size and hash of the stored bytes.

    Of a file inside a pack (domain/layout.py) these are the bytes of its record or line.
    """

    key: str
    size: int
    sha256: str


class Download(msgspec.Struct, frozen=True):
    """A file by the name that the scraper gave, and the answer that it came in."""

    name: str
    page: Page

    @property
    def body(self) -> bytes:
        """The file."""
        return self.page.body


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt obtained. `data` is JSON-ready."""

    pages: tuple[Page, ...] = ()
    downloads: tuple[Download, ...] = ()
    data: Any = None
