"""Signs a webhook in two ways (N1). Pure. Before: payload.py has made the body. After: courier.py sends both.

`X-Webhook-Signature` is an HMAC-SHA256 over the exact body, which says when it was sent. Beside it stand the headers of
Standard Webhooks, whose signature is over id, time and body, so that its public libraries accept ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from swath.domain.errors import BadInput
from swath.domain.secret import Secret

__all__ = ["SHORTEST_KEY_BYTES", "key_of", "signature_headers"]

SHORTEST_KEY_BYTES: Final = 24  # what Standard Webhooks asks for; less can be guessed
_ENCODED: Final = "whsec_"


def key_of(secret: Secret) -> bytes:
    """The bytes that both signatures are made with: those that `whsec_…` stands for in base64, else the text's own.

    Raises BadInput, which tells nothing of the secret.
    """
    text = secret.reveal()
    if not text.startswith(_ENCODED):
        return text.encode("utf-8", "surrogatepass")
    try:
        key = base64.b64decode(text.removeprefix(_ENCODED), validate=True)
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
    keys = [key_of(secret) for secret in secrets]
    if keys:
        signed = b"%s.%d.%s" % (webhook_id.encode(), sent_at, body)
        headers["X-Webhook-Signature"] = "sha256=" + hmac.new(keys[0], body, hashlib.sha256).hexdigest()
        headers["webhook-signature"] = " ".join(f"v1,{_standard(key, signed)}" for key in keys)
    return headers


def _standard(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")
