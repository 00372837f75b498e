"""Waits a little for what the workers of a controller do after a request: end a job, delete one, send a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from swath.domain.errors import UnknownName
from swath.domain.job import JobStatus
from swath.domain.webhook import WebhookState
from swath.entrypoints.cli.remote.answers import Client
from swath.entrypoints.cli.remote.shapes import status_of

__all__ = ["until_ended", "until_gone", "until_sent"]

PATIENCE_SECONDS: Final = 10.0  # as with a store that is here
SENT_SECONDS: Final = 15.0  # that a receiver may take, and a little
STEP_SECONDS: Final = 0.2


async def until_ended(client: Client, status: JobStatus) -> JobStatus:
    """The job once it has ended, or as it stands then."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not status.state.terminal and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(STEP_SECONDS)
        view = await client.ask("GET", "jobs", status.job.job_id, "status")
        with client.understanding():
            status = status_of(view)
    return status


async def until_gone(client: Client, job_id: str) -> bool:
    """Whether a job that is being deleted is gone."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        try:
            await client.ask("GET", "jobs", job_id, "status")
        except UnknownName:
            return True
        await asyncio.sleep(STEP_SECONDS)
    return False


async def until_sent(client: Client, job_id: str, webhook_id: str) -> Mapping[str, Any]:
    """The webhook's entry in the log after its next try, or as it stands then."""
    deadline = asyncio.get_running_loop().time() + SENT_SECONDS
    while True:
        log = await client.ask("GET", "jobs", job_id, "webhooks")
        with client.understanding():
            entry: Mapping[str, Any] = next(one for one in log if one["webhook_id"] == webhook_id)
            tried = entry["tries"] or entry["state"] != WebhookState.PENDING
        if tried or asyncio.get_running_loop().time() >= deadline:
            return entry
        await asyncio.sleep(STEP_SECONDS)
