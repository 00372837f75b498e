"""`jobs reextract --server`: the controller's workers make the new version, and this command looks on (R6).

After: POST /jobs/{id}/reextract; then the events of the job that makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from swath.domain.errors import BadInput
from swath.domain.job import JobStatus
from swath.entrypoints.cli.progress import Display
from swath.entrypoints.cli.remote.answers import Client
from swath.entrypoints.cli.remote.events import follow
from swath.entrypoints.cli.remote.shapes import status_of

__all__ = ["reextract_there"]


async def reextract_there(
    client: Client, job_id: str, scraper: str, wish: dict[str, Any], display: Display, stop: asyncio.Event
) -> JobStatus:
    """The job that makes the version, when it has ended; or as it stands when `stop` is set. `scraper` is an id, with
    `@version` behind it if it must be that one; `wish` has the other fields of the request."""
    name, at, version = scraper.rpartition("@")
    name, wanted = (name, version) if at else (scraper, None)
    if name.endswith(".py") or "/" in name or "\\" in name:
        raise BadInput(
            f"{name}: a file is not sent to a controller; put it into a folder of SWATH_SCRAPERS there, and "
            "give the id of its scraper"
        )
    body = {"scraper_id": name, "scraper_version": wanted, **wish}
    view = await client.ask("POST", "jobs", job_id, "reextract", body=body)
    with client.understanding():
        status = status_of(view)
    async with aclosing(follow(client, status.job.job_id, display.note)) as statuses:
        while not status.state.terminal and (following := await _next(statuses, stop)) is not None:
            status = following
            display.show(status)
    return status


async def _next(statuses: AsyncGenerator[JobStatus, None], stop: asyncio.Event) -> JobStatus | None:
    coming, stopped = asyncio.ensure_future(anext(statuses)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        stopped.cancel()
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
