"""W5, O2: the port of a worker, for Prometheus and for whoever restarts containers."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from swath.domain.errors import UserError
from swath.entrypoints.cli import worker
from swath.entrypoints.cli.worker import MetricsAddress, serve_metrics
from swath.observability.counters import FIGURES
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("W5", "O2")


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    found = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return found


async def test_it_tells_the_figures_and_that_it_lives() -> None:
    FIGURES.item_ended("success")
    async with serve_metrics(MetricsAddress(port=0)) as port:
        assert port is not None
        head, _, body = (await ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert b'swath_items_total{kind="none",state="success"}' in body
        assert (await ask(port, b"GET /live HTTP/1.1\r\n\r\n")).endswith(b"alive\n")
        assert b" 404 " in await ask(port, b"GET /other HTTP/1.1\r\n\r\n")
        assert b" 405 " in await ask(port, b"POST /live HTTP/1.1\r\n\r\n")
        head, _, body = (await ask(port, b"HEAD /live HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
        assert (b"Content-Length: 6" in head, body) == (True, b"")


@pytest.mark.parametrize(
    "nonsense", [b"\r\n\r\n", b"\x00" * 5_000 + b"\r\n", b"GET\r\n\r\n", b"GET / x\r\n" + b"a: b\r\n" * 500]
)
async def test_nonsense_costs_the_connection_and_nothing_else(nonsense: bytes) -> None:
    async with serve_metrics(MetricsAddress(port=0)) as port:
        assert port is not None
        assert await ask(port, nonsense) == b""
        assert (await ask(port, b"GET /live HTTP/1.1\r\n\r\n")).endswith(b"alive\n")


@pytest.mark.req("I5")
async def test_half_requests_neither_keep_a_probe_out_nor_take_the_workers_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "REQUEST_SECONDS", 600.0)
    async with serve_metrics(MetricsAddress(port=0)) as port:
        assert port is not None
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(worker.MOST_AT_ONCE * 2)]
        for _, writer in held:
            writer.write(b"GET /live HTTP/1.1\r\n")
        assert (await ask(port, b"GET /live HTTP/1.1\r\n\r\n")).endswith(b"alive\n")
        for reader, _ in held[: worker.MOST_AT_ONCE]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), HANGING_SECONDS) == b""
        held[-1][1].write(b"\r\n")
        assert (await asyncio.wait_for(held[-1][0].read(), HANGING_SECONDS)).endswith(b"alive\n")
        for _, writer in held:
            writer.close()


async def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serve_metrics(MetricsAddress(port=port)):
                pass


async def test_without_a_port_there_is_nothing() -> None:
    async with serve_metrics(MetricsAddress()) as port:
        assert port is None
