"""`swath serve`: runs the controller.

Opens the store, starts the API, the worker in this process or worker processes, and the echo that `example-http`
needs,
and stops all of them in order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import click
import msgspec

from swath.bootstrap.network import listening_ports, open_outbound
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, check_services, open_services, store_watch
from swath.bootstrap.workers import make_maintenance, make_worker
from swath.demo.county.http import Connection
from swath.demo.county.server import EchoSite
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.auth import NO_VALID_KEY, Authenticator, is_loopback
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.events import EventHub
from swath.entrypoints.api.server import ApiServer, bind_socket, url_of_socket
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.runtime import begin, exit_when_blocked, run_async, stop_on_signals
from swath.entrypoints.cli.worker import STOP_MARGIN_SECONDS, supervise_workers
from swath.fetch.http.client.demo_proof import DemoProof
from swath.settings import Settings, parse_host

__all__ = ["ServeWorkers", "serve", "serve_api", "serve_echo"]

_log = logging.getLogger("swath.api")


@asynccontextmanager
async def serve_echo(demo_url: str) -> AsyncIterator[bool]:
    """Whether it is served from here, while the context lasts."""
    parts = urlsplit(demo_url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme != "http" or port is None or not is_loopback(host):
        yield False
        return
    connections: set[Connection] = set()
    echo = EchoSite()
    try:
        server = await asyncio.get_running_loop().create_server(lambda: Connection(echo, connections), host, port)
    except OSError as error:
        if await DemoProof(host, port).holds():
            _log.info("the echo of the demo site is served by another process")
        else:
            told = "nobody serves the echo that example-http needs, at %s: %s; let SWATH_DEMO_URL name a free port"
            _log.warning(told, demo_url, error.strerror)
        yield False
        return
    try:
        yield True
    finally:
        server.close()
        for connection in tuple(connections):
            connection.abort()


LOOPBACK: Final = "127.0.0.1"


class ServeWorkers(NamedTuple):
    """How many workers come with the controller, and whether they have processes of their own."""

    workers: int = 1
    apart: bool = False

    @property
    def inside(self) -> bool:
        """Whether one works in this very process."""
        return self.workers > 0 and not self.apart


async def serve_api(settings: Settings, staff: ServeWorkers) -> ExitCode:
    """Serves until told to stop. Raises UserError for what keeps it from starting."""
    stop = asyncio.Event()
    notice = f"stopping; requests and items that run have {settings.grace_seconds:g} s to finish"
    stop_on_signals(stop, notice, settings.grace_seconds + STOP_MARGIN_SECONDS)
    async with open_services(settings) as opened:
        await check_services(opened)
        services = await _local_only_without_keys(opened)
        with bind_socket(services.settings.host, services.settings.port) as bound:
            await _serve(services, staff, bound, stop)
    return ExitCode.COMPLETE


async def _local_only_without_keys(services: Services) -> Services:
    """Without a living key nobody from elsewhere could be told apart from anybody, so none of them gets in (I5)."""
    settings, now = services.settings, services.clock.now()
    keys = await services.store.keys()
    if any(key.alive(now) for key in keys) or (not keys and is_loopback(settings.host) and not settings.allowed_hosts):
        return services
    told = NO_VALID_KEY
    if not keys and not is_loopback(settings.host):
        told = f"there is no service key, so only this machine is served, not {settings.host}"
    elif not keys:  # who is asked for under other names is asked through something that passes it on
        told = "SWATH_ALLOWED_HOSTS is set and there is no service key, so all that needs one is refused"
    click.echo(f"{told}; make one with `{command('keys', 'create', 'NAME')}`", err=True)
    if is_loopback(settings.host):
        return services
    return msgspec.structs.replace(services, settings=msgspec.structs.replace(settings, host=LOOPBACK))


async def _serve(services: Services, staff: ServeWorkers, bound: socket.socket, stop: asyncio.Event) -> None:
    settings, registry = services.settings, make_registry(services.settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(listening_ports(settings).listening(bound.getsockname()[1]))
        outside = await stack.enter_async_context(open_outbound(services))
        worker = None
        if staff.inside:
            made = make_worker(services, registry, outside=outside, on_standstill=exit_when_blocked)
            worker = await stack.enter_async_context(made)
        controller = Controller(
            services=services,
            registry=registry,
            doorkeeper=Authenticator(services.store, services.clock, settings.requests_per_minute),
            hub=EventHub(services.store, services.status, services.clock, services.with_trouble),
            outside=outside,
            worker=worker,
            started_at=services.clock.now(),
        )
        echoes = await stack.enter_async_context(serve_echo(settings.demo_url))
        per_address = settings.connections_per_address
        listener = ApiServer(make_app(controller), bound, settings.grace_seconds, per_address)
        await listener.start()
        if worker is not None and outside.browsers.expected:
            outside.browsers.check_again()
        _print_address(controller, staff, url_of_socket(bound), echoes=echoes)
        await _until_stopped(controller, staff, listener, stop)


async def _until_stopped(controller: Controller, staff: ServeWorkers, listener: ApiServer, stop: asyncio.Event) -> None:
    """Whoever breaks off, worker or API, takes the others with it, and its error is the command's."""
    services = [asyncio.create_task(work) for work in _background_services(controller, staff, stop)]
    serving = asyncio.create_task(listener.ended())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({*services, serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        controller.hub.end_streams()
        listener.stop()
        # Scrapes that are waited for are answered when their items end; after that nobody ends any more.
        await asyncio.wait(services)
        await controller.hub.close()
        await serving
    finally:
        stopped.cancel()
        for task in (*services, serving):
            task.cancel()
    for task in services:
        task.result()


def _background_services(
    controller: Controller, staff: ServeWorkers, stop: asyncio.Event
) -> list[Coroutine[Any, Any, None]]:
    """What is done beside the API until told to stop."""
    if controller.worker is not None:
        return [controller.worker.run(stop)]
    works = [make_maintenance(controller.services, controller.registry, controller.outside).run(stop)]
    if staff.workers:
        grace_seconds = controller.settings.grace_seconds
        check_store = store_watch(controller.settings)
        works.append(supervise_workers(staff.workers, stop, grace_seconds=grace_seconds, check_store=check_store))
    return works


def _print_address(controller: Controller, staff: ServeWorkers, url: str, *, echoes: bool) -> None:
    """Says where it listens, and how to ask it."""
    click.echo(f"Swath listens at {url}; ask it: curl -s {url}/health")
    if controller.worker is None and not staff.workers:
        click.echo(f"jobs wait for workers of the same store: `{command('worker')}`", err=True)
    if echoes:
        click.echo(f"the echo that example-http needs is at {controller.settings.demo_url}", err=True)


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen. Default: SWATH_HOST, 127.0.0.1.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", help="0 takes a free one. Default: SWATH_PORT, 8000."
)
@click.option(
    "--workers",
    type=click.IntRange(0, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="One works in this process, more in processes of their own, 0 leaves it to `swath worker`.",
)
@click.option("--processes", is_flag=True, help="Even one worker in a process of its own.")
@click.option("--no-worker", is_flag=True, help="The same as --workers 0.")
def serve(host: str | None, port: int | None, workers: int, processes: bool, no_worker: bool) -> int:
    """Serve the REST API, and work on the jobs that it takes.

    SIGTERM or SIGINT: takes no more requests, ends event streams, lets requests and items finish within the grace
    period, hands back the rest, exits 0. A second one leaves at once.
    """
    settings = begin(serves=True)
    given: dict[str, str | int] = {} if host is None else {"host": parse_host(host, "--host")}
    if port is not None:
        given["port"] = port

    workers = 0 if no_worker else workers
    staff = ServeWorkers(workers, apart=workers > 1 or (processes and workers > 0))
    return run_async(serve_api(msgspec.structs.replace(settings, **given), staff))
