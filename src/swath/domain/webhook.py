"""Webhook: word of a job's end to somebody's URL, and when it is to be sent again (N1). Pure.

Before: a job ends (pipeline/finish), and its webhook is written in the same commit. After: integrations/webhook sends
it, notes how that went, and sends it again until it was taken or the schedule is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

__all__ = ["RETRY_SECONDS", "Delivery", "Webhook", "WebhookState", "logged", "noted", "resent"]

RETRY_SECONDS: Final = (2.0, 4.0, 8.0)
GONE: Final = 410  # the receiver says that it wants no more of these
MOST_KEPT: Final = 50  # deliveries in the log of one webhook; the oldest make room


class WebhookState(StrEnum):
    """`given_up`: the schedule is over, or the receiver is gone; only a person sends it again."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One try. `status` is the answer's; without one `error` says why. `at` in Unix seconds."""

    at: float
    seconds: float
    status: int | None = None
    error: str | None = None

    @property
    def taken(self) -> bool:
        """Whether the receiver said yes. A redirect is no yes."""
        return self.status is not None and 200 <= self.status < 300


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One end of one generation of a job, for one URL. `webhook_id` is the same however often it is sent.

    `summary` is the job as it ended. `due_at` is on the boot clock of this machine, which cannot be set, and None while
    nothing is to be sent. `tries` counts since it was made, or since a person sent it again. `revision` is raised by
    every change.
    """

    webhook_id: str
    job_id: str
    generation: int
    url: str
    summary: dict[str, Any]
    created_at: float
    state: WebhookState = WebhookState.PENDING
    due_at: float | None = None
    tries: int = 0
    deliveries: tuple[Delivery, ...] = ()
    revision: int = 0

    def as_json(self, boot_to_now: float) -> dict[str, Any]:
        """As the delivery log shows it, with `due_at` in Unix seconds."""
        told = msgspec.to_builtins(self)
        del told["summary"], told["revision"]
        due_at = None if self.due_at is None else self.due_at + boot_to_now
        return {**told, "due_at": due_at, "status": self.summary.get("status")}


def noted(webhook: Webhook, delivery: Delivery, boot: float, retry_seconds: Sequence[float] = RETRY_SECONDS) -> Webhook:
    """The webhook after a try that is over now, by the boot clock: delivered, due again, or given up."""
    tries = webhook.tries + 1
    due_at: float | None = None
    if delivery.taken:
        state = WebhookState.DELIVERED
    elif delivery.status == GONE or tries > len(retry_seconds):
        state = WebhookState.GIVEN_UP
    else:
        state, due_at = WebhookState.PENDING, boot + retry_seconds[tries - 1]
    return msgspec.structs.replace(logged(webhook, delivery), state=state, due_at=due_at, tries=tries)


def logged(webhook: Webhook, delivery: Delivery) -> Webhook:
    """The webhook with one more try in its log, and nothing else of it changed."""
    return msgspec.structs.replace(webhook, deliveries=(*webhook.deliveries, delivery)[-MOST_KEPT:])


def resent(webhook: Webhook, boot: float) -> Webhook:
    """The webhook when a person wants it sent again: due now, by the boot clock, with the whole schedule before it."""
    return msgspec.structs.replace(webhook, state=WebhookState.PENDING, due_at=boot, tries=0)
