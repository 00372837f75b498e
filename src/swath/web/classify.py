"""What an answer means: a page, or a failure of some kind. Pure; the one place that knows what status codes say.

Comes after the transport and before the page reaches a scraper, for every hop and every kind of request.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown
from swath.web.transport import Response

__all__ = ["classify_status", "retry_after_seconds"]

_BLOCKING: Final = frozenset({403, 999})
_TEMPORARY: Final = frozenset({408, 425})
_GONE: Final = frozenset({404, 410})
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]+)?")


def classify_status(response: Response, now: float) -> Failure | None:
    """The failure that the status stands for; None for 2xx. `now` in Unix seconds, for a Retry-After that is a date."""
    status = response.status
    if 200 <= status < 300:
        return None
    asked = response.header("retry-after")
    if status == 429 or (status == 503 and asked is not None):
        return Failure.of(FailureKind.RATE_LIMITED, _message(response), retry_after_seconds(asked, now))
    return Failure.of(_kind(status), _message(response))


def _kind(status: int) -> FailureKind:
    if status in _BLOCKING:
        return FailureKind.BLOCKED
    if status in _GONE:
        return FailureKind.NOT_FOUND_PAGE
    if status in _TEMPORARY or 500 <= status < 600:
        return FailureKind.SERVER_ERROR
    return FailureKind.HTTP_ERROR


def _message(response: Response) -> str:
    return f"HTTP {response.status} at {shown(response.url)}"


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; None when it says nothing usable."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max(aware.timestamp() - now, 0.0)
