"""The HTTP client library wreq: creates clients, sends a request and reads its response within the limits.

Every error of the library becomes a Failure. The only module that calls wreq.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.resolver import IPAddress
from swath.fetch.http.client.content_decoding import ResponseBody
from swath.fetch.http.client.limits import (
    IDLE_SECONDS,
    MOST_HEADERS,
    BodyProgress,
    Deadlines,
    ResponseLimits,
    StallDetector,
    TimeLimit,
    request_timed_out,
)
from swath.fetch.http.client.tls_errors import CertificateRefused, handshake_problem, is_refused_certificate
from swath.fetch.http.messages import Headers, Request, Response, is_redirect
from swath.fetch.url import redacted

if TYPE_CHECKING:
    import wreq

__all__ = ["WreqClient", "failure_from_error"]

_K = FailureKind
# The address stands in the text, and an address may contain any of the words below.
_ADDRESS: Final = re.compile(r"uri: \S+, ")
# An Os error of the same kind as that of a bad chunk is about our own socket; "Library" is what the client objected to.
_NO_HTTP: Final = (
    *("Error(Parse", "Http2", "InvalidData"),
    *("(Body, Custom { kind: InvalidInput", "FLOW_CONTROL_ERROR, Library"),
)


def failure_from_error(error: BaseException, where: str) -> Failure:
    """The failure that an exception of the client stands for; `where` is the address as people may see it."""
    text = _ADDRESS.sub("", str(error))
    for kind, words, told_by in _SIGNS:
        if told_by(type(error).__name__, text):
            return Failure.of(kind, f"{handshake_problem(text) if kind is _K.TLS else words} at {where}")
    return Failure.of(_K.INTERNAL, f"the HTTP client raised {type(error).__name__} at {where}: {text}")


def _is_tls(name: str, text: str) -> bool:
    return name == "TlsError" or "CERTIFICATE_VERIFY_FAILED" in text or "code: SSL" in text or "Ssl(" in text


def _text_contains(*signs: str) -> Callable[[str, str], bool]:
    return lambda _, text: any(sign in text for sign in signs)


def _type_contains(*names: str) -> Callable[[str, str], bool]:
    return lambda name, _: name in names


# In order: the first that fits counts. A handshake cut short ("SYSCALL") may be a plain reset, so it can be retried.
_SIGNS: Final[tuple[tuple[FailureKind, str, Callable[[str, str], bool]], ...]] = (
    (_K.PROXY, "the proxy failed", _type_contains("ProxyConnectionError")),
    (_K.INTERNAL, "a name was looked up without the egress guard", _text_contains("dns error")),
    (_K.TIMEOUT, "the time for connecting is over", _text_contains("TimedOut", "deadline has elapsed")),
    (_K.TIMEOUT, "the time is over", _type_contains("TimeoutError")),
    (_K.TOO_LARGE, "the head of the answer is too large", _text_contains("TooLarge")),
    (_K.CONNECT, "the connection was refused", _text_contains("ConnectionRefused")),
    (_K.CONNECT, "the handshake was cut short", _text_contains("SYSCALL")),
    (_K.TLS, "no TLS connection could be made", _is_tls),
    (
        _K.CONNECT,
        "the connection was closed early",
        _text_contains("IncompleteMessage", "IncompleteBody", "UnexpectedEof"),
    ),
    (
        _K.CONNECT,
        "the connection was reset",
        _text_contains("ConnectionReset", "BrokenPipe", "Canceled", "ChannelClosed"),
    ),
    (_K.SERVER_ERROR, "the answer is no HTTP", _text_contains(*_NO_HTTP)),
    (_K.INTERNAL, "the request cannot be sent", _type_contains("BuilderError")),
    (_K.CONNECT, "the connection failed", _type_contains("ConnectionError", "ConnectionResetError")),
    (_K.CONNECT, "the exchange failed", _type_contains("RequestError", "BodyError", "DecodingError")),
)


_MOST_ADDRESSES: Final = 1_000
# What may wait for us inside the client. A frame of one byte takes 300 there, so that these are worth 75 and 150 MB in
# the worst case; most pages fit into the first. Browsers that are imitated have windows of their own.
_STREAM_WINDOW_BYTES: Final = 256 * 1024
_CONNECTION_WINDOW_BYTES: Final = 512 * 1024
# A server that sends faster than one thread can read keeps it from all else, its own body included. The second costs
# nothing that can be measured; four take a tenth more CPU per request.
_THREADS: Final = 2
# A body that is announced as no larger than this is fetched whole: each piece of a stream is a step between threads.
_READ_WHOLE_BYTES: Final = 64 * 1024
_BODILESS: Final = frozenset({204, 304})
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class WreqClient:
    """The client library, loaded and set up once per process. Safe to share."""

    def __init__(self, limits: ResponseLimits, deadlines: Deadlines, ca_file: Path | None = None) -> None:
        import wreq  # noqa: PLC0415 loads a 10 MB library, which commands that fetch nothing do without

        self.wreq = wreq
        self.limits = limits
        self._ca_file = ca_file
        self._methods = {method: getattr(wreq.Method, method) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")}
        self._profiles = {_profile_key(name): name for name in dir(wreq.Profile) if not name.startswith("_")}
        self._runtime = wreq.Runtime(workers=_THREADS, thread_name="swath-http")
        self._deadlines = deadlines
        self._stalls = StallDetector(
            deadlines, limits.min_bytes_per_second, limits.window_seconds, limits.grace_seconds
        )
        self._stores: dict[Path, wreq.CertStore] = {}
        self._addresses: dict[str, IPAddress] = {}

    def client(
        self,
        connect_timeout_seconds: float,
        *,
        pins: Mapping[str, Collection[IPAddress]] | None = None,
        impersonate: str | None = None,
        ca_file: Path | None = None,
    ) -> wreq.Client:
        """A client of its own pool. `pins`: names and where they are dialled; other names it would look up itself.

        Raises Failed internal for a browser that it cannot imitate, or a `ca_file` that holds no certificates.
        """
        options: dict[str, Any] = {}
        if pins is not None:
            options["dns_options"] = dns = self.wreq.dns.DnsOptions()
            for name, addresses in pins.items():
                dns.add_resolve(name, list(addresses))
        # Browsers skip a header line that they cannot read, and join one that goes on in the next line.
        options["http1_options"] = self.wreq.http1.Http1Options(
            max_headers=MOST_HEADERS,
            ignore_invalid_headers_in_responses=True,
            allow_spaces_after_header_name_in_responses=True,
            allow_obsolete_multiline_headers_in_responses=True,
        )
        if impersonate is None:
            options["http2_options"] = self.wreq.http2.Http2Options(
                max_header_list_size=self.limits.header_bytes,
                initial_window_size=_STREAM_WINDOW_BYTES,
                initial_connection_window_size=_CONNECTION_WINDOW_BYTES,
            )
        else:
            options["emulation"] = self.wreq.Emulation(self._profile(impersonate), headers=False)
        trusted = ca_file or self._ca_file
        if trusted is not None:
            options["tls_verify"] = self._store(trusted)
        return self.wreq.Client(
            runtime=self._runtime,
            connect_timeout=timedelta(seconds=connect_timeout_seconds),
            pool_idle_timeout=timedelta(seconds=IDLE_SECONDS),
            redirect=self.wreq.redirect.Policy.none(),
            cookie_store=False,
            referer=False,
            no_proxy=True,
            gzip=False,
            brotli=False,
            deflate=False,
            zstd=False,
            **options,
        )

    async def exchange(
        self,
        client: wreq.Client,
        request: Request,
        *,
        pinned: Collection[IPAddress] | None = None,
        proxy: wreq.Proxy | None = None,
        until: float | None = None,
    ) -> Response:
        """Sends the request and reads the answer, within its time. Raises Failed, or else was cancelled.

        With `pinned`, an answer from any other address is egress_denied. `until`, in the loop's time, is when the
        request's own time is over, if that began before. CancelledError comes out, too, when the client is closed
        under it.
        """
        if until is None:
            until = self._deadlines.loop.time() + request.request_timeout_seconds
        timer = TimeLimit(self._deadlines, until)
        pace = BodyProgress(timer)
        try:
            async with timer:
                answer = await self._send(client, request, proxy)
                if pinned is not None and self._address_of(answer) not in pinned:
                    raise Failed(
                        Failure.of(FailureKind.EGRESS_DENIED, f"{redacted(request.url)} answered from elsewhere")
                    )
                return await self._read(answer, request, pace)
        except Failed:
            raise
        except TimeoutError:
            raise request_timed_out(request, pace, self.limits) from None
        except Exception as error:  # noqa: BLE001 whatever a site makes the client raise fails the item, not the worker
            # Its text holds the address with all that is secret in it, so it does not go on.
            failure = failure_from_error(error, redacted(request.url))
            if failure.kind == FailureKind.TLS and is_refused_certificate(str(error)):
                raise CertificateRefused(failure) from None
            raise Failed(failure) from None

    def _address_of(self, answer: wreq.Response) -> IPAddress | None:
        """Who answered. Making an address costs more than all else that is done with it, so those seen are kept."""
        addr = answer.remote_addr
        if addr is None:
            return None
        told = str(addr)
        known = self._addresses.get(told)
        if known is None:
            if len(self._addresses) >= _MOST_ADDRESSES:
                self._addresses.clear()
            known = self._addresses[told] = addr.ip()
        return known

    def _send(self, client: wreq.Client, request: Request, proxy: wreq.Proxy | None) -> Awaitable[wreq.Response]:
        method, headers = self._methods.get(request.method), dict(request.headers)
        if method is None:
            raise Failed(Failure.of(FailureKind.INTERNAL, f"{request.method!r} is no method that is sent"))
        options: dict[str, Any] = {} if proxy is None else {"proxy": proxy}
        if request.body:
            options["body"] = request.body
        elif request.method in {"POST", "PUT"}:
            headers["Content-Length"] = "0"  # some servers refuse a post without it, and the client leaves it out
        return client.request(method, request.url, headers=headers, **options)

    async def _read(self, answer: wreq.Response, request: Request, pace: BodyProgress) -> Response:
        received, encodings, head_bytes = _read_head(answer.headers)
        self.limits.check_head(head_bytes, request)
        status = answer.status.as_int()
        if is_redirect(status, received):
            async with answer:  # what has not come yet of the body is not waited for
                return Response(url=request.url, status=status, headers=received, wire_bytes=head_bytes)
        announced = answer.content_length
        self.limits.check_announced(announced, request)
        body = ResponseBody(encodings, self.limits.cap_bytes(request))
        unseen_bytes = announced if announced is not None and announced <= _READ_WHOLE_BYTES else None
        self._stalls.begin(pace, body, unseen_bytes or 0)
        try:
            if unseen_bytes is None:
                await _read_stream(answer, body)
            else:
                body.feed(bytes(await answer.bytes()))
        finally:
            self._stalls.end(pace)
        _check_length(announced, body, request, status)
        return Response(
            url=request.url,
            status=status,
            headers=received,
            body=body.whole(),
            wire_bytes=head_bytes + body.wire_bytes,
        )

    def knows(self, impersonate: str) -> bool:
        """Whether there is such a browser to imitate."""
        return _profile_key(impersonate) in self._profiles

    def _profile(self, impersonate: str) -> Any:
        name = self._profiles.get(_profile_key(impersonate))
        if name is None:
            message = f"there is no browser {impersonate!r} to imitate; one that is known is chrome_143"
            raise Failed(Failure.of(FailureKind.INTERNAL, message))
        return getattr(self.wreq.Profile, name)

    def _store(self, ca_file: Path) -> wreq.CertStore:
        if ca_file not in self._stores:
            try:
                certificates = _PEM.findall(ca_file.read_text("ascii"))
                if not certificates:
                    raise ValueError("it holds none")
                made = self.wreq.CertStore(pem_certs=certificates, default_paths=True)
            except Exception as error:  # unreadable, no text, or nothing that the client takes for a certificate
                message = f"{ca_file.name} cannot be used for certificates: {error}"
                raise Failed(Failure.of(FailureKind.INTERNAL, message)) from error
            self._stores[ca_file] = made
        return self._stores[ca_file]


def _check_length(announced: int | None, body: ResponseBody, request: Request, status: int) -> None:
    """Raises Failed for a body that is shorter than announced: over HTTP/2 a reset with NO_ERROR looks like an end."""
    if announced is None or body.wire_bytes >= announced or request.method == "HEAD" or status in _BODILESS:
        return
    message = f"the connection was closed early at {redacted(request.url)}: {body.wire_bytes} of {announced} bytes came"
    raise Failed(Failure.of(FailureKind.CONNECT, message))


async def _read_stream(answer: wreq.Response, body: ResponseBody) -> None:
    async with answer.stream() as stream:
        async for chunk in stream:
            if type(chunk) is memoryview:  # the other kind are trailers
                body.feed(bytes(chunk))


def _profile_key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(".", "")


def _read_head(headers: wreq.HeaderMap) -> tuple[Headers, list[str], int]:
    """The headers, those among them that say how the body is encoded, and their size on the wire."""
    received, encodings, size = [], [], 0
    for raw_name, raw_value in headers:
        name, value = str(raw_name, "latin-1").lower(), str(raw_value, "latin-1")
        received.append((name, value))
        size += len(name) + len(value) + 4
        if name == "content-encoding":
            encodings.append(value)
    return tuple(received), encodings, size
