"""Spans: what is done for whom, for those who want traces (O2): request, claim, attempt, fetch, extract, commit.

Off by default: then a span is nothing, and nothing of OpenTelemetry is imported. tracing.py switches it on. The id of a
request is the id of its trace, and a job carries it through the store and the queue (Job.request_id): so a worker on
another machine adds its spans to the same trace without a word between them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

__all__ = ["Spans", "install", "request_span", "span"]

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class Spans(Protocol):
    """Somebody who wants to know of them."""

    def begun(self, name: str, request_id: str, told: dict[str, str | int]) -> AbstractContextManager[object]:
        """The first span of a request's trace."""
        ...

    def spanned(self, name: str, request_id: str | None, told: dict[str, str | int]) -> AbstractContextManager[object]:
        """A span of the trace that the request began, else of the span around it."""
        ...


_wanted: Spans | None = None


def span(name: str, request_id: str | None = None, **told: str | int) -> AbstractContextManager[object]:
    """What is done in the block. With a `request_id` it belongs to what that request began, else to the span around.

    Only ids and figures may be told: no inputs, no data, no addresses.
    """
    return _NOTHING if _wanted is None else _wanted.spanned(name, request_id, told)


def request_span(name: str, request_id: str, **told: str | int) -> AbstractContextManager[object]:
    """The block answers a request."""
    return _NOTHING if _wanted is None else _wanted.begun(name, request_id, told)


def install(wanted: Spans | None) -> None:
    """Switches spans on, or off again."""
    global _wanted  # noqa: PLW0603 one switch of the process, as for its log
    _wanted = wanted
