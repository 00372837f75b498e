"""Files: bytes out of the browser that are no page of it: the body of an answer, read in pieces up to a cap.

Asked by documents.py, which has stopped the answer before Chromium could save or show it.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown
from swath.web.transport import Response

if TYPE_CHECKING:
    from patchright.async_api import CDPSession

__all__ = ["take_body", "too_large"]

_PIECE_BYTES: Final = 1024 * 1024
_PIECE_SECONDS: Final = 30.0
_EMPTY: Final = frozenset({204, 205, 304})


def too_large(url: str, largest_bytes: int) -> Failed:
    """More came than was to come."""
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"{shown(url)} has more than {largest_bytes:,} bytes"))


async def take_body(cdp: CDPSession, request_id: str, response: Response, largest_bytes: int) -> bytes:
    """The body of an answer that Chromium has stopped. Raises Failed too_large; what is beyond is not read."""
    length = response.header("content-length") or ""
    if length.isdecimal() and int(length) > largest_bytes:
        raise too_large(response.url, largest_bytes)
    if response.status in _EMPTY:
        return b""
    async with asyncio.timeout(_PIECE_SECONDS):
        stream = (await cdp.send("Fetch.takeResponseBodyAsStream", {"requestId": request_id}))["stream"]
    body = bytearray()
    while True:
        async with asyncio.timeout(_PIECE_SECONDS):
            piece = await cdp.send("IO.read", {"handle": stream, "size": _PIECE_BYTES})
        body += base64.b64decode(piece["data"]) if piece.get("base64Encoded") else piece["data"].encode("utf-8")
        if len(body) > largest_bytes:
            raise too_large(response.url, largest_bytes)
        if piece["eof"]:
            return bytes(body)
