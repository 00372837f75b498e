"""Format 1 of the table: what Swath was before its rows had a number, as far as it changes a job and looks for work.

A faithful copy of that code: the structs of head.py, `Written` and `read_row` of rows.py, and the loop of heads.py that
reads a head, changes it and writes it back. It does not follow the code of today and is never brought up to date: the
next format gets a copy of its own beside this one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from isal import isal_zlib

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.errors import RequestDeclined

_ROWS: Final = Path(__file__).parents[2] / "fixtures" / "table_of_format_1.json"  # written by that version itself
_NONCES: Final = 16
_InflateError: Any = isal_zlib.error


class StoreDamaged(Exception):
    """What a worker of that time ended with, in one line."""


class HeldLease(msgspec.Struct, array_like=True):
    fence: int
    worker: str
    host: str
    right: str
    revision: int
    heard_at: float = 0.0
    expires_at: float = 0.0
    alone: bool = False
    rescued: bool = False
    carries: bool = False
    gaps: list[int] = []
    chunks: list[int] = []
    end_rows: int = 0
    waiting: str | None = None


class Share(msgspec.Struct, array_like=True):
    slots: int = 0
    demand: int = 0
    queued: list[int] = []
    begun: list[int] = []


class Waiting(msgspec.Struct, array_like=True):
    suspects: int = 0
    begun: int = 0
    untried: int = 0


class Circuit(msgspec.Struct, frozen=True):
    window: str = ""
    in_a_row: int = 0
    finished: int = 0
    released: int = 0
    opened: str | None = None


class Pace(msgspec.Struct, frozen=True):
    items: float = 0.0
    seconds: float = 0.0
    at: float = 0.0


class Head(msgspec.Struct, array_like=True):
    number: int
    job_id: str
    state: str = "loading"
    revision: int = 0
    stopping: str | None = None
    deleting: bool = False
    gone: bool = False
    generation: int = 1
    circuit: Circuit = Circuit()
    served: int = 0
    total: int = 0
    success: int = 0
    not_found: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    cost: float = 0.0
    failures: dict[str, int] = {}
    started_at: float | None = None
    ended_at: float | None = None
    pace: Pace = Pace()
    ran_before: int = 0
    loaded_rows: int = 0
    batches: int = 0
    last_seq: int = 0
    fresh_seq: int = 0
    fresh_left: int = 0
    again: str = ""
    waiting: dict[int, Waiting] = {}
    shares: dict[str, Share] = {}
    leases: list[HeldLease] = []
    manifest: str = ""
    manifest_parts: int = 0
    kept_due: float | None = None
    purged: int = 0
    purged_seq: int = 0
    on_demand: bool = False
    versions: int = 1
    current_version: int = 1


def _without_last(left_out: int) -> type[Head]:
    known = msgspec.structs.fields(Head)[:-left_out]
    defaults: dict[str, Any] = {
        each.name: msgspec.field(default=each.default)
        if each.default_factory is msgspec.NODEFAULT
        else msgspec.field(default_factory=each.default_factory)
        for each in known
        if not each.required
    }
    fields: list[Any] = [
        (each.name, each.type, *([defaults[each.name]] if each.name in defaults else [])) for each in known
    ]
    made: Any = msgspec.defstruct("HeadWithoutVersions", fields, array_like=True)
    return made  # type: ignore[no-any-return]


HeadWithoutVersions: Final = _without_last(2)
"""The same before jobs had versions of their results: its last field is the one before those."""


class PreviousProcess:
    """A process of that version of Swath, at work on a table. `knows` is the head as it has it."""

    def __init__(self, clients: AwsClients, table: str, knows: type[Head] = Head) -> None:
        self._clients = clients
        self._table = table
        self._decoder: Any = msgspec.msgpack.Decoder(knows)

    async def active(self) -> list[int]:
        """The first thing that it asks when it looks for work."""
        answer = await self._clients.call(
            "dynamodb",
            "query",
            TableName=self._table,
            KeyConditionExpression="p = :p AND s <= :last",
            ExpressionAttributeValues={":p": {"S": "active"}, ":last": {"S": "\U0010ffff"}},
            ConsistentRead=True,
        )
        return [int(_key_of(item)[1]) for item in answer["Items"] if _read(item) is not None]

    async def head(self, number: int) -> Head:
        """A job as it is now."""
        return (await self._head(number))[0]

    async def body(self, p: str, s: str) -> bytes:
        """What a row says."""
        return _read(await self._item(p, s))

    async def change(self, number: int, change: Callable[[Head], None]) -> bool:
        """Changes a job: its head is read, changed and written back if nobody was faster."""
        head, version = await self._head(number)
        change(head)
        update = _update(f"job/{number}", "head", msgspec.msgpack.encode(head), version)
        try:
            await self._clients.call("dynamodb", "update_item", TableName=self._table, **update)
        except RequestDeclined as no:
            if no.code != "ConditionalCheckFailedException":
                raise
            return False
        return True

    async def _head(self, number: int) -> tuple[Head, int]:
        item = await self._item(f"job/{number}", "head")
        try:
            return self._decoder.decode(_read(item)), int(item["v"]["N"])
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the head of a job cannot be read: {error}") from error

    async def _item(self, p: str, s: str) -> dict[str, Any]:
        answer = await self._clients.call(
            "dynamodb", "get_item", TableName=self._table, Key=_address(p, s), ConsistentRead=True
        )
        item: dict[str, Any] = answer["Item"]
        return item


def _address(p: str, s: str) -> dict[str, Any]:
    return {"p": {"S": p}, "s": {"S": s}}


def _key_of(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["p"]["S"], item["s"]["S"]


def _packed(body: bytes) -> bytes:
    return bytes(isal_zlib.compress(body, 1))


def _read(item: Mapping[str, Any]) -> bytes:
    packed = item.get("b", {}).get("B")
    try:
        return b"" if packed is None else bytes(isal_zlib.decompress(packed))
    except _InflateError as error:
        p, s = _key_of(item)
        raise StoreDamaged(f"the row ({p}, {s}) of the table cannot be read: {error}") from error


def _update(p: str, s: str, body: bytes, expected: int) -> dict[str, Any]:
    slot = f"w{(expected + 1) % _NONCES}"
    return {
        "Key": _address(p, s),
        "UpdateExpression": f"SET v = :v, b = :b, {slot} = :w",
        "ConditionExpression": "v = :e",
        "ExpressionAttributeValues": {
            ":v": {"N": str(expected + 1)},
            ":b": {"B": _packed(body)},
            ":w": {"B": secrets.token_bytes(8)},
            ":e": {"N": str(expected)},
        },
    }


async def make_table_of_format_1(clients: AwsClients, name: str) -> None:
    """A table as Swath left it that did not know of formats, whose worker has died. Jobs: `done` with two versions,
    `again` in its second generation, `half`, `loading`, and `doomed`, which is to be deleted."""
    await clients.call(
        "dynamodb",
        "create_table",
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("p", "s")],
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    )
    while (await clients.call("dynamodb", "describe_table", TableName=name))["Table"]["TableStatus"] != "ACTIVE":
        await asyncio.sleep(0.05)
    for row in json.loads(_ROWS.read_text()):
        item = {attribute: _typed(value) for attribute, value in row.items()}
        await clients.call("dynamodb", "put_item", TableName=name, Item=item)


def _typed(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, given),) = value.items()
    return {kind: base64.b64decode(given["bytes"]) if kind == "B" else given}
