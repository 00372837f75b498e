"""Page: what was fetched, as it came. Made by the web client or read back from storage; `extract` sees nothing else."""

from __future__ import annotations

import hashlib

import msgspec

__all__ = ["Page"]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One response body with where, when and how it was got. `url` is the address after redirects."""

    name: str
    url: str
    status: int
    body: bytes
    content_type: str = "text/html"
    charset: str = "utf-8"
    fetched_at: float = 0.0

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
        return hashlib.sha256(self.body).hexdigest()
