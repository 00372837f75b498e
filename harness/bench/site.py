"""The site of the benchmark: `python -m harness.bench.site N` serves the pages of N parcels out of memory.

It prints its address and runs until SIGTERM. `Site` starts it from the supervisor and says what it cost.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from harness.bench.cost import cpu_seconds_of
from harness.bench.pages import body_of, item_ids
from harness.processes import dying_with_parent
from swath.demo.county.http import Connection, SiteRequest, SiteResponse
from swath.demo.county.server import BACKLOG, fastest_loop

__all__ = ["PATH", "Shelf", "Site", "serve"]

PATH: Final = "/parcel/"


class Shelf:
    """What a connection's handler must be: finished answers by path, and nothing counted or spoiled."""

    def __init__(self, answers: Mapping[str, SiteResponse]) -> None:
        self._answers = answers
        self._missing = SiteResponse(404, b"<h1>Not found</h1>")

    def opened(self, request: SiteRequest) -> None:
        """Nothing is counted."""

    def delay_seconds(self, request: SiteRequest) -> float:  # noqa: ARG002 a handler is asked for each request
        return 0.0

    def respond(self, request: SiteRequest) -> SiteResponse:
        return self._answers.get(request.path, self._missing)

    def finished(self, request: SiteRequest, status: str) -> None:
        """Nothing is counted."""


class Site:
    """The running site, in a process of its own."""

    module = "harness.bench.site"

    def __init__(self, items: int) -> None:
        self._items = items
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, str(self._items)],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            raise SystemExit("the site did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        return 0.0 if self._process is None else cpu_seconds_of(self._process.pid)


async def serve(shelf: Shelf) -> None:
    """Until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    connections = set[Connection]()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(shelf, connections), "127.0.0.1", 0, backlog=BACKLOG
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    for connection in tuple(connections):
        connection.abort()
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(
            serve(
                Shelf({PATH + item_id: SiteResponse(200, body_of(item_id)) for item_id in item_ids(int(sys.argv[1]))})
            )
        )
