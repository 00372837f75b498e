"""The demo county as a running server, in a test's event loop or by itself, and its echo alone for `example-http`.

It counts each request, injects faults, and serves its own `/_site`, which is neither counted nor disturbed.
"""

import asyncio
import json
import signal
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

from swath.demo.county import pages, routes
from swath.demo.county.control import Counters, Fault, FaultDice, FaultSettings
from swath.demo.county.http import JSON, TEXT, Connection, SiteRequest, SiteResponse
from swath.fetch.http.client.demo_proof import PROOF_PATH, proof_of

ROBOTS = b"User-agent: *\nAllow: /\n"


class EchoSite:
    """Answers requests, and is what a connection's handler must be; it counts and spoils nothing."""

    def opened(self, request: SiteRequest) -> None:
        pass

    def finished(self, request: SiteRequest, status: str) -> None:
        pass

    def delay_seconds(self, request: SiteRequest) -> float:  # noqa: ARG002 all are answered at once
        return 0.0

    def respond(self, request: SiteRequest) -> SiteResponse:
        """Return the answer."""
        if request.refused:
            return pages.refused(request.refused)
        if request.path == PROOF_PATH:
            return SiteResponse(200, proof_of(request.query).encode(), TEXT)
        if routes.match_route(request.path) is routes.ROBOTS:
            return SiteResponse(200, ROBOTS, TEXT)
        return routes.respond(request) if routes.match_route(request.path).kind == "echo" else pages.NOT_FOUND


_CONTROL_PATH = "/_site/"


class Responder:
    """The site without its sockets: answers requests, and is what a connection's handler must be."""

    def __init__(self, switches: FaultSettings) -> None:
        self.counters = Counters()
        self.dice = FaultDice(switches)

    def opened(self, request: SiteRequest) -> None:
        if request.path.startswith(_CONTROL_PATH):
            return
        place = routes.match_route(request.path)
        request.open_request = self.counters.opened(place.kind, request.session())
        if place.parcel_id and self.dice.switches.count_parcels:
            self.counters.count_parcel(place.kind, place.parcel_id)

    def finished(self, request: SiteRequest, status: str) -> None:
        if request.open_request is not None:
            self.counters.finished(request.open_request, status)
            request.open_request = None

    def delay_seconds(self, request: SiteRequest) -> float:
        return 0.0 if request.open_request is None else self.dice.delay_seconds()

    def respond(self, request: SiteRequest) -> SiteResponse | None:
        """Return the answer, or nothing if the connection is to be cut instead."""
        if request.refused:
            return pages.refused(request.refused)
        if request.open_request is None:
            return self._control(request)
        if routes.match_route(request.path) is routes.ROBOTS:
            return self._robots()
        fault = self.dice.fault()
        if fault is None:
            return routes.respond(request)
        return None if fault == "drop" else self._spoiled(fault)

    def _robots(self) -> SiteResponse:
        switches = self.dice.switches
        return SiteResponse(switches.robots_status, switches.robots.encode(), TEXT)

    def _spoiled(self, fault: Fault) -> SiteResponse:
        if fault == "rate_limited":
            return pages.too_many_requests(self.dice.switches.retry_after_seconds)
        if fault == "blocked":
            return pages.BLOCKED
        return pages.MAINTENANCE if fault == "maintenance" else pages.RUNTIME_ERROR

    def _control(self, request: SiteRequest) -> SiteResponse:
        method = "GET" if request.method == "HEAD" else request.method
        match method, request.path.removeprefix(_CONTROL_PATH):
            case "GET", "proof":
                return SiteResponse(200, proof_of(request.query).encode(), TEXT)
            case "GET", "switches":
                return _json(self.dice.switches.as_dict())
            case "POST", "switches":
                return self._turn_switches(request)
            case "GET", "counters":
                return _json(self.counters.as_dict())
            case "POST", "counters/reset":
                self.counters.reset()
                return _json(self.counters.as_dict())
            case "GET", "timestamps":
                return _json([round(stamp, 6) for stamp in self.counters.timestamps])
            case "GET", "parcels":
                return _json(self.counters.by_parcel)
        return _json({"error": f"{request.method} {request.path}: no such control"}, status=404)

    def _turn_switches(self, request: SiteRequest) -> SiteResponse:
        try:
            changes = json.loads(request.body)
            if not isinstance(changes, dict):
                return _json({"error": "an object of switches is expected"}, status=400)
            self.dice.turn(self.dice.switches.changed(changes))
        except (ValueError, RecursionError) as error:
            return _json({"error": str(error)}, status=400)
        return _json(self.dice.switches.as_dict())


def _json(value: object, *, status: int = 200) -> SiteResponse:
    return SiteResponse(status, json.dumps(value).encode(), JSON)


BACKLOG = 4_096


class DemoCountyServer:
    """A county site of our own.

    >>> async with DemoCounty(Switches(latency_ms=50)) as county:
    ...     county.base_url, county.counters.peak_open_requests
    """

    def __init__(self, switches: FaultSettings | None = None) -> None:
        self._responder = Responder(switches or FaultSettings())
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.base_url = ""

    @property
    def counters(self) -> Counters:
        return self._responder.counters

    @property
    def switches(self) -> FaultSettings:
        return self._responder.dice.switches

    @switches.setter
    def switches(self, switches: FaultSettings) -> None:
        self._responder.dice.turn(switches)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen, and return the base URL; port 0 takes a free one. OSError if the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port, backlog=BACKLOG)
        taken = self._server.sockets[0]
        name = f"[{host}]" if taken.family == socket.AF_INET6 else host
        self.base_url = f"http://{name}:{taken.getsockname()[1]}"
        return self.base_url

    async def stop(self) -> None:
        """Stop listening and cut every connection; stopping twice does no harm."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        while self._connections:
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _connection(self) -> Connection:
        return Connection(self._responder, self._connections)


def serve_forever(host: str, port: int, switches: FaultSettings, announce: Callable[[str], None]) -> None:
    """Run the site until SIGINT or SIGTERM; `announce` is called with the base URL once it listens."""
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(_serve(host, port, switches, announce))


async def _serve(host: str, port: int, switches: FaultSettings, announce: Callable[[str], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    county = DemoCountyServer(switches)
    announce(await county.start(host, port))
    try:
        await stopped.wait()
    finally:
        await county.stop()


def fastest_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 not to be had on every system, and slow to import where it is not used
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
