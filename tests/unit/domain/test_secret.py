"""A secret is shown nowhere but where it is asked for by name (Z7)."""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import msgspec
import pytest

from swath.domain.secret import MASK, Secret

CANARY = "canary-7d1f"

pytestmark = pytest.mark.req("Z7")


class Holder(msgspec.Struct):
    secret: Secret


def test_only_reveal_gives_it_away() -> None:
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY
    shown = [
        repr(secret), str(secret), f"{secret}", f"{secret!r:>30}", f"{secret:<20}|", repr([secret]),
        repr({secret: secret}), repr(Holder(secret)),
    ]  # fmt: skip
    assert all(CANARY not in text for text in shown)
    assert all(MASK in text for text in shown)
    assert not hasattr(secret, "__dict__")


@pytest.mark.parametrize(
    "take", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, msgspec.json.encode, msgspec.msgpack.encode]
)
def test_it_is_not_copied_into_anything(take: object) -> None:
    with pytest.raises(TypeError) as raised:
        take(Secret(CANARY))  # type: ignore[operator]  # each takes one value
    assert CANARY not in "".join(traceback.format_exception(raised.value))


def test_secrets_of_one_text_are_equal_and_of_one_hash() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret(CANARY + "x")
    assert Secret(CANARY) != CANARY
    assert len({Secret(CANARY), Secret(CANARY)}) == 1


def test_bytes_that_are_no_text_are_no_trouble() -> None:
    odd = b"caf\xe9".decode("utf-8", "surrogateescape")  # as the environment gives it
    assert Secret(odd) == Secret(odd)
    assert Secret(odd) != Secret("café")
