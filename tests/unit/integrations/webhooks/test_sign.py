"""N1: whoever has the secret can tell that a webhook is ours, in both ways."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import BadInput
from swath.domain.secret import Secret
from swath.domain.webhook import signature_headers, signing_key

pytestmark = pytest.mark.req("N1")

texts = st.text(min_size=1).filter(lambda text: not text.startswith("whsec_"))
keys = st.binary(min_size=1, max_size=64)


def encoded(key: bytes) -> Secret:
    return Secret("whsec_" + base64.b64encode(key).decode())


@given(body=st.binary(), secret=texts)
def test_the_signature_can_be_recomputed_from_secret_and_body(body: bytes, secret: str) -> None:
    """Property 40."""
    headers = signature_headers("wh_1", 1_700_000_000, body, [Secret(secret)])
    expected = hmac.new(secret.encode("utf-8", "surrogatepass"), body, hashlib.sha256).hexdigest()
    assert headers["X-Webhook-Signature"] == f"sha256={expected}"
    assert headers["X-Webhook-Timestamp"] == "1700000000"


@given(body=st.binary(), key=keys, flip=st.integers(min_value=0))
def test_another_body_or_secret_gives_another_signature(body: bytes, key: bytes, flip: int) -> None:
    """Property 40, the other way round."""
    headers = signature_headers("wh_1", 1_700_000_000, body, [encoded(key)])
    other = bytearray(body or b"x")
    other[flip % len(other)] ^= 1
    assert signature_headers("wh_1", 1_700_000_000, bytes(other), [encoded(key)]) != headers
    assert signature_headers("wh_1", 1_700_000_000, body, [encoded(key + b"!")]) != headers


@given(body=st.text(), key=keys)
def test_the_public_library_accepts_ours(body: str, key: bytes) -> None:
    document = b'{"told": "%s"}' % body.encode("utf-8", "replace").hex().encode()
    now = int(time.time())
    headers = signature_headers("wh_7", now, document, [encoded(key)])
    assert standardwebhooks.Webhook("whsec_" + base64.b64encode(key).decode()).verify(document, headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(base64.b64encode(key).decode()).verify(document + b" ", headers)
    late = signature_headers("wh_7", now - 3_600, document, [encoded(key)])
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(base64.b64encode(key).decode()).verify(
            document, late | {"webhook-timestamp": str(now)}
        )


def test_while_secrets_change_a_receiver_may_know_either() -> None:
    old, new, body = Secret("an old secret of many bytes"), encoded(b"n" * 32), b"{}"
    headers = signature_headers("wh_1", int(time.time()), body, [new, old])
    assert standardwebhooks.Webhook(b"n" * 32).verify(body, headers) == {}
    assert standardwebhooks.Webhook(old.reveal().encode()).verify(body, headers) == {}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(b"somebody else's").verify(body, headers)
    assert headers["X-Webhook-Signature"] == signature_headers("wh_1", 0, body, [new])["X-Webhook-Signature"]


def test_without_a_secret_nothing_is_signed() -> None:
    headers = signature_headers("wh_1", 5, b"{}", [])
    assert headers == {"webhook-id": "wh_1", "webhook-timestamp": "5", "X-Webhook-Timestamp": "5"}


@pytest.mark.req("Z7")
@pytest.mark.parametrize("text", ["whsec_", "whsec_no+base64!", "whsec_abc"])
def test_a_secret_that_cannot_be_read_is_refused_and_not_told(text: str) -> None:
    with pytest.raises(BadInput, match="whsec_") as raised:
        signing_key(Secret(text))
    assert "base64!" not in str(raised.value)
    assert "abc" not in str(raised.value)
