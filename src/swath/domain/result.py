"""Result and Artifact: what an attempt hands to storage, and what storage says it kept."""

from __future__ import annotations

from typing import Any

import msgspec

from swath.domain.page import Page

__all__ = ["Artifact", "Result"]


class Artifact(msgspec.Struct, frozen=True):
    """One stored file: its key inside the job's folder, and size and hash of the stored bytes."""

    key: str
    size: int
    sha256: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt obtained. `data` is JSON-ready; `downloads` are files by the name the scraper gave."""

    pages: tuple[Page, ...] = ()
    downloads: tuple[tuple[str, bytes], ...] = ()
    data: Any = None
