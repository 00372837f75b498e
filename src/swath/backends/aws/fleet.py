"""Fleet: everything that one process needs of a store on AWS, joined and opened, and closed in the right order.

bootstrap opens one when the settings name a table. Results are apart (results.py): they may be in a folder.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.aws.calls.bridge import Bridge
from swath.backends.aws.calls.client import ATTEMPT_SECONDS, PATIENCE_SECONDS, AwsClients
from swath.backends.aws.calls.meter import Meter
from swath.backends.aws.calls.store_time import StoreTime
from swath.backends.aws.calls.time import SharedTime
from swath.backends.aws.jobs.leader import DynamoLeader
from swath.backends.aws.jobs.store import AwsStore
from swath.backends.aws.queue.queue import SqsQueue
from swath.backends.aws.sites.site_book import AwsSiteBook
from swath.backends.aws.table.table import Table
from swath.ports.clock import Clock

__all__ = ["Fleet", "Names", "open_fleet"]

QUEUE_PATIENCE_SECONDS: Final = 3.0  # a worker that hears nothing asks the table instead

_log = logging.getLogger("swath.aws")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet shares. Without a region that of the AWS environment counts."""

    table: str
    queue: str
    table_region: str | None = None
    queue_region: str | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """One process of it. `leader` makes a candidate of a worker; `meters` count what was asked of AWS."""

    store: AwsStore
    queue: SqsQueue
    sites: AwsSiteBook
    leader: Callable[[str], DynamoLeader]
    meters: tuple[Meter, ...]


@asynccontextmanager
async def open_fleet(
    names: Names, data: Path, clock: Clock, lease_seconds: float, patience_seconds: float = PATIENCE_SECONDS
) -> AsyncIterator[Fleet]:
    """Asks nothing of AWS yet. `data` is a folder of this host. Raises UserError when that cannot be used."""
    async with AsyncExitStack() as stack:
        bridge = Bridge()
        stack.callback(bridge.close)
        attempt_seconds = min(ATTEMPT_SECONDS, patience_seconds)
        store_time = StoreTime(clock)
        clients = AwsClients(
            names.table_region, attempt_seconds=attempt_seconds, patience_seconds=patience_seconds, time=store_time
        )
        waiting = AwsClients(names.queue_region, patience_seconds=QUEUE_PATIENCE_SECONDS)
        for one in (clients, waiting):
            stack.push_async_callback(bridge.run, one.close)
        store = AwsStore.open(bridge, clients, names.table, data, clock, lease_seconds)
        stack.push_async_callback(store.close)
        queue = SqsQueue(bridge, waiting, names.queue, lease_seconds)
        stack.push_async_callback(queue.close)
        table, time = Table(clients, names.table), SharedTime(clock)
        sites = AwsSiteBook(bridge, table, clock, store_time)
        stack.push_async_callback(sites.close)
        meters = (clients.meter, waiting.meter)
        yield Fleet(
            store=store,
            queue=queue,
            sites=sites,
            leader=lambda worker_id: DynamoLeader(bridge, table, time, worker_id, lease_seconds),
            meters=meters,
        )
        for meter in meters:
            _log.info("asked of AWS: %s", msgspec.json.encode(meter).decode())
