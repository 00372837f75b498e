"""What one behaviour is: its name, what it does, how an item ends that meets it, and the code that answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from swath.domain.failure import FailureKind

__all__ = [
    "TICK_SECONDS",
    "Authority",
    "Behaviour",
    "Listening",
    "Proof",
    "Respond",
    "SiteAddresses",
    "SiteExchange",
    "Wire",
    "always",
    "head",
    "html",
    "whole",
]

TICK_SECONDS: Final = 1.0  # between the bytes of a server that drips


class SiteAddresses(msgspec.Struct, frozen=True):
    """host:port of the site itself, and of a port on the same host that nobody must reach."""

    site: str
    canary: str


Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SiteExchange:
    """Each method raises ConnectionError when the client has gone, which ends the behaviour."""

    def __init__(self, wire: Wire, places: SiteAddresses, target: str = "/", fields: str = "", stream: int = 0) -> None:
        self._reader, self._writer = wire
        self.places = places
        self.target = target
        self.fields = fields  # the header lines of the request, as they came
        self.stream = stream  # of HTTP/2; 0 for HTTP/1.1
        self.keep_open = False  # set by a behaviour that wants another request on this connection

    @property
    def number(self) -> int:
        """The `n` of the address, from 0; for behaviours that go on from request to request."""
        return int(parse_qs(urlsplit(self.target).query).get("n", ["0"])[0])

    async def send(self, raw: bytes) -> None:
        """Puts bytes on the wire, no faster than the client takes them."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client has gone")
        self._writer.write(raw)
        await self._writer.drain()

    async def drip(self, raw: bytes) -> None:
        """The same at one byte a tick."""
        for start in range(len(raw)):
            await self.send(raw[start : start + 1])
            await asyncio.sleep(TICK_SECONDS)

    async def repeat(self, raw: bytes, times: int | None = None) -> None:
        """The same bytes again and again, for ever by default."""
        sent = 0
        while times is None or sent < times:
            await self.send(raw)
            sent += 1
            await asyncio.sleep(0)  # a client in the same process gets its turn

    async def hold(self) -> None:
        """Does nothing until the client gives up or the site is stopped."""
        if self.stream:  # somebody else reads, and cancels us when there is nothing more to read
            await asyncio.Event().wait()
        while await self._reader.read(0x10000):
            pass

    def close(self) -> None:
        """Ends the connection in good order, when what was sent has gone."""
        self._writer.close()

    def reset(self) -> None:
        """Cuts the connection hard, so that the client sees a reset instead of an end."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def head(*fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A status line and header lines, and the empty line after them."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"", b""])


def whole(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with an honest length."""
    return head(b"Content-Length: %d" % len(body), b"Connection: close", *fields, status=status) + body


def html(text: str) -> bytes:
    """A small page."""
    return f"<!doctype html><title>hostile</title><h1>{text}</h1>".encode()


_HOST: Final = "127.0.0.1"
_DAY: Final = timedelta(days=1)


class Proof(StrEnum):
    """What the certificate of a TLS server is worth."""

    GOOD = "good"
    EXPIRED = "expired"
    NOT_YET = "not yet valid"
    WRONG_HOST = "of another host"
    SELF_SIGNED = "self-signed"
    UNKNOWN_AUTHORITY = "of an unknown authority"


class Authority:
    """Signs certificates; whoever is to believe them is given `pem`."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("Hostile Site Authority")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = _builder(self._name, self._key).issuer_name(self._name).add_extension(constraints, critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def context(self, proof: Proof, alpn: list[str]) -> ssl.SSLContext:
        """What a server needs that shows such a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(alpn)
        with tempfile.TemporaryDirectory() as folder:  # the standard library reads them from files only
            path = Path(folder) / "both.pem"
            path.write_bytes(self._certificate(proof))
            context.load_cert_chain(path)
        return context

    def _certificate(self, proof: Proof) -> bytes:
        """The certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _named("other.example" if proof is Proof.WRONG_HOST else _HOST)
        from_days, to_days = {Proof.EXPIRED: (-9, -2), Proof.NOT_YET: (2, 9)}.get(proof, (-1, 7))
        host: x509.GeneralName = x509.IPAddress(ip_address(_HOST))
        if proof is Proof.WRONG_HOST:
            host = x509.DNSName("other.example")
        builder = _builder(name, key, from_days, to_days)
        builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
        issuer, signing = self._name, self._key
        if proof is Proof.SELF_SIGNED:
            issuer, signing = name, key
        elif proof is Proof.UNKNOWN_AUTHORITY:
            issuer, signing = _named("Nobody Knows It"), ec.generate_private_key(ec.SECP256R1())
        certificate = builder.issuer_name(issuer).sign(signing, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate.public_bytes(serialization.Encoding.PEM) + private


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, from_days: int = -1, to_days: int = 7
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + from_days * _DAY)
        .not_valid_after(now + to_days * _DAY)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


Respond = Callable[[SiteExchange], Awaitable[None]]


class Listening(StrEnum):
    """How the site is entered: what is spoken before the behaviour gets its turn."""

    PLAIN = "HTTP/1.1"
    SECURE = "HTTP/1.1 over TLS"
    HTTP2 = "HTTP/2 over TLS"
    BARE = "TLS expected"  # the behaviour speaks, or not, from the first byte on


class Behaviour(msgspec.Struct, frozen=True):
    """`kinds` are the failures that an item may end with; none means that there is a page."""

    name: str
    does: str
    kinds: tuple[FailureKind, ...]
    respond: Respond
    door: Listening = Listening.PLAIN
    proof: Proof = Proof.GOOD

    @property
    def ends_as(self) -> str:
        """In words of the table."""
        return " or ".join(f"`{kind}`" for kind in self.kinds) or "a page"


def always(*parts: bytes) -> Respond:
    """Sends the same bytes to everybody, then closes the connection."""
    raw = b"".join(parts)

    async def respond(exchange: SiteExchange) -> None:
        await exchange.send(raw)

    return respond
