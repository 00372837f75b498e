"""Creates, inspects and removes the DynamoDB table and the SQS queues, for `swath aws` and `swath doctor`.

Each step reports what it did, changes nothing that is as it should be, and may be repeated.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.errors import QueueMissing, RequestDeclined, TableMissing, foreign_table_error
from swath.backends.aws.client.rows import FORMAT
from swath.backends.aws.dynamo.table import format_error, raise_format, read_format
from swath.domain.errors import Conflict, StoreUnavailable
from swath.domain.job import WaitingFor

__all__ = [
    "QueueNames",
    "QueueState",
    "SetupStep",
    "TableState",
    "drop_queue",
    "drop_table",
    "find_table",
    "keep_backups",
    "make_queues",
    "make_table",
    "read_queue_states",
    "read_table_state",
]

KEYS: Final = {"p": "HASH", "s": "RANGE"}
MOST_RECEIVES: Final = 100  # a hint that so many workers were given and nobody settled: something is wrong with it
RETENTION_SECONDS: Final = 14 * 86_400
_READY_SECONDS: Final = 120.0
_STEP_SECONDS: Final = 0.25


class SetupStep(msgspec.Struct, frozen=True):
    """One step. `changed` is False when all was as it should be."""

    kind: str
    name: str
    what: str
    changed: bool = True


class QueueNames(msgspec.Struct, frozen=True):
    """The three queues of a name: hints, hints that somebody waits for, and what nobody could use."""

    main: str
    express: str
    dead: str

    @property
    def all(self) -> tuple[str, str, str]:
        """In the order in which they are told."""
        return self.main, self.express, self.dead

    @classmethod
    def of(cls, name: str) -> QueueNames:
        """The one place where they are named."""
        return cls(name, f"{name}-express", f"{name}-dead")


# -- the table ---------------------------------------------------------------------------------------------------------


async def find_table(clients: AwsClients, name: str) -> dict[str, Any]:
    """What AWS says of it. Raises NoTable, and Conflict for one of that name that is somebody else's."""
    found: dict[str, Any] = (await clients.call("dynamodb", "describe_table", TableName=name))["Table"]
    keys = {key["AttributeName"]: key["KeyType"] for key in found["KeySchema"]}
    if keys != KEYS:
        raise foreign_table_error(repr(name), ", ".join(keys))
    return found


async def make_table(clients: AwsClients, name: str) -> SetupStep:
    """A table that is paid by the request, of the format of this version of Swath: one of an older format is upgraded.

    Raises Conflict for one of that name that is somebody else's, NewerStore for one of a later format.
    """
    step = await _ensure_table(clients, name)
    await _until_active(clients, name)
    former = await raise_format(clients, name)
    if step.changed or former == FORMAT:
        return step
    return SetupStep("table", name, f"was there, and is upgraded from format {former} to {FORMAT}")


async def keep_backups(clients: AwsClients, name: str) -> SetupStep:
    """From now on the table can be put back to any second of the last 35 days."""
    on = {"PointInTimeRecoveryEnabled": True}
    await clients.call("dynamodb", "update_continuous_backups", TableName=name, PointInTimeRecoverySpecification=on)
    return SetupStep("table", name, "has point-in-time recovery")


async def _ensure_table(clients: AwsClients, name: str) -> SetupStep:
    try:
        await find_table(clients, name)
    except TableMissing:
        try:
            await clients.call(
                "dynamodb",
                "create_table",
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in KEYS],
                KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in KEYS.items()],
            )
        except RequestDeclined as no:
            if no.code != "ResourceInUseException":  # somebody else makes it this very moment
                raise
        return SetupStep("table", name, "made, paid by the request")
    return SetupStep("table", name, "was there", changed=False)


async def _until_active(clients: AwsClients, name: str) -> None:
    async for _ in _poll_until(f"the table {name!r} is not ready yet", WaitingFor.STORE):
        found = await clients.call("dynamodb", "describe_table", TableName=name)
        if found["Table"]["TableStatus"] in {"ACTIVE", "UPDATING"}:
            return


async def drop_table(clients: AwsClients, name: str) -> SetupStep:
    """Returns when it is gone, with everything in it. Raises Conflict for one that is somebody else's."""
    try:
        await find_table(clients, name)
    except TableMissing:
        return SetupStep("table", name, "was not there", changed=False)
    try:
        await clients.call("dynamodb", "delete_table", TableName=name)
        async for _ in _poll_until(f"the table {name!r} is still being removed", WaitingFor.STORE):
            await clients.call("dynamodb", "describe_table", TableName=name)
    except TableMissing:
        pass
    return SetupStep("table", name, "is gone")


