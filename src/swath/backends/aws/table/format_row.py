"""The row that says which format the table has: written by `swath aws init`, checked before a process first uses the
table (table.py).

It is in the list of active jobs, which every worker reads again and again. So one that runs while the table is upgraded
notices it at its next look for work, even a worker from before there were formats, which cannot read the row.
"""

from __future__ import annotations

from typing import Final

from swath.backends.aws.calls.client import AwsClients
from swath.backends.aws.calls.errors import Declined
from swath.backends.aws.calls.formats import FIRST_FORMAT, FORMAT, newer_store
from swath.backends.aws.calls.rows import ABSENT, Key, Put, Written, address
from swath.backends.aws.table.layout import ACTIVE
from swath.domain.errors import UserError

__all__ = ["FORMAT_KEY", "check_format", "other_format", "raise_format", "read_format"]

# It comes before all numbers of jobs. An older worker names the row in the line with which it ends.
FORMAT_KEY: Final = Key(ACTIVE, "!upgrade-swath")


async def read_format(clients: AwsClients, table: str) -> int:
    """The format of a table that is there."""
    return await _read(clients, table) or FIRST_FORMAT


async def check_format(clients: AwsClients, table: str) -> None:
    """Raises UserError for a table of an older format, NewerStore for one of a later one."""
    found = await read_format(clients, table)
    if found != FORMAT:
        raise other_format(table, found)


async def raise_format(clients: AwsClients, table: str) -> int:
    """Makes the table one of this version's format, and answers with the format that it had. Raises NewerStore."""
    while True:
        found = await _read(clients, table)
        if found is not None and found > FORMAT:
            raise newer_store(found)
        if found == FORMAT:
            return found
        put = Put(FORMAT_KEY, b"", version=FORMAT, expected=ABSENT if found is None else found)
        try:
            await clients.call("dynamodb", "update_item", TableName=table, **Written(put).update())
        except Declined as no:
            if no.code != "ConditionalCheckFailedException":  # somebody else was faster: look again
                raise
        else:
            return found or FIRST_FORMAT


def other_format(table: str, found: int) -> UserError:
    """What to raise for a table of a later format, or of an older one that was not upgraded yet."""
    if found > FORMAT:
        return newer_store(found)
    return UserError(
        f"the table {table!r} has format {found} of an older version of Swath, and this one needs format {FORMAT}: "
        "stop all processes of the older version, then upgrade the table with `swath aws init`"
    )


async def _read(clients: AwsClients, table: str) -> int | None:
    """By its version alone, which every format writes alike."""
    answer = await clients.call("dynamodb", "get_item", TableName=table, Key=address(FORMAT_KEY), ConsistentRead=True)
    return int(answer["Item"]["v"]["N"]) if "Item" in answer else None
