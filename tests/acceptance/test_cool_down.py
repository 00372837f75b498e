"""P2: a job whose proxies cool down says so, and a look at robots.txt before it uses up none of their turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.acceptance.conftest import Shell
from tests.support.bounds import HANGING_SECONDS

SCRAPER = """
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("proxied", version="1")
class Proxied(HttpScraper):
    Input = In
    base_url = "http://127.0.0.1:9"

    def start_url(self, item):
        return f"{self.base_url}/{item.n}"

    async def fetch(self, item, web):
        return await web.get(self.start_url(item))
"""


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that answers by itself, whatever it is asked for; with its place, and what it was asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
                status = b"404 Not Found" if asked[-1].endswith("/robots.txt") else b"200 OK"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\nok" % status)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.req("P2", "J7")
async def test_a_job_that_waits_for_its_proxies_says_so(shell: Shell) -> None:
    async with proxy() as (place, asked):
        shell.environment |= {
            "SWATH_PROXY_CUSTOM_URLS": f"http://{place}",
            "SWATH_PROXY_COOLDOWN_SECONDS": "600",
            "SWATH_ALLOW_PRIVATE": f"{place} 127.0.0.1:9",
        }
        shell.write("proxied.py", SCRAPER)
        shell.write("items.csv", "n\n1\n2\n")
        shell.write("policy.json", json.dumps({"proxy": {"type": "custom"}}))
        order = ("run", "./proxied.py", "--items", "items.csv", "--job-id", "j", "--policy", "policy.json", "--quiet")
        process = await shell.start(*order)
        status: dict[str, Any] = {}
        async with asyncio.timeout(HANGING_SECONDS):
            while status.get("waiting_for") != "proxy":
                await asyncio.sleep(0.2)
                status = json.loads((await shell.run("jobs", "status", "j", "--json"))[1] or "{}")
        assert status["counts"]["success"] == 1, "the look at robots.txt has not used up the proxy's turn"
        assert status["waiting_reason"] == "all custom proxies have met it just now"
        (site,) = status["sites"]
        assert site["why"] == status["waiting_reason"]
        assert 300 < site["waits_seconds"] <= 600
        text = (await shell.run("jobs", "status", "j"))[1]
        assert "waiting for the proxy: all custom proxies have met it just now" in text
        process.terminate()
        await asyncio.wait_for(process.communicate(), HANGING_SECONDS)
    assert [url for url in asked if "robots" not in url] == ["http://127.0.0.1:9/1"]
