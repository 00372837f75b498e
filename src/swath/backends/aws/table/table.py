"""Table: the one DynamoDB table in which everything that workers share is kept, as rows that have versions.

Every method is called on the loop of bridge.py. The store and the site book decide what the rows say; client.py sends
the requests; rows.py knows their form.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Final

from swath.backends.aws.calls.client import AwsClients, backoff
from swath.backends.aws.calls.errors import Declined
from swath.backends.aws.calls.rows import ABSENT, ANY, Attributes, Delete, Key, Put, Row, Written, address, read_row
from swath.backends.aws.table.format_row import check_format
from swath.domain.errors import BadInput, StoreUnavailable
from swath.domain.job import WaitingFor

__all__ = ["ABSENT", "ANY", "Delete", "Key", "Put", "Row", "Table"]

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
            answer = await self._call("get_item", Key=address(keys[0]), ConsistentRead=True)
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
                await self._call("delete_item", Key=address(change.key))
            elif change.expected is ANY:
                await self._call("put_item", Item=Written(change).item())
            else:
                return await self._put_if(Written(change), change.key)
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
            Key=address(key),
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

    async def _put_if(self, written: Written, key: Key) -> bool:
        try:
            await self._call("update_item", **written.update(), ReturnValuesOnConditionCheckFailure="ALL_OLD")
        except Declined as no:
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
        written = [change if isinstance(change, Delete) else Written(change) for change in changes]
        size_bytes = sum(change.size_bytes for change in written if isinstance(change, Written))
        if size_bytes > _COMMIT_BYTES:
            raise BadInput(f"a change of {size_bytes} bytes; DynamoDB takes {_COMMIT_BYTES} at most in one transaction")
        actions = [self._action(change, form) for change, form in zip(changes, written, strict=True)]
        try:
            # The token makes a repeated request the same transaction, so a lost answer comes again.
            await self._request("transact_write_items", TransactItems=actions, ClientRequestToken=secrets.token_hex(16))
        except Declined as no:
            if no.code != "TransactionCanceledException":
                raise
            return False
        return True

    def _action(self, change: Put | Delete, form: Delete | Written) -> dict[str, Any]:
        if isinstance(form, Delete):
            return {"Delete": {"TableName": self.name, "Key": address(form.key)}}
        if isinstance(change, Put) and change.expected is ANY:
            return {"Put": {"TableName": self.name, "Item": form.item()}}
        return {"Update": {"TableName": self.name, **form.update()}}

    async def _read(self, keys: list[Key]) -> list[Attributes]:
        found: list[Attributes] = []
        wanted: dict[str, Any] = {self.name: {"Keys": [address(key) for key in keys], "ConsistentRead": True}}
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
        form = Written(change) if isinstance(change, Put) else None
        size_bytes = form.size_bytes if form else 0
        if batch and (len(batch) == _WRITE_BATCH or size_bytes > left_bytes):
            yield batch
            batch, left_bytes = [], _BATCH_BYTES
        batch.append({"PutRequest": {"Item": form.item()}} if form else {"DeleteRequest": {"Key": address(change.key)}})
        left_bytes -= size_bytes
    if batch:
        yield batch


def _in_doubt(key: Key) -> StoreUnavailable:
    return StoreUnavailable(f"the answer to a change of ({key.p}, {key.s}) was lost", WaitingFor.STORE)
