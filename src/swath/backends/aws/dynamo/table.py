"""The DynamoDB table in which everything that workers share is kept, as versioned rows.

Every method is called on the event loop of the AWS thread. One row, written by `swath aws init`, says which format
the
table has, and is checked before a process first uses the table. It is in the list of active jobs, which every worker
reads again and again, so one that runs while the table is upgraded notices at its next look for work.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Final

from swath.backends.aws.client.client import AwsClients, backoff
from swath.backends.aws.client.errors import RequestDeclined
from swath.backends.aws.client.rows import (
    ABSENT,
    ANY,
    FIRST_FORMAT,
    FORMAT,
    Attributes,
    Delete,
    Key,
    Put,
    PutRequest,
    Row,
    dynamo_key,
    newer_store_error,
    read_row,
)
from swath.backends.aws.dynamo.layout import ACTIVE
from swath.domain.errors import BadInput, StoreUnavailable, UserError
from swath.domain.job import WaitingFor

__all__ = [
    "ABSENT",
    "ANY",
    "FORMAT_KEY",
    "Delete",
    "Key",
    "Put",
    "Row",
    "Table",
    "check_format",
    "format_error",
    "raise_format",
    "read_format",
]

# It comes before all numbers of jobs. An older worker names the row in the line with which it ends.
FORMAT_KEY: Final = Key(ACTIVE, "!upgrade-swath")


async def read_format(clients: AwsClients, table: str) -> int:
    """The format of a table that is there."""
    return await _read(clients, table) or FIRST_FORMAT


async def check_format(clients: AwsClients, table: str) -> None:
    """Raises UserError for a table of an older format, NewerStore for one of a later one."""
    found = await read_format(clients, table)
    if found != FORMAT:
        raise format_error(table, found)


async def raise_format(clients: AwsClients, table: str) -> int:
    """Makes the table one of this version's format, and answers with the format that it had. Raises NewerStore."""
    while True:
        found = await _read(clients, table)
        if found is not None and found > FORMAT:
            raise newer_store_error(found)
        if found == FORMAT:
            return found
        put = Put(FORMAT_KEY, b"", version=FORMAT, expected=ABSENT if found is None else found)
        try:
            await clients.call("dynamodb", "update_item", TableName=table, **PutRequest(put).update())
        except RequestDeclined as no:
            if no.code != "ConditionalCheckFailedException":  # somebody else was faster: look again
                raise
        else:
            return found or FIRST_FORMAT


def format_error(table: str, found: int) -> UserError:
    """What to raise for a table of a later format, or of an older one that was not upgraded yet."""
    if found > FORMAT:
        return newer_store_error(found)
    return UserError(
        f"the table {table!r} has format {found} of an older version of Swath, and this one needs format {FORMAT}: "
        "stop all processes of the older version, then upgrade the table with `swath aws init`"
    )


async def _read(clients: AwsClients, table: str) -> int | None:
    """By its version alone, which every format writes alike."""
    answer = await clients.call(
        "dynamodb", "get_item", TableName=table, Key=dynamo_key(FORMAT_KEY), ConsistentRead=True
    )
    return int(answer["Item"]["v"]["N"]) if "Item" in answer else None


LAST: Final = "\U0010ffff"
_COMMIT_CHANGES: Final = 100
_COMMIT_BYTES: Final = 4 * 1024 * 1024
_WRITE_BATCH: Final = 25
_BATCH_BYTES: Final = 1024 * 1024
_WRITES_AT_ONCE: Final = 4
_GET_BATCH: Final = 100


