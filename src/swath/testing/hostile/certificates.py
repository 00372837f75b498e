"""Certificates made when the site starts: a good one and its authority, and the ways in which one can be no good."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Authority", "Proof"]

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
