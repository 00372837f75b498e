"""Webhooks to be sent, as rows. Each function runs inside one transaction.

A webhook is written in the commit that ends its job.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec

from swath.backends.sqlite.store.jobs import job_row
from swath.domain.webhook import Delivery, Webhook, WebhookState

__all__ = ["any_due", "note_webhook", "put_webhook", "take_webhooks", "webhooks"]

_COLUMNS: Final = (
    "j.job_id, w.generation, w.webhook_id, w.url, w.state, w.due_at, w.tries, w.revision, w.created_at, w.summary, "
    "w.deliveries"
)

_summary_decoder = msgspec.json.Decoder(dict[str, Any])
_deliveries_decoder = msgspec.json.Decoder(tuple[Delivery, ...])


def put_webhook(db: sqlite3.Connection, job_no: int, webhook: Webhook) -> None:
    """Writes a new one down."""
    encode = msgspec.json.encode
    db.execute(
        "INSERT INTO webhooks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job_no,
            webhook.generation,
            webhook.webhook_id,
            webhook.url,
            webhook.state.value,
            webhook.due_at,
            webhook.tries,
            webhook.revision,
            webhook.created_at,
            encode(webhook.summary),
            encode(webhook.deliveries),
        ),
    )


def any_due(db: sqlite3.Connection, boot: float) -> bool:
    """Whether there is anything to send."""
    query = "SELECT 1 FROM webhooks INDEXED BY webhooks_due WHERE due_at <= ? LIMIT 1"
    return db.execute(query, (boot,)).fetchone() is not None


def take_webhooks(db: sqlite3.Connection, boot: float, hold_seconds: float, limit: int) -> list[Webhook]:
    """See WebhookOutbox.take_webhooks."""
    due = db.execute(
        "SELECT job_no, generation FROM webhooks INDEXED BY webhooks_due WHERE due_at <= ? ORDER BY due_at LIMIT ?",
        (boot, limit),
    ).fetchall()
    return [_hold(db, job_no, generation, boot + hold_seconds) for job_no, generation in due]


def _hold(db: sqlite3.Connection, job_no: int, generation: int, due_at: float) -> Webhook:
    db.execute(
        "UPDATE webhooks SET due_at = ?, revision = revision + 1 WHERE job_no = ? AND generation = ?",
        (due_at, job_no, generation),
    )
    found = db.execute(
        f"SELECT {_COLUMNS} FROM webhooks AS w CROSS JOIN jobs AS j ON j.job_no = w.job_no "  # noqa: S608 our own constant
        "WHERE w.job_no = ? AND w.generation = ?",
        (job_no, generation),
    )
    return _webhook(found.fetchone())


def note_webhook(db: sqlite3.Connection, webhook: Webhook) -> bool:
    """See WebhookOutbox.note_webhook."""
    encode = msgspec.json.encode
    noted = db.execute(
        "UPDATE webhooks SET url = ?, state = ?, due_at = ?, tries = ?, created_at = ?, summary = ?, deliveries = ?, "
        "revision = revision + 1 WHERE job_no = (SELECT job_no FROM jobs WHERE job_id = ?) AND generation = ? "
        "AND webhook_id = ? AND revision = ?",
        (
            webhook.url,
            webhook.state.value,
            webhook.due_at,
            webhook.tries,
            webhook.created_at,
            encode(webhook.summary),
            encode(webhook.deliveries),
            webhook.job_id,
            webhook.generation,
            webhook.webhook_id,
            webhook.revision,
        ),
    )
    return noted.rowcount == 1


def webhooks(db: sqlite3.Connection, job_id: str) -> list[Webhook]:
    """See WebhookOutbox.webhooks."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM webhooks AS w CROSS JOIN jobs AS j ON j.job_no = w.job_no "  # noqa: S608 our own constant
        "WHERE w.job_no = ? ORDER BY w.generation",
        (job_row(db, job_id)["job_no"],),
    )
    return [_webhook(row) for row in rows.fetchall()]


def _webhook(row: tuple[Any, ...]) -> Webhook:
    job_id, generation, webhook_id, url, state, due_at, tries, revision, created_at, summary, deliveries = row
    return Webhook(
        webhook_id=webhook_id,
        job_id=job_id,
        generation=generation,
        url=url,
        summary=_summary_decoder.decode(summary),
        created_at=created_at,
        state=WebhookState(state),
        due_at=due_at,
        tries=tries,
        deliveries=_deliveries_decoder.decode(deliveries),
        revision=revision,
    )
