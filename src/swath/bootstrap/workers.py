"""Builds workers and the services that run beside them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from swath.bootstrap.network import OutboundAccess, open_outbound
from swath.bootstrap.services import Services, check_results
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.versions.lifecycle import VersionEnd
from swath.pipeline.worker.maintenance import MaintenanceRunner
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.sweeper import Sweeper
from swath.pipeline.worker.worker import Worker
from swath.sdk.registry import Registry
from swath.settings import DynamoLocation, Settings

__all__ = ["make_finisher", "make_maintenance", "make_remover", "make_worker"]

_log = logging.getLogger("swath")


@asynccontextmanager
async def make_worker(
    services: Services,
    registry: Registry,
    job_id: str | None = None,
    *,
    outside: OutboundAccess | None = None,
    on_standstill: Callable[[], None] = lambda: None,
) -> AsyncIterator[Worker]:
    """A worker of this process; for one job only if `job_id` is given. It has ways out of its own unless some are
    given, whose worker id it then takes."""
    if (doubt := services.settings.places.doubt) is not None:
        _log.warning("%s", doubt)
    await check_results(services)
    async with AsyncExitStack() as stack:
        if outside is None:
            outside = await stack.enter_async_context(open_outbound(services))
        options = _worker_options(services.settings, outside.worker_id, job_id)
        yield Worker(_parts(services, registry, outside, job_id), options, on_standstill)


def make_maintenance(services: Services, registry: Registry, outside: OutboundAccess) -> MaintenanceRunner:
    """Keeps house where no worker does."""
    options = _worker_options(services.settings, outside.worker_id, None)
    return MaintenanceRunner(_parts(services, registry, outside, None), options)


def _parts(services: Services, registry: Registry, outside: OutboundAccess, job_id: str | None) -> WorkerParts:
    worker_id, leader = outside.worker_id, services.leader
    return WorkerParts(
        book=services.store,
        queue=services.queue,
        storage=services.storage,
        sites=services.sites,
        clock=services.clock,
        registry=registry,
        network=outside.network,
        finisher=make_finisher(services, worker_id, job_id),
        remover=make_remover(services, worker_id, job_id),
        sweeper=None if leader is None else Sweeper(services.store, services.queue, leader(worker_id), services.clock),
        # Who works for one job only sends its webhook at the end (entrypoints/cli/first_try.py).
        courier=outside.courier if job_id is None else None,
        browsers=outside.browsers,
    )


def _worker_options(settings: Settings, worker_id: str, job_id: str | None) -> WorkerOptions:
    """A store that is asked over a network, and for money, is asked less often."""
    options = WorkerOptions(
        worker_id=worker_id,
        job_id=job_id,
        max_items=settings.max_items,
        grace_seconds=settings.grace_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        report_seconds=min(1.0, settings.lease_seconds / 3),
        standstill_seconds=settings.standstill_seconds,
    )
    if not isinstance(settings.places.store, DynamoLocation):
        return options
    return msgspec.structs.replace(
        options,
        report_seconds=min(3.0, settings.lease_seconds / 3),
        group_seconds=0.5,
        busy_seconds=1.0,
        housekeeping_seconds=min(2.0, settings.lease_seconds / 3),
        spare_seconds=settings.lease_seconds / 2,
    )


def make_finisher(services: Services, worker_id: str, job_id: str | None = None) -> Finisher:
    """Ends jobs that are done; none but `job_id` if that is given."""
    return Finisher(
        services.store,
        services.store,
        services.storage,
        services.clock,
        worker_id,
        job_id=job_id,
        webhook_url=services.settings.webhook_url,
        on_version=VersionEnd(services.store, services.storage),
    )


def make_remover(services: Services, worker_id: str, job_id: str | None = None) -> Remover:
    """Deletes jobs that are marked or too old; none but `job_id` if that is given."""
    return Remover(services.store, services.storage, services.clock, worker_id, job_id=job_id)
