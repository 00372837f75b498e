"""Secrets are planted wherever the operator may put them; then everything that the product left behind is searched."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone
from swath.demo.county import DemoCountyServer
from tests.acceptance.conftest import Shell

PASSWORD, WRONG, LISTED = "canary:P@ss/1 w", "canary-wrong-2", "canary-listed-3"
PRODUCTS = ("datacenter", "residential", "web_unlocker")


def spellings(secret: str, user: str = "") -> Iterator[bytes]:
    """As it may turn up: as it is, quoted for an address or for JSON, and in base64 with and without its user."""
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    yield base64.b64encode(secret.encode()).rstrip(b"=")
    yield base64.b64encode(f"{user}:{secret}".encode()).rstrip(b"=")[8:]


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield str(path), gzip.decompress(data) if path.suffix == ".gz" else data


async def command_lines() -> bytes:
    """Of all processes there are: none of ours may show a secret to its neighbours."""
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.long
@pytest.mark.req("Z7", "P1", "P4", "property 39")
@pytest.mark.timeout(300)  # many commands one after the other; 40 s on a quiet machine
async def test_planted_secrets_turn_up_nowhere(shell: Shell, county: DemoCountyServer) -> None:
    host = county.base_url.removeprefix("http://")
    zones = {product: FakeZone(product, PASSWORD) for product in PRODUCTS}
    async with FakeBrightData("customer1", zones, {host: int(host.rpartition(":")[2])}) as provider:
        proxy = f"127.0.0.1:{provider.port}"
        shell.environment |= {
            "SWATH_PROXY_URL": provider.url,
            "SWATH_PROXY_CUSTOMER": "customer1",
            "SWATH_PROXY_DATACENTER_ZONE": "datacenter",
            "SWATH_PROXY_DATACENTER_PASSWORD": PASSWORD,
            "SWATH_PROXY_RESIDENTIAL_ZONE": "residential",
            "SWATH_PROXY_RESIDENTIAL_PASSWORD": WRONG,
            "SWATH_PROXY_CUSTOM_URLS": f"http://someone:{LISTED}@{proxy}",
            "SWATH_PROXY_COOLDOWN_SECONDS": "2",
            "SWATH_ALLOW_PRIVATE": proxy,
            "SWATH_LOG_LEVEL": "debug",
        }
        told = [await command_lines()]
        shell.write("items.csv", "n\n1\n2\n3\n")
        for tier, code in (("datacenter", 0), ("residential", 4), ("custom", 4)):
            policy = shell.write(
                f"{tier}.json", json.dumps({"proxy": {"type": tier}, "retries": {"max_infrastructure_retries": 0}})
            )
            process = await shell.start(
                "run", "example-http", "--items", "items.csv", "--job-id", tier, "--policy", str(policy)
            )
            told.append(await command_lines())
            out, err = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == code, (tier, err.decode())
            told += [out, err]
        county.switches = replace(county.switches, failure_rate=1.0)
        for arguments in (
            ("config", "show"),
            ("config", "show", "--json"),
            ("doctor",),
            ("doctor", "--json"),
            ("jobs", "item", "residential", "1"),
            ("jobs", "item", "datacenter", "1", "--json"),
            ("jobs", "status", "custom", "--json"),
            ("jobs", "verify", "datacenter"),
        ):
            _, out_text, err_text = await shell.run(*arguments)
            told += [out_text.encode(), err_text.encode()]
    assert provider.seen, "the way out was taken"
    places = [*((f"output {number}", text) for number, text in enumerate(told)), *contents(shell.folder / "data")]
    assert any(name.endswith("swath.db") for name, _ in places)
    users = {PASSWORD: "brd-customer-customer1-zone-datacenter", WRONG: "x", LISTED: "someone"}
    for secret, user in users.items():
        for spelling in spellings(secret, user):
            assert [name for name, text in places if spelling in text] == [], spelling


@pytest.mark.req("Z7", "property 39")
async def test_the_search_itself_would_find_them(shell: Shell) -> None:
    shell.write(
        "leak.txt", f"x http://u:{quote(PASSWORD, safe='')}@h {base64.b64encode(f'u:{PASSWORD}'.encode()).decode()}"
    )
    found = [
        spelling for spelling in spellings(PASSWORD, "u") for _, text in contents(shell.folder) if spelling in text
    ]
    assert len(found) == 2
