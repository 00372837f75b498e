"""Webhooks to be sent: each a row beside its job's row, and a row in the list of those that are due.

Both change in one commit, under the revision of the webhook. Hosts have no clock in common that never jumps, so the
list says how long the webhook waits, and each process counts that from when it first saw the row, by its own boot
clock. In the rows `due_at` is shared time, which orders them and tells one wait from the next.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.client.rows import Delete, Key, Put, Row, decode_body
from swath.backends.aws.dynamo.layout import WEBHOOKS, due_partitions, job_row_key, webhook_due_key, webhook_key
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.job_row import decode_job_row
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.webhook import Webhook

__all__ = ["due_rows", "new_webhook", "note_webhook", "take_webhooks", "webhooks"]

_TRIES: Final = 10
_MOST_LISTED: Final = 1_000
_LONGEST_UNTOLD_SECONDS: Final = 60.0

_decoder: Final = msgspec.json.Decoder(Webhook)


class _DueEntry(NamedTuple):
    """A row of the list: which webhook is to be sent, and where that is."""

    at: Key
    number: int
    key: Key


def new_webhook(ledger: StoreContext, number: int, webhook: Webhook) -> list[Put]:
    """The rows of one that is written with the end of its job."""
    stored = _with_shared_time(ledger, webhook)
    at = _due_key(number, stored)
    return [_put(number, stored), *([] if at is None else [_listed_until(ledger, at, webhook)])]


async def take_webhooks(ledger: StoreContext, hold_seconds: float, limit: int) -> list[Webhook]:
    """See WebhookOutbox.take_webhooks. Looks again where others were faster: there may be more."""
    taken: list[Webhook] = []
    for _ in range(_TRIES):
        due = await _due(ledger, limit - len(taken))
        rows = await ledger.table.get(*(key for pointer in due for key in (pointer.key, job_row_key(pointer.number))))
        some = await asyncio.gather(*(_take(ledger, pointer, rows, hold_seconds) for pointer in due))
        taken += [webhook for webhook in some if webhook is not None]
        if None not in some or len(taken) == limit:
            break
    return taken


async def _due(ledger: StoreContext, limit: int) -> list[_DueEntry]:
    """The first of all that are due now, by what this process has seen of them."""
    boot = ledger.clock_reading().boot
    queries = (_listed(ledger.table, partition) for partition in due_partitions())
    rows = [row for part in await asyncio.gather(*queries) for row in part]
    ledger.webhooks_due = {row.key: ledger.webhooks_due.get(row.key, boot + _wait_of(ledger, row)) for row in rows}
    due = sorted((at, key.s, key) for key, at in ledger.webhooks_due.items() if at <= boot)
    return [_due_entry(key) for _, _, key in due[:limit]]


async def _listed(table: Table, partition: str) -> list[Row]:
    """All that wait. They are few: after some seconds a webhook was sent or is given up."""
    return [row async for row in table.query(partition, limit=_MOST_LISTED)]


def _due_entry(at: Key) -> _DueEntry:
    _, number, generation, webhook_id = at.s.split("#", 3)
    return _DueEntry(at, int(number), webhook_key(int(number), int(generation), webhook_id))


def _wait_of(ledger: StoreContext, row: Row) -> float:
    """How long it waits from now on, if nothing is known of it here. A former version did not write it down."""
    if row.body:
        return float(row.body)
    due_at = int(row.key.s.partition("#")[0]) / 1_000_000
    return min(max(0.0, due_at - ledger.times().shared), _LONGEST_UNTOLD_SECONDS)


def _listed_until(ledger: StoreContext, at: Key, webhook: Webhook) -> Put:
    """The row of the list, and this process knows exactly when it is due."""
    due_at = webhook.due_at or 0.0
    ledger.webhooks_due[at] = due_at
    return Put(at, f"{max(0.0, due_at - ledger.clock_reading().boot):.3f}".encode())


async def _take(ledger: StoreContext, pointer: _DueEntry, rows: dict[Key, Row], hold_seconds: float) -> Webhook | None:
    """The webhook, unless somebody else was faster or its job is gone."""
    row, head = rows.get(pointer.key), rows.get(job_row_key(pointer.number))
    before = None if row is None else decode_body(_decoder, row)
    if (
        before is None
        or head is None
        or decode_job_row(head.body).gone
        or _due_key(pointer.number, before) != pointer.at
    ):
        await ledger.table.commit(Delete(pointer.at))
        return None
    due_at = ledger.clock_reading().boot + hold_seconds
    held = msgspec.structs.replace(_with_host_time(ledger, before), due_at=due_at)
    return await _replace(ledger, pointer.number, before, held)


async def note_webhook(ledger: StoreContext, webhook: Webhook) -> bool:
    """See WebhookOutbox.note_webhook."""
    head = await ledger.heads.find(webhook.job_id)
    if head is None:
        return False
    key = webhook_key(head.number, webhook.generation, webhook.webhook_id)
    row = (await ledger.table.get(key)).get(key)
    before = None if row is None else decode_body(_decoder, row)
    if before is None or before.revision != webhook.revision:
        return False
    noted = await _replace(ledger, head.number, before, webhook) is not None
    if noted:
        ledger.tell(webhook.job_id)
    return noted


async def webhooks(ledger: StoreContext, job_id: str) -> list[Webhook]:
    """See WebhookOutbox.webhooks."""
    head = await ledger.heads.look(job_id)
    return [_with_host_time(ledger, decode_body(_decoder, row)) for row in await _rows(ledger.table, head.number)]


async def due_rows(table: Table, number: int) -> list[Delete]:
    """What the list holds of a job that is to vanish."""
    keys = [_due_key(number, decode_body(_decoder, row)) for row in await _rows(table, number)]
    return [Delete(key) for key in keys if key is not None]


async def _rows(table: Table, number: int) -> list[Row]:
    return [row async for row in table.query(job_row_key(number).p, WEBHOOKS, f"{WEBHOOKS}~")]


async def _replace(ledger: StoreContext, number: int, before: Webhook, wanted: Webhook) -> Webhook | None:
    """`before` as it is stored, `wanted` and the answer as the port tells them."""
    wanted = msgspec.structs.replace(wanted, revision=before.revision + 1)
    after = _with_shared_time(ledger, wanted)
    was, now = _due_key(number, before), _due_key(number, after)
    moved: list[Put | Delete] = []
    if was != now:
        moved += [] if was is None else [Delete(was)]
        moved += [] if now is None else [_listed_until(ledger, now, wanted)]
    put = msgspec.structs.replace(_put(number, after), expected=_version(before))
    return _with_host_time(ledger, after) if await ledger.table.commit(put, *moved) else None


def _with_shared_time(ledger: StoreContext, webhook: Webhook) -> Webhook:
    """With its due time for all hosts, in whole microseconds, so that telling and storing it again changes nothing."""
    due_at = None if webhook.due_at is None else round(ledger.time.from_boot(webhook.due_at), 6)
    return msgspec.structs.replace(webhook, due_at=due_at)


def _with_host_time(ledger: StoreContext, webhook: Webhook) -> Webhook:
    """With its due time on the boot clock of this host."""
    due_at = None if webhook.due_at is None else ledger.time.to_boot(webhook.due_at)
    return msgspec.structs.replace(webhook, due_at=due_at)


def _put(number: int, webhook: Webhook) -> Put:
    key = webhook_key(number, webhook.generation, webhook.webhook_id)
    return Put(key, msgspec.json.encode(webhook), version=_version(webhook))


def _version(webhook: Webhook) -> int:
    return webhook.revision + 1


def _due_key(number: int, webhook: Webhook) -> Key | None:
    if webhook.due_at is None:
        return None
    return webhook_due_key(number, webhook.due_at, webhook.generation, webhook.webhook_id)
