"""Refuses a job of which robots.txt denies every item, before it starts. Before: load.py has stored its items, or they
came with the order itself.

Stops at the first item that may be fetched, so an ordinary job costs one look. A site that cannot be asked now denies
nothing here: the job will meet it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from swath.domain.errors import BadInput, Failed, SiteHeld, StoreUnavailable
from swath.domain.job import Job
from swath.kit.scraper import Scraper
from swath.ports.job_store import JobStore
from swath.web.passage import Network, Passage

__all__ = ["Reach", "given_inputs", "refuse_if_robots_deny", "refuse_if_robots_deny_all"]

Reach = Callable[[], AbstractAsyncContextManager[Network]]
Inputs = Callable[[], AsyncGenerator[dict[str, Any], None]]

ASK_SECONDS: Final = 30.0  # for a site that is slow to tell; then the job finds out by itself
_PAGE_ITEMS: Final = 1_000


async def refuse_if_robots_deny_all(store: JobStore, job: Job, scraper: Scraper, reach: Reach) -> None:
    """The same for a job whose items are in the store."""

    async def stored() -> AsyncGenerator[dict[str, Any], None]:
        after = 0
        while records := await store.items(job.job_id, after, _PAGE_ITEMS):
            for record in records:
                yield record.input
            after = records[-1].seq

    await refuse_if_robots_deny(stored, job, scraper, reach)


async def refuse_if_robots_deny(inputs: Inputs, job: Job, scraper: Scraper, reach: Reach) -> None:
    """Raises BadInput when not one item begins at an address that may be fetched.

    `reach` opens the way to the sites; a job that says nothing of where its items begin needs none.
    """
    async with contextlib.aclosing(inputs()) as looked_at:
        first = await anext(looked_at, None)
    if first is None or scraper.start_url(scraper.parse_input(first)) is None:
        return
    async with reach() as network:
        passage = Passage(network, job, lambda: None, contextlib.nullcontext, looks=True)
        try:
            async with asyncio.timeout(ASK_SECONDS), contextlib.aclosing(inputs()) as all_inputs:
                denied = await _first_if_all_denied(all_inputs, scraper, passage)
        except (TimeoutError, Failed, SiteHeld, StoreUnavailable):
            return
        finally:
            passage.end(None, None)
    if denied is not None:
        raise BadInput(
            f"robots.txt denies every item of the job, {denied} for one; with the owner's consent "
            f"set `robots: ignore` for the site in the file named by SWATH_SITES"
        )


def given_inputs(inputs: Iterable[dict[str, Any]]) -> Inputs:
    """Inputs that are at hand."""

    async def given() -> AsyncGenerator[dict[str, Any], None]:
        for one in inputs:
            yield one

    return given


async def _first_if_all_denied(inputs: AsyncIterator[dict[str, Any]], scraper: Scraper, passage: Passage) -> str | None:
    """The first address, if all are denied; None when one is not, or says nothing of where it begins."""
    first = None
    async for one in inputs:
        await asyncio.sleep(0)  # what robots.txt says is known soon, and there may be many items
        url = scraper.start_url(scraper.parse_input(one))
        if url is None or await passage.robots_allow(url):
            return None
        first = first or url
    return first