async def _poll_until(told: str, waiting_for: WaitingFor) -> AsyncIterator[None]:
    """Looks again and again for a while. Raises StoreUnavailable when that was in vain."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _READY_SECONDS
    while loop.time() < until:
        yield
        await asyncio.sleep(_STEP_SECONDS)
    raise StoreUnavailable(told, waiting_for)


# -- the queues --------------------------------------------------------------------------------------------------------


async def make_queues(clients: AwsClients, names: QueueNames, visibility_seconds: float) -> list[SetupStep]:
    """Two queues for hints, and one that takes what was received again and again and never settled."""
    kept = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    dead_url, dead = await _ensure_queue(clients, names.dead, kept)
    found = await clients.call("sqs", "get_queue_attributes", QueueUrl=dead_url, AttributeNames=["QueueArn"])
    redrive = {"deadLetterTargetArn": found["Attributes"]["QueueArn"], "maxReceiveCount": str(MOST_RECEIVES)}
    wanted = {
        **kept,
        "VisibilityTimeout": str(round(visibility_seconds)),
        "ReceiveMessageWaitTimeSeconds": "20",
        "RedrivePolicy": json.dumps(redrive),
    }
    steps = [(await _ensure_queue(clients, name, wanted))[1] for name in (names.main, names.express)]
    return [*steps, dead]


async def _ensure_queue(clients: AwsClients, name: str, wanted: Mapping[str, str]) -> tuple[str, SetupStep]:
    try:
        url = str((await clients.call("sqs", "get_queue_url", QueueName=name))["QueueUrl"])
    except QueueMissing:
        try:
            made = await clients.call("sqs", "create_queue", QueueName=name, Attributes=dict(wanted))
        except QueueMissing as error:  # AWS answers so for a minute after somebody removed it
            told = f"the queue {name!r} was removed a moment ago, and AWS makes it anew only after a minute"
            raise StoreUnavailable(told, WaitingFor.QUEUE) from error
        return str(made["QueueUrl"]), SetupStep("queue", name, "made")
    answer = await clients.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
    has = answer.get("Attributes", {})
    if all(_same(has.get(key), value) for key, value in wanted.items()):
        return url, SetupStep("queue", name, "was there", changed=False)
    await clients.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes=dict(wanted))
    return url, SetupStep("queue", name, "was there, and is set as it should be")


def _same(stored: str | None, wanted: str) -> bool:
    if stored is not None and wanted.startswith("{"):
        documents = [{key: str(value) for key, value in json.loads(text).items()} for text in (stored, wanted)]
        return documents[0] == documents[1]
    return stored == wanted


async def drop_queue(clients: AwsClients, name: str) -> SetupStep:
    """What is in it goes too: only hints."""
    try:
        found = await clients.call("sqs", "get_queue_url", QueueName=name)
        await clients.call("sqs", "delete_queue", QueueUrl=found["QueueUrl"])
    except QueueMissing:
        return SetupStep("queue", name, "was not there", changed=False)
    return SetupStep("queue", name, "is gone")


_COUNTS: Final = {
    "ApproximateNumberOfMessages": "waiting",
    "ApproximateNumberOfMessagesNotVisible": "taken",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """`state` in AWS's words, or `missing`, or `foreign`: somebody else's, and `why` says how that is known.

    Rows and bytes are what AWS counts every six hours or so. `format` is that of its rows, if it is usable, and `why`
    says what to do when that is not the one of this version of Swath.
    """

    name: str
    state: str
    rows: int = 0
    bytes: int = 0
    billing: str = ""
    why: str = ""
    format: int | None = None

    @property
    def usable(self) -> bool:
        """Whether rows can be read and written."""
        return self.state in {"ACTIVE", "UPDATING"} and self.format == FORMAT


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by what becomes of them, about: SQS does not count exactly. `state`: `there` or `missing`."""

    name: str
    state: str
    waiting: int = 0
    taken: int = 0
    delayed: int = 0


async def read_table_state(clients: AwsClients, name: str) -> TableState:
    """Raises UserError and StoreUnavailable when AWS does not say."""
    try:
        found = await find_table(clients, name)
    except TableMissing:
        return TableState(name=name, state="missing")
    except Conflict as error:
        return TableState(name=name, state="foreign", why=str(error))
    state, number, why = str(found["TableStatus"]), None, ""
    if state in {"ACTIVE", "UPDATING"}:
        number = await read_format(clients, name)
        why = "" if number == FORMAT else str(format_error(name, number))
    return TableState(
        name=name,
        state=state,
        why=why,
        format=number,
        rows=int(found.get("ItemCount", 0)),
        bytes=int(found.get("TableSizeBytes", 0)),
        billing=str(found.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")),
    )


async def read_queue_states(clients: AwsClients, names: QueueNames) -> list[QueueState]:
    """In the order of their names: hints, express hints, dead letters."""
    return [await _read_queue_state(clients, name) for name in names.all]


async def _read_queue_state(clients: AwsClients, name: str) -> QueueState:
    try:
        url = (await clients.call("sqs", "get_queue_url", QueueName=name))["QueueUrl"]
        found = await clients.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=list(_COUNTS))
    except QueueMissing:
        return QueueState(name=name, state="missing")
    counts = {field: int(found["Attributes"].get(key, 0)) for key, field in _COUNTS.items()}
    return QueueState(name=name, state="there", **counts)
