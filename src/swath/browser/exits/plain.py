"""Exit plain: requests without TLS, one after the other, each read, checked and written anew; and their answers.

Before: exit_line.py has read a request's head. The connection to the site is kept for the next one to the same site.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from swath.browser.exits.dial import Dialler, Reached, authority_of
from swath.browser.exits.traffic import Traffic
from swath.browser.exits.wire import Ask, Garbled, Reading, Said, asked_bytes, body_bytes, said_bytes
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.proxies.route import Route

__all__ = ["PlainRequests"]

_K = FailureKind
_CHUNK_BYTES: Final = 64 * 1024
_SENT_AGAIN: Final = frozenset({b"GET", b"HEAD"})


class _Site:
    """A connection to a site and the answers on it."""

    def __init__(self, reached: Reached, heard: Callable[[int, Reached], None]) -> None:
        self.reached = reached
        self.answers = Reading(reached.reader, lambda count: heard(count, reached), answers=True)
        self.used = False
        self.spent = False  # nothing else can be said on it


class PlainRequests:
    """Those of one line."""

    def __init__(
        self, traffic: Traffic, dialler: Dialler, client: asyncio.StreamWriter, alive: Callable[[], None]
    ) -> None:
        self._traffic = traffic
        self._dialler = dialler
        self._client = client
        self._alive = alive
        self._site: _Site | None = None

    async def close(self) -> None:
        """Lets go of the site."""
        if self._site is not None:
            site, self._site = self._site, None
            await site.reached.close()

    async def pass_on(self, ask: Ask, body: Reading, address: tuple[str, bytes], route: Route | None) -> bool:
        """One request and its answer. Whether the line is good for another. Raises Failed while nothing is answered."""
        site = await self._connected(ask, address[0], route)
        again = site.used
        said = await self._asked(site, ask, body, address)
        if said is None and again and not site.answers.begun:
            # A site may close a line just when it is used again; what has no body can be asked once more.
            await self.close()
            site = await self._connected(ask, address[0], route)
            said = await self._asked(site, ask, None, address)
        if said is None:
            raise Failed(self._no_answer(site.reached))
        return await self._answered(site, ask, said)

    async def _connected(self, ask: Ask, url: str, route: Route | None) -> _Site:
        site = self._site
        if site is not None and not self._fits(site, ask, url, route):
            await self.close()
            site = None
        if site is None:
            reached = await self._dialler.reach(self._traffic, url, route, tunnel=False)
            site = self._site = _Site(reached, self._heard)
        return site

    @staticmethod
    def _fits(site: _Site, ask: Ask, url: str, route: Route | None) -> bool:
        """Whether a request may go over a connection that was used before: one that can be sent again, to the same."""
        same = site.reached.route is route and authority_of(url) == site.reached.authority
        again = ask.method in _SENT_AGAIN and not ask.has_body
        return same and again and site.answers.is_idle and not site.reached.reader.at_eof()

    async def _asked(self, site: _Site, ask: Ask, body: Reading | None, address: tuple[str, bytes]) -> Said | None:
        """Sends it, and waits for the head of the answer. None: there is none."""
        url, rest = address
        reached, host = site.reached, url.removeprefix("http://").removesuffix("/").encode()
        proxied = b"" if reached.trip is None else reached.trip.authorization
        target = rest if reached.trip is None else b"http://" + host + rest
        reached.waits(waits=True)
        site.answers.begun = False
        self._send(reached, asked_bytes(ask, target, host, proxied))
        sending = asyncio.ensure_future(self._send_body(reached, ask, body))
        try:
            while True:
                said = await site.answers.next()
                if isinstance(said, Said) and said.status >= 200:
                    break
        except asyncio.IncompleteReadError:
            return None
        except Garbled as garbled:
            await self._garbled(reached, garbled)
            return None
        finally:
            if not sending.done():  # it was answered before all was said
                sending.cancel()
                site.spent = True
            await asyncio.gather(sending, return_exceptions=True)
        reached.waits(waits=False)
        return said

    async def _send_body(self, reached: Reached, ask: Ask, body: Reading | None) -> None:
        while body is not None and (piece := await body.next()) is not None:
            if isinstance(piece, bytes):
                self._send(reached, body_bytes(piece, chunked=ask.is_chunked))
                await reached.writer.drain()
        if ask.is_chunked:
            self._send(reached, body_bytes(b"", chunked=True))

    async def _garbled(self, reached: Reached, garbled: Garbled) -> None:
        """What is no HTTP to us may be some to the browser, so it is passed on as it is, and ends the line."""
        if reached.trip is not None:
            reached.trip.failed(reached.authority, "answered something that is no HTTP")
            reached.waits(waits=False)
            return
        chunk = garbled.raw
        while chunk:
            self._client.write(chunk)
            await self._client.drain()
            chunk = await reached.reader.read(_CHUNK_BYTES)
            self._heard(len(chunk), reached)
        raise ConnectionAbortedError

    async def _answered(self, site: _Site, ask: Ask, said: Said) -> bool:
        reached = site.reached
        self._check_refusal(reached, ask, said)
        bodiless = ask.method == b"HEAD"
        last = said.ends_with_line and not bodiless
        self._client.write(said_bytes(said, last=last or not ask.stays))
        try:
            while not bodiless and (piece := await site.answers.next()) is not None:
                if isinstance(piece, bytes):
                    self._client.write(body_bytes(piece, chunked=said.is_chunked))
                    await self._client.drain()
        except (asyncio.IncompleteReadError, Garbled):
            if not last:
                self._traffic.note(reached.authority, self._no_answer(reached))
                raise ConnectionAbortedError from None
        if said.is_chunked and not bodiless:
            self._client.write(body_bytes(b"", chunked=True))
        await self._client.drain()
        site.used = True
        if bodiless or site.spent or not said.stays:
            await self.close()
        return ask.stays and not last

    def _check_refusal(self, reached: Reached, ask: Ask, said: Said) -> None:
        if reached.trip is None:
            return
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in said.fields)
        body = b"" if said.is_empty and ask.method != b"HEAD" else None
        refusal = reached.trip.read_refusal(said.status, headers, tunnel=False, body=body)
        if refusal is not None:
            raise Failed(refusal)

    def _no_answer(self, reached: Reached) -> Failure:
        trip = reached.trip
        reached.waits(waits=False)
        if trip is None:
            return Failure.of(_K.CONNECT, f"the connection was closed early at {reached.authority}")
        return trip.trouble(reached.authority) or Failure.of(_K.PROXY, f"the proxy {trip.name} sent back no answer")

    def _send(self, reached: Reached, data: bytes) -> None:
        self._traffic.sent(len(data), reached.trip)
        reached.writer.write(data)

    def _heard(self, count: int, reached: Reached) -> None:
        self._alive()
        self._traffic.received(count, reached.trip)
