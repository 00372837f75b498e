"""Which request, job and item the current task serves, for its log lines; and spans around its work, for traces.

Spans do nothing and import nothing until tracing is switched on. The id of a request is the id of its trace, and a
job
carries it, so a worker on another machine adds its spans to the same trace.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

__all__ = [
    "ITEMS_LOGGER",
    "SpanSink",
    "TaskContext",
    "current_task_context",
    "install_spans",
    "request_span",
    "serve_item",
    "serve_job",
    "serve_request",
    "span",
]

ITEMS_LOGGER: Final = "swath.items"  # the logger that tells of every item; people who watch a job do not need it


class TaskContext(NamedTuple):
    """None where there is none; `attempt` counts from 1."""

    request_id: str | None = None
    job_id: str | None = None
    item_id: str | None = None
    attempt: int | None = None


# Plain tuples: one is made for every attempt, and hardly any is ever read.
_serving: Final[ContextVar[tuple[str | None, str | None, str | None, int | None]]] = ContextVar(
    "swath_serving", default=(None, None, None, None)
)


def serve_request(request_id: str) -> None:
    """The present task serves this request from now on."""
    _serving.set((request_id, None, None, None))


def serve_job(request_id: str | None, job_id: str) -> None:
    """The present task does something for this job as a whole; the request is that by which it was ordered."""
    _serving.set((request_id, job_id, None, None))


def serve_item(request_id: str | None, job_id: str, item_id: str, attempt: int) -> None:
    """The present task is an attempt at this item; the request is that by which its job was ordered."""
    _serving.set((request_id, job_id, item_id, attempt))


def current_task_context() -> TaskContext:
    """Whom the present task serves."""
    return TaskContext(*_serving.get())


_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class SpanSink(Protocol):
    """Somebody who wants to know of them."""

    def begun(self, name: str, request_id: str, told: dict[str, str | int]) -> AbstractContextManager[object]:
        """The first span of a request's trace."""
        ...

    def spanned(self, name: str, request_id: str | None, told: dict[str, str | int]) -> AbstractContextManager[object]:
        """A span of the trace that the request began, else of the span around it."""
        ...


_wanted: SpanSink | None = None


def span(name: str, request_id: str | None = None, **told: str | int) -> AbstractContextManager[object]:
    """What is done in the block. With a `request_id` it belongs to what that request began, else to the span around.

    Only ids and figures may be told: no inputs, no data, no addresses.
    """
    return _NOTHING if _wanted is None else _wanted.spanned(name, request_id, told)


def request_span(name: str, request_id: str, **told: str | int) -> AbstractContextManager[object]:
    """The block answers a request."""
    return _NOTHING if _wanted is None else _wanted.begun(name, request_id, told)


def install_spans(wanted: SpanSink | None) -> None:
    """Switches spans on, or off again."""
    global _wanted  # noqa: PLW0603 one switch of the process, as for its log
    _wanted = wanted
