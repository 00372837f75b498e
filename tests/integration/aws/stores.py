"""Stores on one table of DynamoDB Local, each with connections of its own, as processes have them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from swath.backends.aws.client.client import AwsClients, Intercept
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.metering import Meter
from swath.backends.aws.dynamo.table import FORMAT_KEY
from swath.backends.aws.provisioning import make_table
from swath.backends.aws.store.store import AwsStore
from swath.ports.clock import Clock
from tests.contract.suites import Kill


class Line:
    """A bridge and the connections that many tests share, because to make them takes longer than most tests."""

    def __init__(self) -> None:
        self.bridge = EventLoopThread()
        self.clients = AwsClients(attempt_seconds=20.0, patience_seconds=60.0)  # of a busy machine

    def close(self) -> None:
        asyncio.run(self.bridge.run(self.clients.close))
        self.bridge.close()


class Stores:
    """One table and whoever uses it. Folders are hosts: stores of one folder see each other's lock files."""

    def __init__(self, line: Line, name: str) -> None:
        self.name = name
        self.bridge = line.bridge
        self._shared = line.clients
        self._clients: dict[AwsStore, AwsClients] = {}
        self._opened: list[AwsStore] = []

    async def make(self) -> None:
        """The table, empty."""
        await self.bridge.run(lambda: make_table(self._shared, self.name))

    def open(
        self,
        folder: Path,
        clock: Clock,
        *,
        lease_seconds: float = 15.0,
        look_seconds: float = 0.0,
        intercept: Intercept | None = None,
        patience_seconds: float = 5.0,
    ) -> AwsStore:
        """A store as another process would have it, closed at the end; impatient only with an `intercept`."""
        clients = self._shared
        if intercept is not None:
            clients = AwsClients(attempt_seconds=20.0, patience_seconds=patience_seconds, intercept=intercept)
        store = AwsStore.open(self.bridge, clients, self.name, folder, clock, lease_seconds, look_seconds=look_seconds)
        self._opened.append(store)
        self._clients[store] = clients
        return store

    def meter(self, store: AwsStore) -> Meter:
        """What a store has asked of the table so far, and others on the same connections."""
        return self._clients[store].meter

    async def keys(self) -> set[tuple[str, str]]:
        """Where there are rows now, but for the one with the format of the table."""
        clients, found = self._shared, set[tuple[str, str]]()

        async def scan() -> None:
            asked: dict[str, Any] = {"TableName": self.name}
            while True:
                page = await clients.call("dynamodb", "scan", **asked)
                found.update((item["p"]["S"], item["s"]["S"]) for item in page["Items"])
                found.discard(FORMAT_KEY)
                if "LastEvaluatedKey" not in page:
                    return
                asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

        await self.bridge.run(scan)
        return found

    async def close(self) -> None:
        """Also drops the table."""
        for store in self._opened:
            await store.close()
        for clients in self._clients.values():
            if clients is not self._shared:
                await self.bridge.run(clients.close)
        await self.bridge.run(lambda: self._shared.call("dynamodb", "delete_table", TableName=self.name))


@asynccontextmanager
async def stores_on(line: Line, name: str) -> AsyncIterator[Stores]:
    """A table of that name, for as long as it is needed."""
    stores = Stores(line, name)
    await stores.make()
    try:
        yield stores
    finally:
        await stores.close()


def killer(store: AwsStore) -> Kill:
    """Lets go of a worker's lock, as the system does when its process dies."""
    return lambda worker_id: os.close(store._presence._held.pop(worker_id)[0])
