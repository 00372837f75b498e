"""Opens one browser session for `swath recording try`, under the same rules as an item of a job.

Nothing is stored, and the outcome counts neither for nor against the site.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from swath.bootstrap.network import open_outbound
from swath.bootstrap.services import Services
from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.fetch.http.client.request_gate import SiteRequestGate
from swath.pipeline.worker.browser_placement import BrowserPlace, visit_of
from swath.pipeline.worker.item_timeout import ItemTimeout
from swath.sdk.scraper import Scraper

if TYPE_CHECKING:
    from swath.fetch.browser.tab.session import BrowserSession

__all__ = ["open_try_session"]

_JOB_ID = "try"


@asynccontextmanager
async def open_try_session(
    services: Services, scraper: Scraper, source: str | None, start_url: str | None
) -> AsyncIterator[BrowserSession]:
    """A session for one attempt of this scraper, bounded as an item's is. `source` is its file, if it has one.

    Raises Failed, SiteHeld, and BadInput when there can be no browser here.
    """
    job = Job(job_id=_JOB_ID, scraper_id=scraper.id, scraper_source=source)
    patience, seconds = ItemTimeout(), job.policy.timeouts.item_seconds
    async with open_outbound(services) as outside:
        desk = outside.browsers(lambda: None)
        site = "" if start_url is None else services.directory.of(start_url).name
        picked = desk.pick([site])
        if picked is None:
            raise BadInput("there is no room for a browser: set SWATH_BROWSERS to 1 or more")
        gate = SiteRequestGate(outside.network, job, lambda: None, patience.waiting)
        visit = visit_of(BrowserPlace(picked[1], site), scraper, job, gate)
        try:
            async with patience.limit(seconds), desk.visit(picked[1], visit) as session:
                yield session
        except TimeoutError:
            raise Failed(Failure.of(FailureKind.TIMEOUT, f"the item took longer than {seconds:g} s")) from None
        finally:
            gate.end(None, None)  # a recording that is still being tried out says nothing of the site or the proxy
