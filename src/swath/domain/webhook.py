"""A webhook about the end of a job: its deliveries, when the next one is due, and its two signatures. Pure.

`X-Webhook-Signature` is an HMAC-SHA256 over the exact body. The Standard Webhooks headers sign id, time and body, so
that its public libraries accept ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from swath.domain.errors import BadInput
from swath.domain.secret import Secret

__all__ = [
    "MIN_SIGNING_KEY_BYTES",
    "RETRY_SECONDS",
    "Delivery",
    "Webhook",
    "WebhookState",
    "append_delivery",
    "record_delivery",
    "reset_for_resend",
    "signature_headers",
    "signing_key",
]

RETRY_SECONDS: Final = (2.0, 4.0, 8.0)
HTTP_GONE: Final = 410  # the receiver says that it wants no more of these
MAX_DELIVERIES_KEPT: Final = 50  # deliveries in the log of one webhook; the oldest make room


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


def record_delivery(
    webhook: Webhook, delivery: Delivery, boot: float, retry_seconds: Sequence[float] = RETRY_SECONDS
) -> Webhook:
    """The webhook after a try that is over now, by the boot clock: delivered, due again, or given up."""
    tries = webhook.tries + 1
    due_at: float | None = None
    if delivery.taken:
        state = WebhookState.DELIVERED
    elif delivery.status == HTTP_GONE or tries > len(retry_seconds):
        state = WebhookState.GIVEN_UP
    else:
        state, due_at = WebhookState.PENDING, boot + retry_seconds[tries - 1]
    return msgspec.structs.replace(append_delivery(webhook, delivery), state=state, due_at=due_at, tries=tries)


def append_delivery(webhook: Webhook, delivery: Delivery) -> Webhook:
    """The webhook with one more try in its log, and nothing else of it changed."""
    return msgspec.structs.replace(webhook, deliveries=(*webhook.deliveries, delivery)[-MAX_DELIVERIES_KEPT:])


def reset_for_resend(webhook: Webhook, boot: float) -> Webhook:
    """The webhook when a person wants it sent again: due now, by the boot clock, with the whole schedule before it."""
    return msgspec.structs.replace(webhook, state=WebhookState.PENDING, due_at=boot, tries=0)


MIN_SIGNING_KEY_BYTES: Final = 24  # what Standard Webhooks asks for; less can be guessed
_ENCODED_PREFIX: Final = "whsec_"


def signing_key(secret: Secret) -> bytes:
    """The bytes that both signatures are made with: those that `whsec_…` stands for in base64, else the text's own.

    Raises BadInput, which tells nothing of the secret.
    """
    text = secret.reveal()
    if not text.startswith(_ENCODED_PREFIX):
        return text.encode("utf-8", "surrogatepass")
    try:
        key = base64.b64decode(text.removeprefix(_ENCODED_PREFIX), validate=True)
    except binascii.Error:
        raise BadInput("a webhook secret that begins with whsec_ goes on in base64, and this one does not") from None
    if not key:
        raise BadInput("a webhook secret that begins with whsec_ goes on in base64, and this one ends there")
    return key


def signature_headers(webhook_id: str, sent_at: int, body: bytes, secrets: Sequence[Secret]) -> dict[str, str]:
    """The headers that prove it. `sent_at` in whole Unix seconds.

    With several secrets the standard header has a signature by each, so that a receiver may know either; the other
    header, which has room for one, is by the first. Without any there are id and time alone.
    """
    headers = {"webhook-id": webhook_id, "webhook-timestamp": str(sent_at), "X-Webhook-Timestamp": str(sent_at)}
    keys = [signing_key(secret) for secret in secrets]
    if keys:
        signed = b"%s.%d.%s" % (webhook_id.encode(), sent_at, body)
        headers["X-Webhook-Signature"] = "sha256=" + hmac.new(keys[0], body, hashlib.sha256).hexdigest()
        headers["webhook-signature"] = " ".join(f"v1,{_standard_signature(key, signed)}" for key in keys)
    return headers


def _standard_signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")
