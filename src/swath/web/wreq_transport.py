"""The transport on wreq: one pool of connections for all items, redirects, cookies and decoding switched off.

Comes after the session; below it is only the network. The one module that knows the client by name.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown
from swath.web.decode import Body
from swath.web.transport import Headers, Request, Response
from swath.web.wreq_errors import failure_of

if TYPE_CHECKING:
    import wreq

__all__ = ["DEFAULT_BODY_CAP_BYTES", "WreqTransport"]

DEFAULT_BODY_CAP_BYTES: Final = 32 * 1024 * 1024
_IDLE_SECONDS: Final = 20.0  # below the keep-alive of common servers, so that few connections die under a request
_MOST_POOLS: Final = 8


class WreqTransport:
    """Implements Transport. A pool per connect timeout, since the client fixes it when it is made: mostly just one."""

    def __init__(self, body_cap_bytes: int = DEFAULT_BODY_CAP_BYTES) -> None:
        import wreq  # noqa: PLC0415 loads a 10 MB library, which commands that fetch nothing do without

        self._wreq = wreq
        self._methods = {method: getattr(wreq.Method, method) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")}
        self._runtime = wreq.Runtime(workers=1, thread_name="swath-http")  # more of them cost CPU and gain nothing
        self._body_cap_bytes = body_cap_bytes
        self._pools: dict[float, wreq.Client] = {}
        self._closed = False

    async def send(self, request: Request) -> Response:
        """See Transport. The time is over for the body too: no client catches one that drips."""
        try:
            async with asyncio.timeout(request.request_timeout_seconds):
                return await self._exchange(request)
        except Failed:
            raise
        except TimeoutError:
            message = f"no whole answer within {request.request_timeout_seconds:g} s at {shown(request.url)}"
            raise Failed(Failure.of(FailureKind.TIMEOUT, message)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():
                raise
            raise Failed(Failure.of(FailureKind.CONNECT, "the transport was closed")) from None
        except Exception as error:  # whatever a site makes the client raise fails the item, not the worker
            raise Failed(failure_of(error, shown(request.url))) from error

    async def close(self) -> None:
        """See Transport. Sockets that the client keeps open beyond it close when they have idled long enough."""
        self._closed = True
        for client in self._pools.values():
            client.close()
        self._pools.clear()

    async def _exchange(self, request: Request) -> Response:
        if self._closed:
            raise Failed(Failure.of(FailureKind.INTERNAL, "the transport is closed"))
        client = self._pools.get(request.connect_timeout_seconds) or self._open_pool(request.connect_timeout_seconds)
        method, headers = self._methods[request.method], dict(request.headers)
        if request.body:
            answer = await client.request(method, request.url, headers=headers, body=request.body)
        else:
            if request.method in {"POST", "PUT"}:
                headers["Content-Length"] = "0"  # some servers refuse a post without it, and the client leaves it out
            answer = await client.request(method, request.url, headers=headers)
        received = _pairs(answer.headers)
        encoding = next((value for name, value in received if name == "content-encoding"), None)
        body = Body(encoding, self._body_cap_bytes)
        announced = answer.content_length
        if announced is not None and announced > self._body_cap_bytes and request.method != "HEAD":
            raise Failed(Failure.of(FailureKind.TOO_LARGE, f"the body has {announced} bytes at {shown(request.url)}"))
        async with answer.stream() as stream:
            async for chunk in stream:
                if type(chunk) is memoryview:  # the other kind are trailers
                    body.feed(bytes(chunk))
        return Response(
            url=request.url,
            status=answer.status.as_int(),
            headers=received,
            body=body.whole(),
            wire_bytes=body.wire_bytes + sum(len(name) + len(value) + 4 for name, value in received),
        )

    def _open_pool(self, connect_timeout_seconds: float) -> wreq.Client:
        if len(self._pools) >= _MOST_POOLS:
            del self._pools[next(iter(self._pools))]  # requests that are under way keep it until they end
        client = self._pools[connect_timeout_seconds] = self._wreq.Client(
            runtime=self._runtime,
            connect_timeout=timedelta(seconds=connect_timeout_seconds),
            pool_idle_timeout=timedelta(seconds=_IDLE_SECONDS),
            redirect=self._wreq.redirect.Policy.none(),
            cookie_store=False,
            referer=False,
            no_proxy=True,
            gzip=False,
            brotli=False,
            deflate=False,
            zstd=False,
        )
        return client


def _pairs(headers: wreq.HeaderMap) -> Headers:
    return tuple((str(name, "latin-1").lower(), str(value, "latin-1")) for name, value in headers)
