"""A site over TLS on loopback, with a certificate authority of its own; speaks HTTP/2 to those who ask for it."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from tests.unit.fetch.http.sites import plain


class Authority:
    """Signs certificates for names; `file` is what its friends trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        self.file = folder / "ca.pem"
        made = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def context(self, name: str, *protocols: str, days: int = 1, begins_in_days: int = -10) -> ssl.SSLContext:
        """A server's, with a certificate for one name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        valid = (begins_in_days, days)
        made = self._signed(subject, key, x509.SubjectAlternativeName([x509.DNSName(name)]), valid)
        return self._with(key, made, name, *protocols)

    def self_signed(self, name: str) -> ssl.SSLContext:
        """A server's, whose certificate no authority has signed."""
        signer = Authority.__new__(Authority)
        signer._folder, signer._key = self._folder, ec.generate_private_key(ec.SECP256R1())
        signer._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = signer._signed(signer._name, signer._key, x509.SubjectAlternativeName([x509.DNSName(name)]))
        return self._with(signer._key, made, name)

    def _with(
        self, key: ec.EllipticCurvePrivateKey, made: x509.Certificate, name: str, *protocols: str
    ) -> ssl.SSLContext:
        file = self._folder / f"{name}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.set_alpn_protocols(list(protocols))
        return context

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        valid_days: tuple[int, int] = (-10, 1),
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + dt.timedelta(days=valid_days[0]))
            .not_valid_after(now + dt.timedelta(days=valid_days[1]))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


class SecureSite:
    """Counts connections and notes how each request came. One of `hung`, by its number, never answers over HTTP/2.

    With `reset`, an error code of HTTP/2, each answer over it is cut off after its first bytes; `announced` is the
    length that such an answer names, if any.
    """

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.hung: set[int] = set()
        self.reset: int | None = None
        self.announced: int | None = None
        self.serving: set[asyncio.Task[None]] = set()
        self.requests: list[tuple[str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
                if writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
                    await self._serve_h2(reader, writer)
                else:
                    head = await reader.readuntil(b"\r\n\r\n")
                    self.requests.append(("http/1.1", head.decode()))
                    writer.write(plain(b"<p>one</p>"))
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()  # a client that says no goodbye would keep the socket beyond the test

    async def _serve_h2(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived) and event.stream_id is not None:
                    self.requests.append(("h2", repr(event.headers)))
                    if number in self.hung:
                        await asyncio.Event().wait()
                    length = [] if self.announced is None else [("content-length", str(self.announced))]
                    head = [(":status", "200"), ("content-type", "text/html"), *length]
                    connection.send_headers(event.stream_id, head)
                    connection.send_data(event.stream_id, b"<p>two</p>", end_stream=self.reset is None)
                    if self.reset is not None:
                        connection.reset_stream(event.stream_id, self.reset)
            writer.write(connection.data_to_send())


@asynccontextmanager
async def secure_site(context: ssl.SSLContext) -> AsyncIterator[SecureSite]:
    site = SecureSite()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=context)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in site.serving:
            task.cancel()
        await asyncio.gather(*site.serving, return_exceptions=True)
        await asyncio.sleep(0)  # what was cut is closed in the loop's next turn
