"""`make bench-sync`: what `POST /api/v1/scrape/sync` costs beside the fetch itself, with the worker inside the server.

Runs a real `swath serve` over an echo on this machine, times scrapes one after the other, the same request sent bare,
and an fsync on the same disk, in turns. DESIGN 8: no more than three commits are waited for, and no more than 15 ms
beside their fsync time. It is a measurement, and nothing depends on its time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from swath.demo.county import DemoCountyServer

__all__ = ["SyncCost", "main", "measure"]

COMMAND: Final = (sys.executable, "-m", "swath.entrypoints.cli.main")
COMMITS: Final = (
    3  # ordered, claimed, ended: an answer waits for these, as tests/integration/api/test_quick_way.py shows
)
AIM_MS: Final = 15.0
START_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 2.0  # for jobs to be wound up after the last answer
_WAL_HEAD: Final = 32
_FRAME_HEAD: Final = 24


class SyncCost(msgspec.Struct, frozen=True, kw_only=True):
    """Medians in milliseconds. `commits` are all of one scrape, those too that follow the answer."""

    scrapes: int
    sync_ms: float
    sync_p95_ms: float
    least_ms: float
    fetch_ms: float
    fsync_ms: float
    commits: float

    @property
    def overhead_ms(self) -> float:
        """Over the bare fetch."""
        return self.sync_ms - self.fetch_ms

    @property
    def own_ms(self) -> float:
        """Beside the fsync time of the commits that were waited for."""
        return self.overhead_ms - COMMITS * self.fsync_ms

    def __str__(self) -> str:
        return (
            f"{self.scrapes} scrapes: {self.sync_ms:.1f} ms median, {self.sync_p95_ms:.1f} ms p95, "
            f"{self.least_ms:.1f} ms at best; bare fetch {self.fetch_ms:.1f} ms, fsync {self.fsync_ms:.2f} ms; "
            f"overhead {self.overhead_ms:.1f} ms, {self.own_ms:.1f} ms beside {COMMITS} fsyncs (aim {AIM_MS:g}); "
            f"{self.commits:.1f} commits each, winding up included"
        )


def main() -> None:
    """Prints one line; exits with 1 when the aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.sync_scrape")
    parser.add_argument("--scrapes", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two, in which the last is wound up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost = asyncio.run(measure(Path(folder), options.scrapes, options.pause))
    print(cost, flush=True)
    sys.exit(cost.own_ms > AIM_MS)


async def measure(folder: Path, scrapes: int, pause_seconds: float = 0.0) -> SyncCost:
    """One scrape after the other; the site and the client are in this process, the controller in another."""
    async with DemoCountyServer() as county, _controller(folder, county.base_url) as url:
        api, site = await _Client.open(url), await _Client.open(county.base_url)
        body = {"target_type": "example-http", "target_url": "https://example.com/"}
        sync, fetch, fsync = [], [], []
        for _ in range(5):  # what is done once: the scraper is loaded, robots.txt is fetched
            await api.post("/api/v1/scrape/sync", body)
        await asyncio.sleep(SETTLE_SECONDS)
        log = _WriteAheadLog(folder / "data")
        before = log.commits()
        for _ in range(scrapes):
            sync.append(await api.post("/api/v1/scrape/sync", body))
            fetch.append(await site.post("/echo", {"url": "https://example.com/"}))
            fsync.append(_fsync_ms(folder))
            log.commits()
            await asyncio.sleep(pause_seconds)
        await asyncio.sleep(SETTLE_SECONDS)
        commits = log.commits() - before
        api.close()
        site.close()
    return SyncCost(
        scrapes=scrapes,
        sync_ms=statistics.median(sync),
        sync_p95_ms=statistics.quantiles(sync, n=20)[-1],
        least_ms=min(sync),
        fetch_ms=statistics.median(fetch),
        fsync_ms=statistics.median(fsync),
        commits=commits / scrapes,
    )


@asynccontextmanager
async def _controller(folder: Path, demo_url: str) -> AsyncIterator[str]:
    """`swath serve` on a free port; its address, read from what it says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    environment = {
        **kept,
        "SWATH_DATA": str(folder / "data"),
        "SWATH_DEMO_URL": demo_url,
        "SWATH_REQUESTS_PER_MINUTE": "1000000",
    }
    pipe = asyncio.subprocess.PIPE
    serving = await asyncio.create_subprocess_exec(
        *COMMAND, "serve", "--port", "0", env=environment, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            address = await _address(serving)
        yield address
    finally:
        if serving.returncode is None:
            serving.terminate()
        await serving.wait()


async def _address(serving: asyncio.subprocess.Process) -> str:
    if serving.stdout is None:
        raise RuntimeError("there is nothing to read")
    said = b""
    while line := await serving.stdout.readline():
        said += line
        found = re.search(rb"http://[0-9.]+:[0-9]+", line)
        if found:
            return found[0].decode()
    raise SystemExit(f"swath serve has ended:\n{said.decode()}")


class _Client:
    """One connection that is kept, with as little around a request as can be."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> _Client:
        """To a server on this machine."""
        host = url.removeprefix("http://")
        name, _, port = host.partition(":")
        return cls(host, *await asyncio.open_connection(name, int(port)))

    async def post(self, path: str, body: Mapping[str, Any]) -> float:
        """Milliseconds from the first byte out to the last byte in. Raises SystemExit if it does not succeed."""
        raw = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        begun = time.perf_counter()
        self._writer.write(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: *([0-9]+)", answer, re.IGNORECASE)
        content = await self._reader.readexactly(int(length[1]) if length else 0)
        lasted = time.perf_counter() - begun
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise SystemExit(f"{path}: {answer.decode()}{content.decode()}")
        return lasted * 1_000

    def close(self) -> None:
        """Lets go of the connection."""
        self._writer.close()


def _fsync_ms(folder: Path) -> float:
    """As a commit does it: two pages at the end of a file."""
    with (folder / "fsync").open("ab", buffering=0) as file:
        begun = time.perf_counter()
        file.write(bytes(8_192))
        os.fdatasync(file.fileno())
        return (time.perf_counter() - begun) * 1_000


class _WriteAheadLog:
    """Counts commits by SQLite's log, whoever made them: the last frame of each says how large the file is then."""

    def __init__(self, folder: Path) -> None:
        self._path = next(folder.rglob("swath.db-wal"))
        self._counted: dict[bytes, int] = {}

    def commits(self) -> int:
        """So far. The log begins anew from time to time; what was overwritten between two calls is missing."""
        raw = self._path.read_bytes()
        (page_size,) = struct.unpack_from(">I", raw, 8)
        salts, commits = raw[16:24], 0
        for at in range(_WAL_HEAD, len(raw) - _FRAME_HEAD, _FRAME_HEAD + page_size):
            if raw[at + 8 : at + 16] != salts:
                break
            commits += struct.unpack_from(">I", raw, at + 4)[0] > 0
        self._counted[salts] = max(commits, self._counted.get(salts, 0))
        return sum(self._counted.values())


if __name__ == "__main__":
    main()
