"""Store: the ports that one back end serves together, because its commits span them: jobs, what people do to them, who
works on what, endings, and the webhooks that are written with these; and the keys. Chosen in bootstrap."""

from __future__ import annotations

from typing import Protocol

from swath.ports.endings import Endings
from swath.ports.job_control import JobControl
from swath.ports.job_store import JobStore
from swath.ports.key_ring import KeyRing
from swath.ports.lease_book import LeaseBook
from swath.ports.webhook_outbox import WebhookOutbox

__all__ = ["Store"]


class Store(JobStore, JobControl, LeaseBook, Endings, WebhookOutbox, KeyRing, Protocol):
    """All parts of a store."""
