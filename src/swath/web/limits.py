"""Limits: what an answer may cost, and how it is said that the time was over. For every way of speaking HTTP."""

from __future__ import annotations

from typing import Final

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown
from swath.web.stalls import Pace
from swath.web.transport import Request

__all__ = ["IDLE_SECONDS", "MOST_HEADERS", "Limits", "out_of_time", "too_large"]

IDLE_SECONDS: Final = 20.0  # below the keep-alive of common servers, so that few connections die under a request
MOST_HEADERS: Final = 256


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer may cost. Decoded, a body may be as large as on the wire, and no larger.

    A body must bring `min_bytes_per_second` over each `window_seconds`, the first time within `grace_seconds`.
    """

    body_bytes: int = 32 * 1024 * 1024
    header_bytes: int = 256 * 1024
    min_bytes_per_second: int = 1_024
    window_seconds: float = 5.0
    grace_seconds: float = 10.0

    def cap_bytes(self, request: Request) -> int:
        """What the body may have."""
        return min(self.body_bytes, request.largest_bytes or self.body_bytes)

    def check_announced(self, announced: int | None, request: Request) -> None:
        """Raises Failed too_large for a body that need not be read to know it."""
        cap_bytes = self.cap_bytes(request)
        if announced is not None and announced > cap_bytes and request.method != "HEAD":
            raise too_large(f"the body has {announced} bytes, more than {cap_bytes},", request)

    def check_head(self, head_bytes: int, request: Request) -> None:
        """Raises Failed too_large."""
        if head_bytes > self.header_bytes:
            raise too_large(f"the head of the answer has {head_bytes} bytes", request)


def too_large(what: str, request: Request) -> Failed:
    """Whatever it was."""
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"{what} at {shown(request.url)}"))


def out_of_time(request: Request, pace: Pace, limits: Limits) -> Failed:
    """A timeout, with what it was that took so long."""
    where = shown(request.url)
    message = f"no whole answer within {request.request_timeout_seconds:g} s at {where}"
    if pace.too_slow:
        message = f"the body came with less than {limits.min_bytes_per_second} bytes a second at {where}"
    return Failed(Failure.of(FailureKind.TIMEOUT, message))
