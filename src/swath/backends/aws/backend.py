"""Opens everything that one process needs of a store on AWS, and closes it in the right order.

Results are opened apart: they may be in a folder.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.aws.client.client import ATTEMPT_SECONDS, PATIENCE_SECONDS, AwsClients
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.metering import Meter
from swath.backends.aws.client.shared_clock import ServerClock, SharedClock
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.sites.site_state import AwsSiteState
from swath.backends.aws.sqs import SqsQueue
from swath.backends.aws.store.leader_election import DynamoLeader
from swath.backends.aws.store.store import AwsStore
from swath.ports.clock import Clock

__all__ = ["AwsBackend", "AwsNames", "open_aws_backend"]

QUEUE_PATIENCE_SECONDS: Final = 3.0  # a worker that hears nothing asks the table instead

_log = logging.getLogger("swath.aws")


class AwsNames(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet shares. Without a region that of the AWS environment counts."""

    table: str
    queue: str
    table_region: str | None = None
    queue_region: str | None = None


class AwsBackend(msgspec.Struct, frozen=True, kw_only=True):
    """One process of it. `leader` makes a candidate of a worker; `meters` count what was asked of AWS."""

    store: AwsStore
    queue: SqsQueue
    sites: AwsSiteState
    leader: Callable[[str], DynamoLeader]
    meters: tuple[Meter, ...]


@asynccontextmanager
async def open_aws_backend(
    names: AwsNames, data: Path, clock: Clock, lease_seconds: float, patience_seconds: float = PATIENCE_SECONDS
) -> AsyncIterator[AwsBackend]:
    """Asks nothing of AWS yet. `data` is a folder of this host. Raises UserError when that cannot be used."""
    async with AsyncExitStack() as stack:
        bridge = EventLoopThread()
        stack.callback(bridge.close)
        attempt_seconds = min(ATTEMPT_SECONDS, patience_seconds)
        store_time = ServerClock(clock)
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
        table, time = Table(clients, names.table), SharedClock(clock)
        sites = AwsSiteState(bridge, table, clock, store_time)
        stack.push_async_callback(sites.close)
        meters = (clients.meter, waiting.meter)
        yield AwsBackend(
            store=store,
            queue=queue,
            sites=sites,
            leader=lambda worker_id: DynamoLeader(bridge, table, time, worker_id, lease_seconds),
            meters=meters,
        )
        for meter in meters:
            _log.info("asked of AWS: %s", msgspec.json.encode(meter).decode())
