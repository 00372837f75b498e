"""ServerResults: the results behind a controller, asked over its API; does what cli/jobs/results_here.py does here.

Before: cli/jobs/results.py chose it, because of `--server` or SWATH_SERVER. After: the controller.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, BinaryIO

import msgspec

from swath.domain.errors import SwathError, UnknownName
from swath.domain.job import Counts, Job, JobStatus
from swath.domain.transitions import JobState
from swath.domain.versions import SAMPLE_LABEL
from swath.entrypoints.cli.export_progress import Steps, steps
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.remote.answers import Client, Refused
from swath.entrypoints.cli.remote.lines import lines_of
from swath.entrypoints.cli.remote.shapes import status_of
from swath.pipeline.finish.report import VerifyReport
from swath.pipeline.results.compare_report import Difference, Question, Summary
from swath.pipeline.results.compare_text import difference_of
from swath.pipeline.results.diff import Diff
from swath.pipeline.results.versions import Version

__all__ = ["ServerResults"]


class ServerResults:
    """See Results."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def status(self, job_id: str) -> JobStatus:
        """See Results."""
        view = await self._client.ask("GET", "jobs", job_id, "status")
        with self._client.understanding():
            return status_of(view)

    async def versions(self, job_id: str) -> list[Version]:
        """See Results."""
        views = await self._views(job_id)
        with self._client.understanding():
            return [_version_of(view, job_id) for view in views]

    async def diff(self, job_id: str, made_by: str) -> Diff | None:
        """See Results."""
        views = await self._views(job_id)
        with self._client.understanding():
            found = next((view["diff"] for view in views if view["job_id"] == made_by), None)
            return None if found is None else msgspec.convert(found, Diff)

    async def _views(self, job_id: str) -> list[dict[str, Any]]:
        answer = await self._client.ask("GET", "jobs", job_id, "versions")
        with self._client.understanding():
            found: list[dict[str, Any]] = answer["versions"]
            return found

    async def use(self, job_id: str, number: int) -> JobStatus:
        """See Results."""
        view = await self._client.ask("POST", "jobs", job_id, "versions", "current", body={"version": number})
        with self._client.understanding():
            return status_of(view)

    async def verify(self, job_id: str) -> VerifyReport:
        """See Results."""
        total = (await self.status(job_id)).counts.total
        with steps(total, "verifying") as shown:
            async with aclosing(lines_of(self._client, "jobs", job_id, "verify", told=_adding(shown))) as lines:
                async for line in lines:
                    with self._client.understanding():
                        return msgspec.convert(line["report"], VerifyReport)
        raise SwathError(f"{self._client.address.url} ended its answer without a report")

    @asynccontextmanager
    async def compared(self, a: str, b: str, question: Question) -> AsyncIterator[_Spooled]:
        """See Results."""
        total = sum([(await self.status(job_id)).counts.total for job_id in (a, b)])
        query = {"against": a, "key": question.key, "fields": question.fields, "ignore": question.ignore}
        summary: Summary | None = None
        with _unknown_names(), tempfile.TemporaryFile(prefix="swath-compare-") as spool:
            with steps(total, "comparing") as shown:
                asked = lines_of(self._client, "jobs", b, "compare", query=query, told=_adding(shown))
                async with aclosing(asked) as lines:
                    async for line in lines:
                        with self._client.understanding():
                            if summary is None:
                                summary = msgspec.convert(line["summary"], Summary)
                                continue
                            found = difference_of(line["difference"], summary.key)
                        await asyncio.to_thread(spool.write, msgspec.json.encode(found) + b"\n")
            if summary is None:
                raise SwathError(f"{self._client.address.url} ended its answer without a summary")
            yield _Spooled(summary, spool)

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """See Results."""
        del made_by
        return self._client.address.url + self._client.address.path("jobs", job_id, "versions")

    def command(self, *words: str) -> str:
        """See Results."""
        return command(*words, "--server", self._client.address.url)


class _Spooled:
    """Differences that came over the wire; in a file, since there may be more than fit into memory."""

    def __init__(self, summary: Summary, spool: BinaryIO) -> None:
        self._summary = summary
        self._spool = spool

    def summary(self) -> Summary:
        """See Differences."""
        return self._summary

    def differences(self) -> Iterator[Difference]:
        """See Differences."""
        self._spool.seek(0)
        for line in self._spool:
            yield msgspec.json.decode(line, type=Difference)


@contextmanager
def _unknown_names() -> Iterator[None]:
    """A field that no record has is an unknown name, as it is in a store that is here."""
    try:
        yield
    except Refused as refused:
        raise (UnknownName(str(refused)) if refused.details.get("unknown") else refused) from None


def _adding(shown: Steps) -> Callable[[int, int], None]:
    """The controller says how many are done; the display hears how many more."""
    known = 0

    def told(done: int, total: int) -> None:
        nonlocal known
        del total
        shown.add(max(0, done - known))
        known = max(known, done)

    return told


def _version_of(view: Mapping[str, Any], job_id: str) -> Version:
    number = view["version"]
    job = Job(
        job_id=view["job_id"],
        scraper_id=view["scraper_id"],
        extracts=None if number == 1 else job_id,
        labels={SAMPLE_LABEL: "yes"} if view["sample"] else {},
    )
    status = JobStatus(
        job=job,
        state=JobState(view["status"]),
        counts=msgspec.convert(view["counts"], Counts),
        ended_at=view["ended_at"],
    )
    return Version(number, status, view["scraper_version"], view["current"])
