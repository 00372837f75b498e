"""What was ordered, in a row beside the job's row, because it is long and hardly ever changes.

It says of which revision of the policy it is; a job row of another revision was read at another time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from swath.backends.aws.client.rows import Put
from swath.backends.aws.dynamo.layout import job_spec_key
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.job_row import JobRow
from swath.domain.errors import StoreDamaged
from swath.domain.execution_policy import decode_policy, encode_policy
from swath.domain.job import Job

__all__ = ["JobSpecs", "StaleJobRow", "put_job_spec"]

_REMEMBERED: Final = 2_048  # jobs; some kilobytes each


class StaleJobRow(Exception):
    """The head was read before something that was read later; both are to be read again."""


class _JobSpec(msgspec.Struct, forbid_unknown_fields=True):
    revision: int
    first: Job
    present: Job | None = None  # when it is another than the first


_encoder: Final = msgspec.json.Encoder(enc_hook=encode_policy)
_decoder: Final = msgspec.json.Decoder(_JobSpec, dec_hook=decode_policy)


def put_job_spec(number: int, revision: int, first: Job, present: Job) -> Put:
    """The row of an order."""
    return Put(job_spec_key(number), _encoder.encode(_JobSpec(revision, first, None if present is first else present)))


class JobSpecs:
    """Remembers what it has read: of one revision an order is always the same."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: OrderedDict[int, _JobSpec] = OrderedDict()

    async def of(self, head: JobRow) -> Job:
        """The present order. Raises StaleHead when that is of another revision by now."""
        order = await self._order(head)
        return order.first if order.present is None else order.present

    def learn(self, number: int, job: Job) -> None:
        """A job was made by this process: nobody has to read its order."""
        self._remember(number, _JobSpec(0, job))

    async def first(self, head: JobRow) -> Job:
        """The order as it was first given."""
        return (await self._order(head)).first

    async def of_many(self, heads: list[JobRow]) -> dict[int, Job]:
        """Present orders by number, of jobs whose orders can be read and fit their heads; the others are left out."""
        unknown = [head for head in heads if not self._fits(head)]
        rows = await self._table.get(*(job_spec_key(head.number) for head in unknown))
        for head in unknown:
            row = rows.get(job_spec_key(head.number))
            if row is not None:
                try:
                    self._remember(head.number, _decoder.decode(row.body))
                except (msgspec.MsgspecError, ValueError):
                    continue  # such a job waits for a person, and others go on meanwhile
        known = {head.number: self._known[head.number] for head in heads if self._fits(head)}
        return {number: order.first if order.present is None else order.present for number, order in known.items()}

    async def _order(self, head: JobRow) -> _JobSpec:
        if not self._fits(head):
            row = (await self._table.get(job_spec_key(head.number))).get(job_spec_key(head.number))
            if row is None:
                raise StaleJobRow
            try:
                order = _decoder.decode(row.body)
            except (msgspec.MsgspecError, ValueError) as error:
                raise StoreDamaged(f"the order of job {head.job_id!r} cannot be read: {error}") from error
            if order.revision != head.revision:
                raise StaleJobRow
            self._remember(head.number, order)
        return self._known[head.number]

    def _fits(self, head: JobRow) -> bool:
        known = self._known.get(head.number)
        return known is not None and known.revision == head.revision

    def _remember(self, number: int, order: _JobSpec) -> None:
        self._known[number] = order
        self._known.move_to_end(number)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
