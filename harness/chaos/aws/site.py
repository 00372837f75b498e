"""The site and the bucket's bad days, each in a process of its own, so that nobody's work delays their time stamps.

`python -m harness.chaos.aws.site county LOG PAGE_MS` serves the demo county and writes a line for every request;
`… bucket URL SEED RATES DENIED` stands before S3 (aws_s3_faults.py), and the file DENIED says, as JSON, which paths it
refuses with which status. Each prints its address, and ends with who started it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from harness.fakes.s3_faults import S3Faults, S3Rates
from harness.processes import dying_with_parent
from swath.demo.county import DemoCountyServer, FaultSettings
from swath.demo.county.http import SiteRequest
from swath.demo.county.server import Responder, fastest_loop

__all__ = ["LoggedRequest", "read_log", "served"]

LOOK_SECONDS: Final = 0.005
_LAG: Final = "lag"


class LoggedRequest(NamedTuple):
    """A request as the site saw it, in seconds of the monotonic clock; `pid` is 0 where it does not say whose it is."""

    opened: float
    finished: float
    pid: int
    status: str


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """One of the two, while the context lasts; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.chaos.aws.site", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=dying_with_parent(),  # noqa: PLW1509 starts before there are threads
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            address = process.stdout.readline().decode().strip()
        if not address:
            raise SystemExit(f"{arguments[0]} did not start")
        yield address
    finally:
        process.terminate()
        process.wait()


def read_log(log: Path) -> tuple[list[LoggedRequest], float]:
    """All requests, and for how long the site was away from its sockets at the worst."""
    seen, lag_seconds = [], 0.0
    with log.open(encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[0] == _LAG:
                lag_seconds = max(lag_seconds, float(words[1]))
            elif len(words) == len(LoggedRequest._fields):
                seen.append(LoggedRequest(float(words[0]), float(words[1]), int(words[2]), words[3]))
    return sorted(seen), lag_seconds


class _NotingResponder(Responder):
    """The county, with a line for each request when it is over."""

    def __init__(self, switches: FaultSettings, log: IO[str]) -> None:
        super().__init__(switches)
        self._log = log
        self._opened: dict[SiteRequest, float] = {}

    def opened(self, request: SiteRequest) -> None:
        super().opened(request)
        self._opened[request] = time.monotonic()

    def finished(self, request: SiteRequest, status: str) -> None:
        super().finished(request, status)
        opened = self._opened.pop(request, None)
        if opened is not None:
            pid = parse_qs(request.query).get("worker", ["0"])[0]
            self._log.write(f"{opened:.6f} {time.monotonic():.6f} {pid} {status}\n")


class _NotingCounty(DemoCountyServer):
    def __init__(self, switches: FaultSettings, log: IO[str]) -> None:
        super().__init__(switches)
        self._responder = _NotingResponder(switches, log)


async def _county(log: Path, page_ms: float) -> None:
    with log.open("a", encoding="ascii", buffering=1) as lines:
        async with _NotingCounty(FaultSettings(latency_ms=page_ms, latency_jitter_ms=page_ms / 2), lines) as county:
            print(county.base_url, flush=True)
            worst, last = 0.0, time.monotonic()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                now = time.monotonic()
                if now - last - LOOK_SECONDS > worst:
                    worst = now - last - LOOK_SECONDS
                    lines.write(f"{_LAG} {worst:.6f}\n")
                last = now


async def _bucket(url: str, seed: int, rates: S3Rates, denied: Path) -> None:
    def read() -> dict[str, int]:
        if not denied.exists():
            return {}
        found: dict[str, int] = msgspec.json.decode(denied.read_bytes())
        return found

    async with S3Faults(url, seed, rates) as faults:
        faults.denied = read
        print(faults.url, flush=True)
        await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    """Serves until it is ended."""
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        match arguments:
            case ["county", log, page_ms]:
                runner.run(_county(Path(log), float(page_ms)))
            case ["bucket", url, seed, rates, denied]:
                runner.run(_bucket(url, int(seed), msgspec.json.decode(rates, type=S3Rates), Path(denied)))
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
