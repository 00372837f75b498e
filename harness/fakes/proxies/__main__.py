"""`python -m harness.fakes.proxies`: serves the fake provider on loopback, before the sites of this machine."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone

__all__ = ["main"]

CUSTOMER, PASSWORD = "demo", "not-a-secret"
PRODUCTS = ("datacenter", "residential", "web_unlocker")


class _ThisMachine(dict[str, int]):
    """`host:port` → port, for every address on loopback."""

    def __missing__(self, authority: str) -> int:
        host, _, port = authority.rpartition(":")
        if host != "127.0.0.1":
            raise KeyError(authority)
        return int(port)

    def __contains__(self, authority: object) -> bool:
        return str(authority).startswith("127.0.0.1:")


async def _serve(port: int, ca_file: Path) -> None:
    zones = {product: FakeZone(product, PASSWORD) for product in PRODUCTS}
    provider = FakeBrightData(CUSTOMER, zones, _ThisMachine())
    provider.port = port
    async with provider:
        provider.authority.write(ca_file)
        settings = {"url": provider.url, "customer": CUSTOMER, "ca_file": str(ca_file)}
        for product in PRODUCTS:
            settings |= {f"{product}_zone": product, f"{product}_password": PASSWORD}
        lines = [f"proxy_{name} = {json.dumps(value)}" for name, value in settings.items()]
        sys.stdout.write("\n".join([f'allow_private = ["127.0.0.1:{provider.port}"]', *lines]) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Prints the settings that lead to it, as a settings file, then serves until it is stopped."""
    parser = argparse.ArgumentParser(prog="python -m harness.fakes.proxies", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="by default one that is free")
    parser.add_argument("--ca-file", type=Path, default=Path("fake-provider.pem"), help="its certificate is put there")
    given = parser.parse_args()
    try:
        asyncio.run(_serve(given.port, given.ca_file))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
