"""The fake provider serves browsers too, which ask for a connection that stays."""

import asyncio
import base64

import pytest

from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone

LOGIN = base64.b64encode(b"brd-customer-demo-zone-dc:word").decode()


@pytest.mark.req("P1")
async def test_a_site_that_keeps_connections_is_told_to_close_it() -> None:
    heads: list[str] = []

    async def site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if "connection: keep-alive" not in heads[-1]:
            writer.close()

    server = await asyncio.start_server(site, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    zones = {"dc": FakeZone("datacenter", "word")}
    async with server, FakeBrightData("demo", zones, {"site.example:80": port}) as provider, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
        head = "GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\nConnection: keep-alive\r\n"
        writer.write(f"{head}Proxy-Authorization: Basic {LOGIN}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert heads[0].count("connection:") == 1
