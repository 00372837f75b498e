"""The controller as a running process: opens everything in order, serves, and lets it all go in good order.

Before: `swath serve` has read the settings. It joins the API (app.py), who waits for what (hub.py), the echo, and the
worker of the same process, or the keeper that does for a store what needs no worker.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

import click
import msgspec

from swath.bootstrap.network import listening_ports, open_outside
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, check_services, open_services, store_watch
from swath.bootstrap.workers import make_keeper, make_worker
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.doorkeeper import NONE_ALIVE, Doorkeeper, is_loopback
from swath.entrypoints.api.echo import serving_echo
from swath.entrypoints.api.hub import Hub
from swath.entrypoints.api.listen import Listener, bind, url_of
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.processes import LATE_SECONDS, keep_workers
from swath.entrypoints.cli.session import leave_at_a_standstill, stop_on_signals
from swath.settings import Settings

__all__ = ["Staff", "serve_api"]

LOOPBACK: Final = "127.0.0.1"


class Staff(NamedTuple):
    """How many workers come with the controller, and whether they have processes of their own."""

    workers: int = 1
    apart: bool = False

    @property
    def inside(self) -> bool:
        """Whether one works in this very process."""
        return self.workers > 0 and not self.apart


async def serve_api(settings: Settings, staff: Staff) -> ExitCode:
    """Serves until told to stop. Raises UserError for what keeps it from starting."""
    stop = asyncio.Event()
    notice = f"stopping; requests and items that run have {settings.grace_seconds:g} s to finish"
    stop_on_signals(stop, notice, settings.grace_seconds + LATE_SECONDS)
    async with open_services(settings) as opened:
        await check_services(opened)
        services = await _reachable(opened)
        with bind(services.settings.host, services.settings.port) as bound:
            await _serve(services, staff, bound, stop)
    return ExitCode.COMPLETE


async def _reachable(services: Services) -> Services:
    """Without a living key nobody from elsewhere could be told apart from anybody, so none of them gets in (I5)."""
    settings, now = services.settings, services.clock.now()
    keys = await services.store.keys()
    if any(key.alive(now) for key in keys) or (not keys and is_loopback(settings.host) and not settings.allowed_hosts):
        return services
    told = NONE_ALIVE
    if not keys and not is_loopback(settings.host):
        told = f"there is no service key, so only this machine is served, not {settings.host}"
    elif not keys:  # who is asked for under other names is asked through something that passes it on
        told = "SWATH_ALLOWED_HOSTS is set and there is no service key, so all that needs one is refused"
    click.echo(f"{told}; make one with `{command('keys', 'create', 'NAME')}`", err=True)
    if is_loopback(settings.host):
        return services
    return msgspec.structs.replace(services, settings=msgspec.structs.replace(settings, host=LOOPBACK))


async def _serve(services: Services, staff: Staff, bound: socket.socket, stop: asyncio.Event) -> None:
    settings, registry = services.settings, make_registry(services.settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(listening_ports(settings).listening(bound.getsockname()[1]))
        outside = await stack.enter_async_context(open_outside(services))
        worker = None
        if staff.inside:
            made = make_worker(services, registry, outside=outside, on_standstill=leave_at_a_standstill)
            worker = await stack.enter_async_context(made)
        controller = Controller(
            services=services,
            registry=registry,
            doorkeeper=Doorkeeper(services.store, services.clock, settings.requests_per_minute),
            hub=Hub(services.store, services.status, services.clock, services.with_trouble),
            outside=outside,
            worker=worker,
            started_at=services.clock.now(),
        )
        echoes = await stack.enter_async_context(serving_echo(settings.demo_url))
        per_address = settings.connections_per_address
        listener = Listener(make_app(controller), bound, settings.grace_seconds, per_address)
        await listener.start()
        if worker is not None and outside.browsers.expected:
            outside.browsers.check_again()
        _tell(controller, staff, url_of(bound), echoes=echoes)
        await _until_stopped(controller, staff, listener, stop)


async def _until_stopped(controller: Controller, staff: Staff, listener: Listener, stop: asyncio.Event) -> None:
    """Whoever breaks off, worker or API, takes the others with it, and its error is the command's."""
    services = [asyncio.create_task(work) for work in _works(controller, staff, stop)]
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


def _works(controller: Controller, staff: Staff, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
    """What is done beside the API until told to stop."""
    if controller.worker is not None:
        return [controller.worker.run(stop)]
    works = [make_keeper(controller.services, controller.registry, controller.outside).run(stop)]
    if staff.workers:
        grace_seconds = controller.settings.grace_seconds
        check_store = store_watch(controller.settings)
        works.append(keep_workers(staff.workers, stop, grace_seconds=grace_seconds, check_store=check_store))
    return works


def _tell(controller: Controller, staff: Staff, url: str, *, echoes: bool) -> None:
    """Says where it listens, and how to ask it."""
    click.echo(f"Swath listens at {url}; ask it: curl -s {url}/health")
    if controller.worker is None and not staff.workers:
        click.echo(f"jobs wait for workers of the same store: `{command('worker')}`", err=True)
    if echoes:
        click.echo(f"the echo that example-http needs is at {controller.settings.demo_url}", err=True)
