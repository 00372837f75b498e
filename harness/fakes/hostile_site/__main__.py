"""`python -m harness.fakes.hostile_site`: serves the hostile site on loopback and lists where each behaviour is met.

`--table` prints the table of the docs page instead; `--ca` writes the authority's certificate, for clients to trust.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from harness.fakes.hostile_site.site import HostileSite
from harness.fakes.hostile_site.table import BEHAVIOURS, markdown

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serves until it is told to stop."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.fakes.hostile_site", description="A site that does it all wrong."
    )
    parser.add_argument("--port", type=int, default=0, help="of the plain door (default: a free one)")
    parser.add_argument("--ca", type=Path, help="write the certificate of the site's authority there")
    parser.add_argument("--table", action="store_true", help="print the table of behaviours as Markdown and leave")
    options = parser.parse_args(arguments)
    if options.table:
        print(markdown())
        return 0
    site = HostileSite()
    if options.ca is not None:
        options.ca.write_bytes(site.ca_pem)
    asyncio.run(_serve(site, options.port))
    return 0


async def _serve(site: HostileSite, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await site.start(port)
    try:
        for one in BEHAVIOURS.values():
            ends = ", ".join(one.kinds) or "a page"
            print(f"{site.address(one)}  {one.does}; ends as {ends}", flush=True)
        await stopped.wait()
    finally:
        await site.stop()


if __name__ == "__main__":
    raise SystemExit(main())
