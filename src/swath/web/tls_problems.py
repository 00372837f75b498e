"""Names what is wrong with a site's TLS. The HTTP client says that a certificate was refused, but not why."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.web.egress.guard import Target

__all__ = ["CertificateRefused", "handshake_problem", "is_refused_certificate", "refusal_reason"]

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


class CertificateRefused(Failed):
    """The certificate of the site was refused."""


def is_refused_certificate(text: str) -> bool:
    """Whether this error of the client is about the certificate."""
    return any(sign in text for sign in _CERTIFICATE)


def handshake_problem(text: str) -> str:
    """What an error of the client in the handshake means."""
    if is_refused_certificate(text):
        return "the certificate is not trusted"
    return next((words for sign, words in _PROBLEMS if sign in text), "no TLS connection could be made")


async def refusal_reason(target: Target, ca_file: Path | None) -> str | None:
    """Why the certificate is refused, found out by a second handshake, in which no request is sent; None if that is
    not known."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    for address in target.addresses:
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                _, writer = await asyncio.open_connection(
                    str(address), target.port, ssl=context, server_hostname=target.host
                )
        except ssl.SSLCertVerificationError as error:
            return error.verify_message.rstrip(".")
        except (OSError, TimeoutError, ValueError):
            continue
        writer.transport.abort()
    return None
