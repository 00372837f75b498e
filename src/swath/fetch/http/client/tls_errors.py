"""Names what is wrong with a site's TLS.

The HTTP client reports that a certificate was refused, but not why; a second handshake finds out.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from swath.domain.errors import Failed
from swath.fetch.egress.guard import EgressTarget

__all__ = [
    "CertificateRefused",
    "ProxyTunnel",
    "RefusalReasons",
    "handshake_problem",
    "is_refused_certificate",
    "refusal_reason",
    "refusal_reason_behind",
]

_CERTIFICATE: Final = ("CERTIFICATE_VERIFY_FAILED", "BAD_SIGNATURE")
# By the reason codes of BoringSSL. The first that occurs in the text counts.
_PROBLEMS: Final = (
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS at this port"),
    ("HTTP_REQUEST", "the server does not speak TLS at this port"),
    ("PROTOCOL_VERSION", "the server supports only versions of TLS that are no longer safe"),
    ("UNSUPPORTED_PROTOCOL", "the server supports only versions of TLS that are no longer safe"),
    ("UNRECOGNIZED_NAME", "the server does not know this host name"),
    ("CERTIFICATE_REQUIRED", "the server asks for a client certificate"),
    ("HANDSHAKE_FAILURE", "the server supports none of our cipher suites, or asks for a client certificate"),
    ("NO_SHARED_CIPHER", "the server supports none of our cipher suites"),
    ("INSUFFICIENT_SECURITY", "the server supports none of our cipher suites"),
    ("DH_P_LENGTH", "the key of the server is too weak"),
    ("BAD_DH_P_LENGTH", "the key of the server is too weak"),
    ("ALERT", "the server refused the handshake"),
)
_LONGEST_SECONDS: Final = 10.0
_ASK_AGAIN_SECONDS: Final = 300.0
_MOST_KNOWN: Final = 1_000


class CertificateRefused(Failed):
    """The certificate of the site was refused."""


class ProxyTunnel(NamedTuple):
    """A way through our gateway, which listens at that port of this machine."""

    port: int
    token: str

    def request(self, authority: str) -> bytes:
        """What opens it to a site."""
        login = b64encode(f"{self.token}:x".encode()).decode()
        head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: Basic {login}\r\n\r\n"
        return head.encode()


def is_refused_certificate(text: str) -> bool:
    """Whether this error of the client is about the certificate."""
    return any(sign in text for sign in _CERTIFICATE)


def handshake_problem(text: str) -> str:
    """What an error of the client in the handshake means."""
    if is_refused_certificate(text):
        return "the certificate is not trusted"
    return next((words for sign, words in _PROBLEMS if sign in text), "no TLS connection could be made")


class RefusalReasons:
    """Why certificates are refused, by origin. Each site is asked only once in five minutes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, float]] = {}

    async def of(self, origin: str, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        """None when it is not known."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(origin)
        if known is None or now - known[1] > _ASK_AGAIN_SECONDS:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[origin] = await ask(), now
        return known[0]


async def refusal_reason(target: EgressTarget, ca_file: Path | None) -> str | None:
    """Why the certificate is refused, found out by a second handshake, in which no request is sent; None if that is
    not known."""
    context = _context(ca_file)
    for address in target.addresses:
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                _, writer = await asyncio.open_connection(
                    str(address), target.port, ssl=context, server_hostname=target.host
                )
        except ssl.SSLCertVerificationError as error:
            return _reason(error)
        except (OSError, TimeoutError, ValueError):
            continue
        writer.transport.abort()
    return None


async def refusal_reason_behind(tunnel: ProxyTunnel, target: EgressTarget, ca_file: Path | None) -> str | None:
    """The same of a site behind a proxy."""
    context = _context(ca_file)
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
            try:
                writer.write(tunnel.request(f"{target.host}:{target.port}"))
                answer = await reader.readuntil(b"\r\n\r\n")
                if answer.split(b" ", 2)[1] == b"200":
                    await writer.start_tls(context, server_hostname=target.host)
            finally:
                writer.transport.abort()
    except ssl.SSLCertVerificationError as error:
        return _reason(error)
    except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
        return None
    return None


def _context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _reason(error: ssl.SSLCertVerificationError) -> str:
    return error.verify_message.rstrip(".")
