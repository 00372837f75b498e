"""What the settings name on AWS, and the way there. For the commands of `swath aws` and for `swath doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from swath.backends.aws.calls.client import PATIENCE_SECONDS, AwsClients
from swath.backends.aws.results.bucket import Bucket
from swath.backends.aws.setup import QueueNames
from swath.settings import DynamoPlace, S3Place, Settings

__all__ = ["Reach", "reach"]


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Names and clients. Without a table, the store is not on AWS; without a bucket, the results are not."""

    table: str | None
    queues: QueueNames | None
    bucket: Bucket | None
    bucket_region: str | None
    of_table: AwsClients
    of_queues: AwsClients
    of_bucket: AwsClients

    @property
    def name(self) -> str:
        """What a person types to be sure that this is meant."""
        return self.table or (self.bucket.url if self.bucket else "")


@asynccontextmanager
async def reach(settings: Settings, patience_seconds: float = PATIENCE_SECONDS) -> AsyncIterator[Reach]:
    """Connects at the first request, not now."""
    places = settings.places
    store, results, queue = places.store, places.results, places.queue
    made: dict[str | None, AwsClients] = {}
    async with AsyncExitStack() as stack:

        def clients(region: str | None) -> AwsClients:
            if region not in made:
                made[region] = AwsClients(region, patience_seconds=patience_seconds)
                stack.push_async_callback(made[region].close)
            return made[region]

        bucket_region = results.region if isinstance(results, S3Place) else None
        yield Reach(
            table=store.table if isinstance(store, DynamoPlace) else None,
            queues=None if queue is None else QueueNames.of(queue.name),
            bucket=Bucket(results.bucket, results.prefix) if isinstance(results, S3Place) else None,
            bucket_region=bucket_region,
            of_table=clients(store.region if isinstance(store, DynamoPlace) else None),
            of_queues=clients(None if queue is None else queue.region),
            of_bucket=clients(bucket_region),
        )
