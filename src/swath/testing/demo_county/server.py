"""The demo county as a running server: inside a test's event loop, or by itself until it is told to stop.

`DemoCounty` opens the socket and hands every connection to the responder; `serve_forever` is what the command
`swath demo-site` and the load generator run.
"""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

from swath.testing.demo_county.connection import Connection
from swath.testing.demo_county.counters import Counters
from swath.testing.demo_county.responder import Responder
from swath.testing.demo_county.switches import Switches

BACKLOG = 4_096


class DemoCounty:
    """A county site of our own.

    >>> async with DemoCounty(Switches(latency_ms=50)) as county:
    ...     county.base_url, county.counters.peak_open_requests
    """

    def __init__(self, switches: Switches | None = None) -> None:
        self._responder = Responder(switches or Switches())
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.base_url = ""

    @property
    def counters(self) -> Counters:
        return self._responder.counters

    @property
    def switches(self) -> Switches:
        return self._responder.dice.switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
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


def serve_forever(host: str, port: int, switches: Switches, announce: Callable[[str], None]) -> None:
    """Run the site until SIGINT or SIGTERM; `announce` is called with the base URL once it listens."""
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(_serve(host, port, switches, announce))


async def _serve(host: str, port: int, switches: Switches, announce: Callable[[str], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    county = DemoCounty(switches)
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
