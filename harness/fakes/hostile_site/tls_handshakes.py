"""TLS that fails: certificates nobody should believe, and servers that do not speak it."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Listening, Proof, SiteExchange, always, html, whole
from swath.domain.failure import FailureKind

__all__ = ["HANDSHAKES"]

_K = FailureKind
_PAGE: Final = always(whole(html("unproven")))
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x28"  # fatal: handshake_failure


async def _stall(exchange: SiteExchange) -> None:
    await exchange.hold()


async def _drip(exchange: SiteExchange) -> None:
    await exchange.drip(b"\x16\x03\x03\x3f\xff" + bytes(10_000))


def _unproven(proof: Proof) -> Behaviour:
    name = "tls-" + proof.value.replace(" ", "-")
    return Behaviour(name, f"shows a certificate that is {proof}", (_K.TLS,), _PAGE, Listening.SECURE, proof)


def _bare(name: str, does: str, kind: FailureKind, raw: bytes) -> Behaviour:
    return Behaviour(name, does, (kind,), always(raw), Listening.BARE)


HANDSHAKES: Final = (
    *(_unproven(proof) for proof in Proof if proof is not Proof.GOOD),
    Behaviour("tls-stall", "accepts and never begins the handshake", (_K.TIMEOUT,), _stall, Listening.BARE),
    Behaviour("tls-drip", "sends the handshake at one byte a second", (_K.TIMEOUT,), _drip, Listening.BARE),
    _bare("tls-closed", "closes the connection in the handshake", _K.CONNECT, b""),
    _bare("tls-alert", "refuses the handshake", _K.TLS, _ALERT),
    _bare("tls-plain", "answers the handshake with a page", _K.TLS, whole(html("plain"))),
    _bare("tls-garbage", "answers the handshake with garbage", _K.TLS, b"\x00\xff" * 500),
)
