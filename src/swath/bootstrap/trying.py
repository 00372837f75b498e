"""One browser session by hand, under the same rules as an item of a job: guard, site policies, robots.txt, ways out.

For `swath recording try`. Before: services.py. After: whoever has the session plays in it; nothing goes to the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from swath.bootstrap.network import open_outside
from swath.bootstrap.services import Services
from swath.domain.attempt import Finding
from swath.domain.errors import BadInput, Failed, NotFound
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.kit.scraper import Scraper
from swath.pipeline.execute.browsers import Place, visit_of
from swath.pipeline.execute.patience import Patience
from swath.web.passage import Passage

if TYPE_CHECKING:
    from swath.browser.session.session import BrowserSession

__all__ = ["open_visit"]

_JOB_ID = "try"


@asynccontextmanager
async def open_visit(services: Services, scraper: Scraper, start_url: str | None) -> AsyncIterator[BrowserSession]:
    """A session for one attempt of this scraper, bounded as an item's is. Raises Failed, SiteHeld, and BadInput when
    there can be no browser here."""
    job = Job(job_id=_JOB_ID, scraper_id=scraper.id)
    patience, seconds = Patience(), job.policy.timeouts.item_seconds
    async with open_outside(services) as outside:
        desk = outside.browsers(lambda: None)
        site = "" if start_url is None else services.directory.of(start_url).name
        picked = desk.pick([site])
        if picked is None:
            raise BadInput("there is no room for a browser: set SWATH_BROWSERS to 1 or more")
        gate = Passage(outside.network, job, lambda: None, patience.waiting)
        visit = visit_of(Place(picked[1], site), scraper, job, gate)
        finding: Finding | None = None
        failure: Failure | None = None
        try:
            async with patience.limit(seconds), desk.visit(picked[1], visit) as session:
                yield session
            finding = Finding.FOUND
        except NotFound:
            finding = Finding.NOT_FOUND
            raise
        except Failed as failed:
            failure = failed.failure
            raise
        except TimeoutError:
            failure = Failure.of(FailureKind.TIMEOUT, f"the item took longer than {seconds:g} s")
            raise Failed(failure) from None
        finally:
            gate.end(finding, failure)
