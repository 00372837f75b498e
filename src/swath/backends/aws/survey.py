"""How table and queues stand, for `swath aws status` and `swath doctor`. Changes nothing. Made by setup.py."""

from __future__ import annotations

from typing import Final

import msgspec

from swath.backends.aws.calls.client import AwsClients
from swath.backends.aws.calls.errors import NoQueue, NoTable
from swath.backends.aws.calls.formats import FORMAT
from swath.backends.aws.setup import QueueNames, find_table
from swath.backends.aws.table.format_row import other_format, read_format
from swath.domain.errors import Conflict

__all__ = ["QueueState", "TableState", "look_at_queues", "look_at_table"]

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


async def look_at_table(clients: AwsClients, name: str) -> TableState:
    """Raises UserError and StoreUnavailable when AWS does not say."""
    try:
        found = await find_table(clients, name)
    except NoTable:
        return TableState(name=name, state="missing")
    except Conflict as error:
        return TableState(name=name, state="foreign", why=str(error))
    state, number, why = str(found["TableStatus"]), None, ""
    if state in {"ACTIVE", "UPDATING"}:
        number = await read_format(clients, name)
        why = "" if number == FORMAT else str(other_format(name, number))
    return TableState(
        name=name,
        state=state,
        why=why,
        format=number,
        rows=int(found.get("ItemCount", 0)),
        bytes=int(found.get("TableSizeBytes", 0)),
        billing=str(found.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")),
    )


async def look_at_queues(clients: AwsClients, names: QueueNames) -> list[QueueState]:
    """In the order of their names: hints, express hints, dead letters."""
    return [await _look_at_queue(clients, name) for name in names.all]


async def _look_at_queue(clients: AwsClients, name: str) -> QueueState:
    try:
        url = (await clients.call("sqs", "get_queue_url", QueueName=name))["QueueUrl"]
        found = await clients.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=list(_COUNTS))
    except NoQueue:
        return QueueState(name=name, state="missing")
    counts = {field: int(found["Attributes"].get(key, 0)) for key, field in _COUNTS.items()}
    return QueueState(name=name, state="there", **counts)
