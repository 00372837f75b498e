"""SessionOptions: what an attempt in a browser may do and take. From the job's policy and the scraper's wishes.

Made by whoever opens a session for an item; session.py keeps to it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from swath.domain.policy import Timeouts

__all__ = ["SessionOptions"]

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
