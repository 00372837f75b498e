"""Orders: what was ordered, in a row beside the job's head, because it is long and hardly ever changes.

The row says of which revision of the policy it is; a head of another revision was read at another time than the order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from swath.backends.aws.calls.rows import Put
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.table.layout import order_key
from swath.backends.aws.table.table import Table
from swath.domain.errors import StoreDamaged
from swath.domain.job import Job
from swath.domain.policy import decode_policy, encode_policy

__all__ = ["Orders", "StaleHead", "put_order"]

_REMEMBERED: Final = 2_048  # jobs; some kilobytes each


class StaleHead(Exception):
    """The head was read before something that was read later; both are to be read again."""


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    revision: int
    first: Job
    present: Job | None = None  # when it is another than the first


_encoder: Final = msgspec.json.Encoder(enc_hook=encode_policy)
_decoder: Final = msgspec.json.Decoder(_Order, dec_hook=decode_policy)


def put_order(number: int, revision: int, first: Job, present: Job) -> Put:
    """The row of an order."""
    return Put(order_key(number), _encoder.encode(_Order(revision, first, None if present is first else present)))


class Orders:
    """Remembers what it has read: of one revision an order is always the same."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: OrderedDict[int, _Order] = OrderedDict()

    async def of(self, head: Head) -> Job:
        """The present order. Raises StaleHead when that is of another revision by now."""
        order = await self._order(head)
        return order.first if order.present is None else order.present

    def learn(self, number: int, job: Job) -> None:
        """A job was made by this process: nobody has to read its order."""
        self._remember(number, _Order(0, job))

    async def first(self, head: Head) -> Job:
        """The order as it was first given."""
        return (await self._order(head)).first

    async def of_many(self, heads: list[Head]) -> dict[int, Job]:
        """Present orders by number, of jobs whose orders can be read and fit their heads; the others are left out."""
        unknown = [head for head in heads if not self._fits(head)]
        rows = await self._table.get(*(order_key(head.number) for head in unknown))
        for head in unknown:
            row = rows.get(order_key(head.number))
            if row is not None:
                try:
                    self._remember(head.number, _decoder.decode(row.body))
                except (msgspec.MsgspecError, ValueError):
                    continue  # such a job waits for a person, and others go on meanwhile
        known = {head.number: self._known[head.number] for head in heads if self._fits(head)}
        return {number: order.first if order.present is None else order.present for number, order in known.items()}

    async def _order(self, head: Head) -> _Order:
        if not self._fits(head):
            row = (await self._table.get(order_key(head.number))).get(order_key(head.number))
            if row is None:
                raise StaleHead
            try:
                order = _decoder.decode(row.body)
            except (msgspec.MsgspecError, ValueError) as error:
                raise StoreDamaged(f"the order of job {head.job_id!r} cannot be read: {error}") from error
            if order.revision != head.revision:
                raise StaleHead
            self._remember(head.number, order)
        return self._known[head.number]

    def _fits(self, head: Head) -> bool:
        known = self._known.get(head.number)
        return known is not None and known.revision == head.revision

    def _remember(self, number: int, order: _Order) -> None:
        self._known[number] = order
        self._known.move_to_end(number)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
