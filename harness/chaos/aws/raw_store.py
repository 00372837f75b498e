"""Reads the table and the bucket with plain botocore and obstore, and with nothing of the product's store."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import botocore.session
import msgspec
import obstore
from botocore.config import Config
from obstore.store import S3Store

from harness.fakes.aws import Endpoints

__all__ = ["HeadAt", "LeaseAt", "PlainRow", "PlainTable", "TableMoment", "head_of", "mirror"]

_ENDS: Final = frozenset({"completed", "partially_completed", "failed", "cancelled"})
_AT_ONCE: Final = 16
_BATCH: Final = 100  # what DynamoDB reads at once


class HeadAt(IntEnum):
    """Where a value is in the head of a job."""

    STATE = 2
    GENERATION = 7
    TOTAL = 10
    SUCCESS = 11
    NOT_FOUND = 12
    FAILED = 13
    SKIPPED = 14
    CANCELLED = 15
    FAILURES = 17
    BATCHES = 23
    FRESH_LEFT = 26
    WAITING = 28
    SHARES = 29
    LEASES = 30


class LeaseAt(IntEnum):
    """Where a value is in a lease of the head."""

    FENCE = 0
    WORKER = 1
    RIGHT = 3
    RESCUED = 8
    GAPS = 10


class PlainRow(NamedTuple):
    """One row of the table; `body` is unpacked."""

    partition: str
    sort: str
    body: bytes


@dataclass(frozen=True)
class TableMoment:
    """A job, or several, at one instant. `held`: the fences of leases with items, by the process that has them."""

    state: str
    done: int
    held: dict[int, frozenset[int]]
    newest: int
    generation: int = 1

    @property
    def over(self) -> bool:
        """Whether it has ended; of several, whether all have."""
        return self.state in _ENDS

    @property
    def fences(self) -> set[int]:
        """Of all leases that nobody has taken away."""
        return {fence for fences in self.held.values() for fence in fences}

    @classmethod
    def together(cls, moments: Sequence[TableMoment]) -> TableMoment:
        """Several jobs; fences are never the same in two of them."""
        held: dict[int, frozenset[int]] = {}
        for moment in moments:
            for pid, fences in moment.held.items():
                held[pid] = held.get(pid, frozenset()) | fences
        state = next((moment.state for moment in moments if not moment.over), "completed")
        newest = max((moment.newest for moment in moments), default=0)
        return cls(state, sum(moment.done for moment in moments), held, newest)

    @classmethod
    def of(cls, head: list[Any]) -> TableMoment:
        """From the head of a job."""
        held: dict[int, set[int]] = {}
        leases = head[HeadAt.LEASES]
        for lease in leases:
            if lease[LeaseAt.RIGHT] == "run" and not lease[LeaseAt.RESCUED]:
                held.setdefault(_pid(lease[LeaseAt.WORKER]), set()).add(lease[LeaseAt.FENCE])
        done = head[HeadAt.SUCCESS] + head[HeadAt.FAILED] + head[HeadAt.SKIPPED]
        newest = max((lease[LeaseAt.FENCE] for lease in leases), default=0)
        return cls(
            head[HeadAt.STATE],
            done,
            {pid: frozenset(fences) for pid, fences in held.items()},
            newest,
            head[HeadAt.GENERATION],
        )


class PlainTable:
    """A table of DynamoDB, read row by row."""

    def __init__(self, endpoints: Endpoints, name: str) -> None:
        session: Any = botocore.session.Session()
        self._name = name
        self._client: Any = session.create_client(
            "dynamodb",
            region_name=endpoints.region,
            endpoint_url=endpoints.dynamodb_url,
            aws_access_key_id=endpoints.access_key,
            aws_secret_access_key=endpoints.secret_key,
            config=Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 5}),
        )

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()

    def row(self, partition: str, sort: str) -> bytes | None:
        """The body of one row, if it is there."""
        key = {"p": {"S": partition}, "s": {"S": sort}}
        item = self._client.get_item(TableName=self._name, Key=key, ConsistentRead=True).get("Item")
        return None if item is None else _row(item).body

    def rows(self) -> Iterator[PlainRow]:
        """Everything there is."""
        asked: dict[str, Any] = {"TableName": self._name, "ConsistentRead": True}
        while True:
            page = self._client.scan(**asked)
            yield from map(_row, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def number(self, job_id: str) -> int | None:
        """Under which number a job is kept."""
        named = self.row(f"name/{job_id}", "name")
        return None if named is None else int(named)

    def head(self, number: int) -> list[Any]:
        """What the head of a job holds, in the order of HeadAt."""
        body = self.row(f"job/{number}", "head")
        return [] if body is None else head_of(body)

    def moment(self, number: int) -> TableMoment:
        """The job now."""
        return TableMoment.of(self.head(number))

    def active(self) -> list[int]:
        """Numbers of the jobs that have not ended."""
        wanted = {":p": {"S": "active"}}
        asked = {"TableName": self._name, "ConsistentRead": True, "KeyConditionExpression": "p = :p"}
        page = self._client.query(**asked, ExpressionAttributeValues=wanted)  # of 1 MB: thousands of jobs
        return [int(item["s"]["S"]) for item in page["Items"] if item["s"]["S"].isdecimal()]  # one is no job

    def moments(self, numbers: Sequence[int]) -> dict[int, TableMoment]:
        """Jobs now, in one look; those that are gone are left out."""
        found: dict[int, TableMoment] = {}
        for start in range(0, len(numbers), _BATCH):
            keys = [{"p": {"S": f"job/{number}"}, "s": {"S": "head"}} for number in numbers[start : start + _BATCH]]
            asked: dict[str, Any] = {self._name: {"Keys": keys, "ConsistentRead": True}}
            while asked:
                answer = self._client.batch_get_item(RequestItems=asked)
                for row in map(_row, answer["Responses"][self._name]):
                    found[int(row.partition.removeprefix("job/"))] = TableMoment.of(head_of(row.body))
                asked = answer.get("UnprocessedKeys") or {}
        return found


def head_of(body: bytes) -> list[Any]:
    """What a row of a head holds, in the order of HeadAt."""
    head: list[Any] = msgspec.msgpack.decode(body, strict=False)
    return head


def _row(item: dict[str, Any]) -> PlainRow:
    """From format 2 on, a byte with the number of the format is before the zlib stream, which begins with an x."""
    packed = item.get("b", {}).get("B")
    if packed is None:
        return PlainRow(item["p"]["S"], item["s"]["S"], b"")
    return PlainRow(item["p"]["S"], item["s"]["S"], zlib.decompress(packed if packed[:1] == b"x" else packed[1:]))


def _pid(worker_id: str) -> int:
    """A worker is called host-pid-chance."""
    parts = worker_id.rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0


async def mirror(endpoints: Endpoints, prefix: str, folder: Path) -> int:
    """Copies every object under a prefix of the bucket to a file of the same name; answers how many there are."""
    store = S3Store(
        endpoints.bucket,
        prefix=prefix,
        endpoint=endpoints.s3_url,
        region=endpoints.region,
        access_key_id=endpoints.access_key,
        secret_access_key=endpoints.secret_key,
        client_options={"allow_http": True},
    )
    gate, copied = asyncio.Semaphore(_AT_ONCE), 0

    async def copy(path: str) -> None:
        async with gate:
            body = bytes(await (await obstore.get_async(store, path)).bytes_async())
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)

    async for page in obstore.list(store, chunk_size=1_000):
        async with asyncio.TaskGroup() as group:
            for found in page:
                group.create_task(copy(found["path"]))
        copied += len(page)
    return copied
