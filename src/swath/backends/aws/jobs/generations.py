"""How an ended job begins a new generation in the AWS store: what was selected is written down first, chunk by chunk,
and one write of the head makes it true.

Former ends stay where they are, by their generation. Before: the job ended (endings.py). After: claims.py.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from swath.backends.aws.calls.rows import Put
from swath.backends.aws.jobs.chunks import Chunk
from swath.backends.aws.jobs.control import to_be_changed
from swath.backends.aws.jobs.deletion import list_as_kept
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.jobs.heads import Change
from swath.backends.aws.jobs.jobs import status_after
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.outcomes import count
from swath.backends.aws.table.layout import ACTIVE, again_key, chunk_of, listed_key
from swath.domain.circuit import Circuit
from swath.domain.errors import BadInput, Conflict
from swath.domain.job import JobStatus
from swath.domain.pace import Pace
from swath.domain.selection import Selection
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = ["retry"]

_AT_ONCE: Final = 200  # rows

_encoder: Final = msgspec.msgpack.Encoder()


async def retry(ledger: Ledger, job_id: str, selection: Selection) -> JobStatus:
    """See JobControl.retry."""

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        if not head.state.terminal:
            raise Conflict(f"job {job_id!r} is {head.state}; items can be run again when it has ended")
        nonce = secrets.token_hex(6)
        selected = await _select(ledger, head, selection, nonce)
        if not selected:
            raise BadInput(f"no item of job {job_id!r} fits the selection; nothing to run again")
        check_job(head.state, JobState.PENDING)
        head.state, head.generation, head.stopping = JobState.PENDING, head.generation + 1, None
        head.started_at, head.ended_at, head.pace, head.ran_before = None, None, Pace(), head.ran
        head.again, head.fresh_seq, head.fresh_left = nonce, 0, selected
        head.served, head.circuit = await ledger.granted(), Circuit()
        listed = Put(listed_key(ACTIVE, head.number), job_id.encode())
        return Change(head, [listed, *list_as_kept(head, None)])

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def _select(ledger: Ledger, head: Head, selection: Selection, nonce: str) -> int:
    """Writes down what fits, takes it out of the counters, and answers how much it is."""
    rows: list[Put] = []
    selected = 0
    async for chunk in ledger.chunks.chunks(head, 0, chunk_of(max(1, head.last_seq))):
        seqs = _fitting(head, chunk, selection)
        if seqs:
            selected += len(seqs)
            rows.append(
                Put(again_key(head.number, chunk_of(seqs[0]), head.generation + 1, nonce), _encoder.encode(seqs))
            )
        if len(rows) >= _AT_ONCE:
            await ledger.table.write_many(rows)
            rows = []
    await ledger.table.write_many(rows)
    return selected


def _fitting(head: Head, chunk: Chunk, selection: Selection) -> list[int]:
    seqs = []
    for seq, item in sorted(chunk.items.items()):
        if seq in chunk.ends:
            past = chunk.ends[seq][-1].past
            kind = None if past.end.failure is None else past.end.failure.kind
            if selection.takes(item.item_id, past.end.state, kind, past.ended_at):
                check_item(past.end.state, ItemState.PENDING)
                count(head, past.end, by=-1)
                seqs.append(seq)
    return seqs
