"""The demo county in a process of its own, which writes down what it has spoiled: what each failure can be due to.

`python -m harness.recordings.site LOG FAILURE_RATE SEED` serves it and prints its address; it ends with who has
started it. check.py reads the log.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import parse_qs

from harness.processes import dying_with_parent
from swath.demo.county import DemoCountyServer, FaultSettings
from swath.demo.county.http import SiteRequest
from swath.demo.county.routes import match_route
from swath.demo.county.server import Responder, fastest_loop

__all__ = ["InjectedFault", "injected_faults", "served"]

_SPOILT: Final = "500"
_NO_PARCEL: Final = "-"

InjectedFault = Counter[tuple[str, str]]
"""How many answers of a kind of page were spoiled, by the parcel that was asked for; empty where none was."""


@contextmanager
def served(log: Path, failure_rate: float, seed: int) -> Iterator[str]:
    """Its address, while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.recordings.site", str(log), str(failure_rate), str(seed)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            address = process.stdout.readline().strip()
        if not address:
            raise SystemExit("the county did not start")
        yield address
    finally:
        process.terminate()
        process.wait()


def injected_faults(log: Path) -> InjectedFault:
    """What the county has written down."""
    lines = (line.split() for line in log.read_text(encoding="ascii").splitlines())
    return Counter((kind, "" if parcel_id == _NO_PARCEL else parcel_id) for kind, parcel_id in lines)


class _NotingResponder(Responder):
    """The county, with a line for each answer that it has spoiled."""

    def __init__(self, switches: FaultSettings, log: IO[str]) -> None:
        super().__init__(switches)
        self._log = log

    def finished(self, request: SiteRequest, status: str) -> None:
        super().finished(request, status)
        if status == _SPOILT:
            parcel_id = parse_qs(request.query).get("parcel", [_NO_PARCEL])[0]
            self._log.write(f"{match_route(request.path).kind} {parcel_id}\n")


class _NotingCounty(DemoCountyServer):
    def __init__(self, switches: FaultSettings, log: IO[str]) -> None:
        super().__init__(switches)
        self._responder = _NotingResponder(switches, log)


async def _serve(log: Path, switches: FaultSettings) -> None:
    with log.open("a", encoding="ascii", buffering=1) as lines:
        async with _NotingCounty(switches, lines) as county:
            print(county.base_url, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(_serve(Path(sys.argv[1]), FaultSettings(failure_rate=float(sys.argv[2]), seed=int(sys.argv[3]))))
