"""Run by a test as a process of its own: fetches addresses under a cap, one after the other, and says what it weighed.

Arguments: the cap in bytes, the file of the authority, addresses. Prints JSON: the kinds, and the memory in MiB, at
first and at the peak.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from tests.integration.hostile_site.meeting import read_all


def memory_mib(what: str) -> float:
    """`VmHWM`, the peak, or `VmRSS`; the peak that getrusage tells begins with that of the parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


async def fetch(cap_bytes: int, authority: Path, urls: list[str]) -> dict[str, str]:
    clock = SystemClock()
    guard = EgressGuard(SystemResolver(clock), clock, allow_private=[urlsplit(url).netloc for url in urls])
    transport = DirectTransport(guard, ResponseLimits(body_bytes=cap_bytes), authority)
    ended: dict[str, str] = {}
    for url in urls:
        name = urlsplit(url).path.strip("/")
        try:
            page = await WebSession(transport, Timeouts(connect_seconds=5, request_seconds=10), clock).get(url)
            read_all(page)
            ended[name] = "a page"
        except Failed as failed:
            ended[name] = failed.failure.kind
    await transport.close()
    return ended


def main() -> None:
    cap_bytes, authority, *urls = sys.argv[1:]
    before = memory_mib("VmRSS")
    ended = asyncio.run(fetch(int(cap_bytes), Path(authority), urls))
    sys.stdout.write(json.dumps({"ended": ended, "before_mib": before, "peak_mib": memory_mib("VmHWM")}))


if __name__ == "__main__":
    main()
