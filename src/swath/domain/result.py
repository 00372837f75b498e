"""Result and Artifact: what an attempt hands to storage, and what storage says it kept."""

from __future__ import annotations

from typing import Any

import msgspec

from swath.domain.page import Page

__all__ = ["Artifact", "Download", "Result"]


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
