"""The checker on the page about webhooks takes ours, and nothing that was changed, forged or sent again later (N1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from swath.domain.secret import Secret
from swath.domain.webhook import signature_headers
from tests.docs.pages import ROOT, Mark, blocks_of

pytestmark = pytest.mark.req("N1")

SECRET = "whsec_" + "c2VjcmV0" * 4
Checker = Callable[[dict[str, str], bytes, str], bool]


@pytest.fixture(scope="module")
def is_ours() -> Checker:
    page = (ROOT / "docs/how-to/receive-webhooks.md").read_text()
    (block,) = (block for block in blocks_of(page) if Mark("file", "check.py") in block.marks)
    names: dict[str, Any] = {}
    exec(compile(block.text, "check.py", "exec"), names)
    found: Checker = names["is_ours"]
    return found


def sent(at: float, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    body = msgspec.json.encode({"job_id": "told", "sent_at": int(at)})
    return signature_headers("wh_1", int(at), body, [Secret(secret)]), body


@pytest.mark.parametrize("secret", [SECRET, "any text of two dozen bytes"])
def test_ours_is_taken(is_ours: Checker, secret: str) -> None:
    assert is_ours(*sent(time.time(), secret), secret)


def test_names_of_headers_may_have_any_case(is_ours: Checker) -> None:
    headers, body = sent(time.time())
    assert is_ours({name.lower(): value for name, value in headers.items()}, body, SECRET)


def test_one_without_a_signature_is_not(is_ours: Checker) -> None:
    assert not is_ours({}, sent(time.time())[1], SECRET)


def test_another_body_or_secret_is_not(is_ours: Checker) -> None:
    headers, body = sent(time.time())
    assert not is_ours(headers, body.replace(b"told", b"bold"), SECRET)
    assert not is_ours(headers, body, "whsec_" + "b3RoZXIh" * 4)


def test_an_old_one_is_not_whatever_its_header_says(is_ours: Checker) -> None:
    headers, body = sent(time.time() - 600)
    assert not is_ours(headers | {"X-Webhook-Timestamp": str(int(time.time()))}, body, SECRET)
