"""A small HTTP/1.1 client for one controller: whole answers, uploads of any size, and streams.

Each request has a connection of its own. During an upload it reads an early answer, so that a refusal is seen at
once.
Private addresses are allowed, because the operator names the address; the key is sent only where it is safe.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import httptools
import msgspec

from swath import __version__
from swath.domain.errors import BadInput, StoreUnavailable, SwathError
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret

__all__ = [
    "ControllerAddress",
    "ControllerHttp",
    "ControllerUnreachable",
    "HttpResponse",
    "ResponseStream",
    "check_key_is_safe",
    "is_this_machine",
]


class ControllerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A controller's URL, taken apart. `prefix` is what stands before every path, behind a proxy that shares a host."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str
    netloc: str

    @classmethod
    def of(cls, url: str) -> ControllerAddress:
        """Raises BadInput."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise BadInput(f"--server {url}: is not the address of a controller; write http://host:8000") from None
        plain = url.isascii() and url.isprintable() and not parts.query and not parts.fragment
        if parts.scheme not in ("http", "https") or parts.hostname is None or not plain:
            raise BadInput(f"--server {url}: is not the address of a controller; write http://host:8000")
        tls = parts.scheme == "https"
        return cls(
            url=url.rstrip("/"),
            host=parts.hostname,
            port=port or (443 if tls else 80),
            tls=tls,
            prefix=parts.path.rstrip("/"),
            netloc=parts.netloc,
        )

    def path(self, *segments: str) -> str:
        """The path of something there; a segment may hold any text."""
        return self.prefix + "".join(f"/{quote(segment, safe='')}" for segment in segments)


def is_this_machine(host: str) -> bool:
    """Whether what is sent there never leaves this machine."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def check_key_is_safe(address: ControllerAddress, key: Secret | None) -> None:
    """Whoever listens in on the way would have the key. Raises BadInput."""
    if key is not None and not key.reveal().isascii():
        raise BadInput("SWATH_SERVICE_KEY is no service key: it has letters that none has")
    if key is not None and not address.tls and not is_this_machine(address.host):
        raise BadInput(
            f"{address.url} is not encrypted, and everybody on the way could read the service key; use https://, or a "
            "tunnel (ssh -L), or give --insecure if the way there is safe"
        )


CONNECT_SECONDS: Final = 10.0
RESPONSE_SECONDS: Final = 60.0
SEND_SECONDS: Final = 120.0  # for a controller to take what was sent: its store may be waiting for a disk
UPLOAD_RESPONSE_SECONDS: Final = 300.0  # from the end of an upload to its answer
EARLY_RESPONSE_SECONDS: Final = 5.0  # for the answer of a controller that reads no further
IDLE_SECONDS: Final = 45.0  # without even a heartbeat, which a stream has every 15 s
MAX_RESPONSE_BYTES: Final = 256 << 20
_READ_BYTES: Final = 1 << 16

T = TypeVar("T")


class ControllerUnreachable(StoreUnavailable):
    """The controller does not answer now; what it had stored stays stored."""

    def __init__(self, message: str) -> None:
        super().__init__(message, WaitingFor.STORE)


class HttpResponse(msgspec.Struct, frozen=True):
    """An answer; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class _ResponseParts:
    """What httptools makes of the bytes."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.size = 0
        self.begun = False
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    def on_message_complete(self) -> None:
        self.done = True


class ResponseStream:
    """An answer that is being read."""

    def __init__(self, reader: asyncio.StreamReader, address: ControllerAddress) -> None:
        self._reader = reader
        self._address = address
        self._incoming = _ResponseParts()
        self._parser = httptools.HttpResponseParser(self._incoming)

    @property
    def status(self) -> int:
        """Known when `begin` has returned."""
        return int(self._parser.get_status_code())

    @property
    def headers(self) -> dict[str, str]:
        """The same."""
        return self._incoming.headers

    async def begin(self) -> None:
        """Reads to the end of the headers."""
        while not self._incoming.begun:
            await self._feed()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Unreachable when nothing comes for too long."""
        while True:
            taken, self._incoming.pieces = self._incoming.pieces, []
            for piece in taken:
                yield piece
            if self._incoming.done:
                return
            await _with_timeout(IDLE_SECONDS, self._feed(), self._address)

    async def whole(self) -> HttpResponse:
        """The answer with all of its body."""
        await self.begin()
        while not self._incoming.done:
            if self._incoming.size > MAX_RESPONSE_BYTES:
                raise SwathError(f"{self._address.url} answered with more than {MAX_RESPONSE_BYTES:,} bytes")
            await self._feed()
        return HttpResponse(self.status, self.headers, b"".join(self._incoming.pieces))

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
            if data:
                self._parser.feed_data(data)
        except OSError as error:
            raise _connection_lost(self._address, error) from None
        except httptools.HttpParserError:
            raise SwathError(f"{self._address.url} does not speak HTTP; check --server") from None
        if not data:
            if not self._incoming.begun or {"content-length", "transfer-encoding"} & self.headers.keys():
                raise _connection_lost(self._address, None)
            self._incoming.done = True