class Table:
    """Reads are strongly consistent. What a raised StoreUnavailable says about a change is: it may have been made.

    The first request asks which format the table has; every one raises UserError while that is not the one of this
    version of Swath.
    """

    def __init__(self, clients: AwsClients, name: str) -> None:
        self.name = name
        self._clients = clients
        self._checking = asyncio.Lock()
        self._is_checked = False

    async def get(self, *keys: Key) -> dict[Key, Row]:
        """The rows that there are. Several are not read at one instant."""
        if len(keys) == 1:
            answer = await self._call("get_item", Key=dynamo_key(keys[0]), ConsistentRead=True)
            rows = [read_row(answer["Item"])] if "Item" in answer else []
        else:
            wanted = list(dict.fromkeys(keys))
            parts = [wanted[start : start + _GET_BATCH] for start in range(0, len(wanted), _GET_BATCH)]
            rows = [read_row(item) for part in parts for item in await self._read(part)]
        return {row.key: row for row in rows}

    async def query(
        self, p: str, first: str = "", last: str = LAST, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncIterator[Row]:
        """The rows of `p` from `first` to `last`, both included, in order; each page of them is read at one instant."""
        values = {":p": {"S": p}, ":last": {"S": last}}
        condition = "p = :p AND s <= :last"
        if first:  # DynamoDB refuses an empty bound
            values[":first"] = {"S": first}
            condition = "p = :p AND s BETWEEN :first AND :last"
        params: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
            "ScanIndexForward": not reverse,
        }
        left = limit
        while first <= last and left != 0:
            if left is not None:
                params["Limit"] = left
            answer = await self._call("query", **params)
            for item in answer["Items"]:
                yield read_row(item)
            left = None if left is None else left - len(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            params["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def commit(self, *changes: Put | Delete) -> bool:
        """Makes all the changes, at most 100, or none of them; False when a condition did not hold.

        One change is a plain write, at half the price of a transaction. A lost answer is found out. Raises
        BadInput for rows that are too large.
        """
        if len(changes) > 1:
            return await self._transact(changes)
        for change in changes:
            if isinstance(change, Delete):
                await self._call("delete_item", Key=dynamo_key(change.key))
            elif change.expected is ANY:
                await self._call("put_item", Item=PutRequest(change).item())
            else:
                return await self._put_if(PutRequest(change), change.key)
        return True

    async def write_many(self, changes: Sequence[Put | Delete]) -> None:
        """Makes changes that have no condition, in any order; of several to one row the last. Not all or nothing."""
        if any(isinstance(change, Put) and change.expected is not ANY for change in changes):
            raise ValueError("write_many knows no conditions")
        latest = {change.key: change for change in changes}
        gate = asyncio.Semaphore(_WRITES_AT_ONCE)

        async def write(batch: list[Attributes]) -> None:
            async with gate:
                await self._write(batch)

        writing = (write(batch) for batch in _write_batches(latest.values()))
        for error in await asyncio.gather(*writing, return_exceptions=True):
            if error is not None:
                raise error

    async def add(self, key: Key, **amounts: int) -> dict[str, int]:
        """Adds to numbers of a row, made at need, and returns the new ones. After a lost answer it may add twice."""
        added = ", ".join(f"#{name} :{name}" for name in amounts)
        answer = await self._call(
            "update_item",
            Key=dynamo_key(key),
            UpdateExpression=f"ADD {added}",
            ExpressionAttributeNames={f"#{name}": name for name in amounts},
            ExpressionAttributeValues={f":{name}": {"N": str(amount)} for name, amount in amounts.items()},
            ReturnValues="UPDATED_NEW",
        )
        return {name: int(answer["Attributes"][name]["N"]) for name in amounts}

    async def _call(self, operation: str, **params: Any) -> dict[str, Any]:
        return await self._request(operation, TableName=self.name, **params)

    async def _request(self, operation: str, **params: Any) -> dict[str, Any]:
        if not self._is_checked:
            async with self._checking:
                if not self._is_checked:
                    await check_format(self._clients, self.name)
                    self._is_checked = True
        return await self._clients.call("dynamodb", operation, **params)

    async def _put_if(self, written: PutRequest, key: Key) -> bool:
        try:
            await self._call("update_item", **written.update(), ReturnValuesOnConditionCheckFailure="ALL_OLD")
        except RequestDeclined as no:
            if no.code != "ConditionalCheckFailedException":
                raise
            # Only who had no answer before can have been the one: then the row tells by its nonce.
            made = written.was_made(no.answer.get("Item")) if no.maybe_done else False
            if made is None:
                raise _in_doubt(key) from no
            return made
        return True

    async def _transact(self, changes: Sequence[Put | Delete]) -> bool:
        if len(changes) > _COMMIT_CHANGES:
            raise ValueError(f"{len(changes)} changes in one commit; DynamoDB takes {_COMMIT_CHANGES} at most")
        written = [change if isinstance(change, Delete) else PutRequest(change) for change in changes]
        size_bytes = sum(change.size_bytes for change in written if isinstance(change, PutRequest))
        if size_bytes > _COMMIT_BYTES:
            raise BadInput(f"a change of {size_bytes} bytes; DynamoDB takes {_COMMIT_BYTES} at most in one transaction")
        actions = [self._action(change, form) for change, form in zip(changes, written, strict=True)]
        try:
            # The token makes a repeated request the same transaction, so a lost answer comes again.
            await self._request("transact_write_items", TransactItems=actions, ClientRequestToken=secrets.token_hex(16))
        except RequestDeclined as no:
            if no.code != "TransactionCanceledException":
                raise
            return False
        return True

    def _action(self, change: Put | Delete, form: Delete | PutRequest) -> dict[str, Any]:
        if isinstance(form, Delete):
            return {"Delete": {"TableName": self.name, "Key": dynamo_key(form.key)}}
        if isinstance(change, Put) and change.expected is ANY:
            return {"Put": {"TableName": self.name, "Item": form.item()}}
        return {"Update": {"TableName": self.name, **form.update()}}

    async def _read(self, keys: list[Key]) -> list[Attributes]:
        found: list[Attributes] = []
        wanted: dict[str, Any] = {self.name: {"Keys": [dynamo_key(key) for key in keys], "ConsistentRead": True}}
        pause = _Pause(self._clients.patience_seconds)
        while wanted:
            answer = await self._request("batch_get_item", RequestItems=wanted)
            items = answer["Responses"].get(self.name, [])
            found += items
            wanted = answer.get("UnprocessedKeys") or {}
            await pause.after(progress=bool(items), more=bool(wanted))
        return found

    async def _write(self, requests: list[Attributes]) -> None:
        pause = _Pause(self._clients.patience_seconds)
        while requests:
            answer = await self._request("batch_write_item", RequestItems={self.name: requests})
            left = (answer.get("UnprocessedItems") or {}).get(self.name, [])
            await pause.after(progress=len(left) < len(requests), more=bool(left))
            requests = left


class _Pause:
    """Between two tries of a batch of which DynamoDB left something undone, as it does when it is busy."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._loop = asyncio.get_running_loop()
        self._moved = self._loop.time()
        self._tries = 0

    async def after(self, *, progress: bool, more: bool) -> None:
        """Raises StoreUnavailable when nothing has been done for too long."""
        if progress:
            self._moved = self._loop.time()
            self._tries = 0
        if more:
            self._tries += 1
            if self._loop.time() - self._moved > self._patience_seconds:
                raise StoreUnavailable("DynamoDB puts off the rest of a batch again and again", WaitingFor.STORE)
            await asyncio.sleep(backoff(self._tries))


def _write_batches(changes: Iterable[Put | Delete]) -> Iterator[list[Attributes]]:
    """Requests, as many at a time as DynamoDB takes and a slow line carries within the time of one try."""
    batch: list[Attributes] = []
    left_bytes = _BATCH_BYTES
    for change in changes:
        form = PutRequest(change) if isinstance(change, Put) else None
        size_bytes = form.size_bytes if form else 0
        if batch and (len(batch) == _WRITE_BATCH or size_bytes > left_bytes):
            yield batch
            batch, left_bytes = [], _BATCH_BYTES
        batch.append(
            {"PutRequest": {"Item": form.item()}} if form else {"DeleteRequest": {"Key": dynamo_key(change.key)}}
        )
        left_bytes -= size_bytes
    if batch:
        yield batch


def _in_doubt(key: Key) -> StoreUnavailable:
    return StoreUnavailable(f"the answer to a change of ({key.p}, {key.s}) was lost", WaitingFor.STORE)
