"""One exchange on wreq: makes clients, sends a request, reads its answer under the caps. Every error becomes a Failure.

Used by the transports, direct and proxied, which decide where a client may connect. The only module that calls wreq.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown
from swath.web.deadlines import Deadlines, TimeLimit
from swath.web.decode import Body
from swath.web.egress.addresses import IPAddress
from swath.web.limits import IDLE_SECONDS, MOST_HEADERS, Limits, out_of_time
from swath.web.redirects import is_redirect
from swath.web.stalls import Pace, Stalls
from swath.web.tls_problems import CertificateRefused, is_refused_certificate
from swath.web.transport import Headers, Request, Response
from swath.web.wreq_errors import failure_of

if TYPE_CHECKING:
    import wreq

__all__ = ["Exchanges"]

_MOST_ADDRESSES: Final = 1_000
# What may wait for us inside the client. A frame of one byte takes 300 there, so that these are worth 75 and 150 MB in
# the worst case; most pages fit into the first. Browsers that are imitated have windows of their own.
_STREAM_WINDOW_BYTES: Final = 256 * 1024
_CONNECTION_WINDOW_BYTES: Final = 512 * 1024
# A server that sends faster than one thread can read keeps it from all else, its own body included. The second costs
# nothing that can be measured; four take a tenth more CPU per request.
_THREADS: Final = 2
# A body that is announced as no larger than this is fetched whole: each piece of a stream is a step between threads.
_AT_ONCE_BYTES: Final = 64 * 1024
_BODILESS: Final = frozenset({204, 304})
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Exchanges:
    """The client library, loaded and set up once per process. Safe to share."""

    def __init__(self, limits: Limits, deadlines: Deadlines, ca_file: Path | None = None) -> None:
        import wreq  # noqa: PLC0415 loads a 10 MB library, which commands that fetch nothing do without

        self.wreq = wreq
        self.limits = limits
        self._ca_file = ca_file
        self._methods = {method: getattr(wreq.Method, method) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")}
        self._profiles = {_flat(name): name for name in dir(wreq.Profile) if not name.startswith("_")}
        self._runtime = wreq.Runtime(workers=_THREADS, thread_name="swath-http")
        self._deadlines = deadlines
        self._stalls = Stalls(deadlines, limits.min_bytes_per_second, limits.window_seconds, limits.grace_seconds)
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
        pace = Pace(timer)
        try:
            async with timer:
                answer = await self._send(client, request, proxy)
                if pinned is not None and self._address_of(answer) not in pinned:
                    raise Failed(Failure.of(FailureKind.EGRESS_DENIED, f"{shown(request.url)} answered from elsewhere"))
                return await self._read(answer, request, pace)
        except Failed:
            raise
        except TimeoutError:
            raise out_of_time(request, pace, self.limits) from None
        except Exception as error:  # noqa: BLE001 whatever a site makes the client raise fails the item, not the worker
            # Its text holds the address with all that is secret in it, so it does not go on.
            failure = failure_of(error, shown(request.url))
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

    async def _read(self, answer: wreq.Response, request: Request, pace: Pace) -> Response:
        received, encodings, head_bytes = _read_head(answer.headers)
        self.limits.check_head(head_bytes, request)
        status = answer.status.as_int()
        if is_redirect(status, received):
            async with answer:  # what has not come yet of the body is not waited for
                return Response(url=request.url, status=status, headers=received, wire_bytes=head_bytes)
        announced = answer.content_length
        self.limits.check_announced(announced, request)
        body = Body(encodings, self.limits.cap_bytes(request))
        unseen_bytes = announced if announced is not None and announced <= _AT_ONCE_BYTES else None
        self._stalls.begin(pace, body, unseen_bytes or 0)
        try:
            if unseen_bytes is None:
                await _fill(answer, body)
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
        return _flat(impersonate) in self._profiles

    def _profile(self, impersonate: str) -> Any:
        name = self._profiles.get(_flat(impersonate))
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


def _check_length(announced: int | None, body: Body, request: Request, status: int) -> None:
    """Raises Failed for a body that is shorter than announced: over HTTP/2 a reset with NO_ERROR looks like an end."""
    if announced is None or body.wire_bytes >= announced or request.method == "HEAD" or status in _BODILESS:
        return
    message = f"the connection was closed early at {shown(request.url)}: {body.wire_bytes} of {announced} bytes came"
    raise Failed(Failure.of(FailureKind.CONNECT, message))


async def _fill(answer: wreq.Response, body: Body) -> None:
    async with answer.stream() as stream:
        async for chunk in stream:
            if type(chunk) is memoryview:  # the other kind are trailers
                body.feed(bytes(chunk))


def _flat(name: str) -> str:
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