class ControllerHttp:
    """`fixed` headers go with every request."""

    def __init__(self, address: ControllerAddress, fixed: Mapping[str, str]) -> None:
        self.address = address
        agent = f"swath/{__version__}"
        self._fixed = {"Host": address.netloc, "User-Agent": agent, "Connection": "close", **fixed}

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """One request with its whole answer. Raises Unreachable."""
        length = {"Content-Length": str(len(body))} if body or method != "GET" else {}
        async with self._connected() as (reader, writer):
            self._say(writer, method, path, {**length, **(headers or {})})
            writer.write(body)
            return await _with_timeout(RESPONSE_SECONDS, ResponseStream(reader, self.address).whole(), self.address)

    @asynccontextmanager
    async def streaming(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[ResponseStream]:
        """An answer that comes bit by bit."""
        async with self._connected() as (reader, writer):
            self._say(writer, "GET", path, headers)
            stream = ResponseStream(reader, self.address)
            await _with_timeout(RESPONSE_SECONDS, stream.begin(), self.address)
            yield stream

    async def send(self, path: str, chunks: AsyncIterable[bytes], headers: Mapping[str, str]) -> HttpResponse:
        """Posts a body of unknown length. What `chunks` raises is raised, and the controller sees a body cut off."""
        async with self._connected() as (reader, writer):
            self._say(writer, "POST", path, {**headers, "Transfer-Encoding": "chunked"})
            reading = asyncio.create_task(ResponseStream(reader, self.address).whole())
            sending = asyncio.create_task(self._send_all(writer, chunks))
            try:
                await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    return reading.result()
                try:
                    sending.result()
                except ControllerUnreachable:  # it may have said why before it hung up
                    with suppress(ControllerUnreachable):
                        return await _with_timeout(EARLY_RESPONSE_SECONDS, reading, self.address)
                    raise
                return await _with_timeout(UPLOAD_RESPONSE_SECONDS, reading, self.address)
            finally:
                for task in (reading, sending):
                    task.cancel()
                await asyncio.gather(reading, sending, return_exceptions=True)

    async def _send_all(self, writer: asyncio.StreamWriter, chunks: AsyncIterable[bytes]) -> None:
        async for chunk in chunks:
            if chunk:
                await self._put(writer, b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await self._put(writer, b"0\r\n\r\n")

    async def _put(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        try:
            writer.write(data)
            await _with_timeout(SEND_SECONDS, writer.drain(), self.address)
        except OSError as error:
            raise _connection_lost(self.address, error) from None

    def _say(self, writer: asyncio.StreamWriter, method: str, path: str, headers: Mapping[str, str]) -> None:
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in {**self._fixed, **headers}.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        address = self.address
        tls = ssl.create_default_context() if address.tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
        except TimeoutError:
            raise ControllerUnreachable(
                f"{address.url} did not answer within {CONNECT_SECONDS:g} s; check --server"
            ) from None
        except ssl.SSLError as error:
            raise SwathError(f"{address.url}: {_tls_error_text(error)}") from None
        except (OSError, UnicodeError) as error:
            told = getattr(error, "strerror", None) or str(error)
            raise ControllerUnreachable(
                f"{address.url} cannot be reached: {told}; is `swath serve` running there?"
            ) from None
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def _tls_error_text(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return f"no encrypted connection can be made: {error.reason or error}"


def _connection_lost(address: ControllerAddress, error: OSError | None) -> ControllerUnreachable:
    why = "" if error is None else f": {error.strerror or error}"
    return ControllerUnreachable(f"the connection to {address.url} broke off{why}")


async def _with_timeout(
    seconds: float, work: Coroutine[Any, Any, T] | asyncio.Task[T], address: ControllerAddress
) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise ControllerUnreachable(f"{address.url} did not answer within {seconds:g} s") from None
