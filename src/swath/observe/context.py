"""Context: which request, job and item the present task serves, so that every line it logs can say so (O1).

Set where a request comes in, where an attempt begins and where a webhook is sent, each in a task of its own; read by
logs.py, and only when a line is written.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple

__all__ = ["ITEMS", "Serving", "serve_item", "serve_job", "serve_request", "serving"]


ITEMS: Final = "swath.items"  # the logger that tells of every item; people who watch a job do not need it


class Serving(NamedTuple):
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


def serving() -> Serving:
    """Whom the present task serves."""
    return Serving(*_serving.get())
