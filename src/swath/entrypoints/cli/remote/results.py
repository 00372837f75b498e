"""Results of a controller, over its API: versions, verify, compare, export and re-extraction (R4 to R7)."""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlencode

import click
import msgspec

from swath.domain.errors import BadInput, SwathError, UnknownName
from swath.domain.job import Counts, Job, JobStatus
from swath.domain.result_versions import SAMPLE_LABEL
from swath.domain.transitions import JobState
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import ProgressDisplay, StepCounter, show_steps
from swath.entrypoints.cli.remote.client import ControllerClient, RequestRefused, json_lines, status_from_view
from swath.entrypoints.cli.remote.jobs import follow_job
from swath.pipeline.results.compare.report import CompareRequest, CompareSummary, Difference, parse_difference
from swath.pipeline.results.export.exporter import ExportFormat, ExportRequest
from swath.pipeline.results.export.output_file import check_target, open_output
from swath.pipeline.results.verify.report import VerifyReport
from swath.pipeline.results.versions.diff import Diff
from swath.pipeline.results.versions.lifecycle import Version

__all__ = ["RemoteResults", "export_remote", "reextract_remote", "remote_status"]


class RemoteResults:
    """See Results."""

    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def status(self, job_id: str) -> JobStatus:
        """See Results."""
        view = await self._client.ask("GET", "jobs", job_id, "status")
        with self._client.understanding():
            return status_from_view(view)

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
            return status_from_view(view)

    async def verify(self, job_id: str) -> VerifyReport:
        """See Results."""
        total = (await self.status(job_id)).counts.total
        with show_steps(total, "verifying") as shown:
            async with aclosing(
                json_lines(self._client, "jobs", job_id, "verify", told=_as_increments(shown))
            ) as lines:
                async for line in lines:
                    with self._client.understanding():
                        return msgspec.convert(line["report"], VerifyReport)
        raise SwathError(f"{self._client.address.url} ended its answer without a report")

    @asynccontextmanager
    async def compared(self, a: str, b: str, question: CompareRequest) -> AsyncIterator[_SpooledDifferences]:
        """See Results."""
        total = sum([(await self.status(job_id)).counts.total for job_id in (a, b)])
        query = {"against": a, "key": question.key, "fields": question.fields, "ignore": question.ignore}
        summary: CompareSummary | None = None
        with _unknown_names_as_errors(), tempfile.TemporaryFile(prefix="swath-compare-") as spool:
            with show_steps(total, "comparing") as shown:
                asked = json_lines(self._client, "jobs", b, "compare", query=query, told=_as_increments(shown))
                async with aclosing(asked) as lines:
                    async for line in lines:
                        with self._client.understanding():
                            if summary is None:
                                summary = msgspec.convert(line["summary"], CompareSummary)
                                continue
                            found = parse_difference(line["difference"], summary.key)
                        await asyncio.to_thread(spool.write, msgspec.json.encode(found) + b"\n")
            if summary is None:
                raise SwathError(f"{self._client.address.url} ended its answer without a summary")
            yield _SpooledDifferences(summary, spool)

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """See Results."""
        del made_by
        return self._client.address.url + self._client.address.path("jobs", job_id, "versions")

    def command(self, *words: str) -> str:
        """See Results."""
        return command(*words, "--server", self._client.address.url)


class _SpooledDifferences:
    """Differences that came over the wire; in a file, since there may be more than fit into memory."""

    def __init__(self, summary: CompareSummary, spool: BinaryIO) -> None:
        self._summary = summary
        self._spool = spool

    def summary(self) -> CompareSummary:
        """See Differences."""
        return self._summary

    def differences(self) -> Iterator[Difference]:
        """See Differences."""
        self._spool.seek(0)
        for line in self._spool:
            yield msgspec.json.decode(line, type=Difference)


@contextmanager
def _unknown_names_as_errors() -> Iterator[None]:
    """A field that no record has is an unknown name, as it is in a store that is here."""
    try:
        yield
    except RequestRefused as refused:
        raise (UnknownName(str(refused)) if refused.details.get("unknown") else refused) from None


def _as_increments(shown: StepCounter) -> Callable[[int, int], None]:
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


async def remote_status(client: ControllerClient, job_id: str) -> JobStatus:
    """Where the job stands."""
    view = await client.ask("GET", "jobs", job_id, "status")
    with client.understanding():
        return status_from_view(view)


async def export_remote(
    client: ControllerClient, job_id: str, wish: ExportRequest, target: Path | None, *, replace: bool
) -> int:
    """Writes the export to that file or folder, or to stdout; answers with how many bytes. Raises BadInput when it
    cannot be written there, and Unreachable when it breaks off."""
    async with aclosing(_pieces(client, job_id, wish)) as pieces:
        if target is None:
            return await _to_stdout(pieces)
        folder = wish.format is ExportFormat.FILES
        real = check_target(target, folder=folder, replace=replace)
        try:
            with open_output(real, folder=folder) as part:
                size = await (_to_folder(pieces, part.path) if folder else _to_file(pieces, part.path))
                await asyncio.to_thread(part.publish, replace=replace)
        except OSError as error:
            raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error
        return size


async def _pieces(client: ControllerClient, job_id: str, wish: ExportRequest) -> AsyncGenerator[bytes, None]:
    query = {
        "format": wish.format.value,
        "raw": str(wish.raw).lower(),
        "state": "all" if wish.everything else "success",
        "partial": str(wish.partial).lower(),
    }
    path = f"{client.address.path('jobs', job_id, 'export')}?{urlencode(query)}"
    async with client.wire.streaming(path, {}) as stream:
        if stream.status != 200:
            client.data_of(await stream.whole())
        async for piece in stream.pieces():
            yield piece


async def _to_stdout(pieces: AsyncGenerator[bytes, None]) -> int:
    size = 0
    async for piece in pieces:
        size += len(piece)
        await asyncio.to_thread(click.echo, piece, nl=False)
    return size


async def _to_file(pieces: AsyncGenerator[bytes, None], path: Path) -> int:
    with path.open("wb") as file:
        return await _write(pieces, file)


async def _to_folder(pieces: AsyncGenerator[bytes, None], folder: Path) -> int:
    """What comes is an archive; it is kept beside the folder until all of it is there."""
    with tempfile.TemporaryFile(dir=folder.parent, prefix=".swath-") as archive:
        await _write(pieces, archive)
        archive.seek(0)
        return await asyncio.to_thread(_unpack, archive, folder)


async def _write(pieces: AsyncGenerator[bytes, None], file: BinaryIO) -> int:
    size = 0
    async for piece in pieces:
        size += len(piece)
        await asyncio.to_thread(file.write, piece)
    return size


def _unpack(archive: BinaryIO, folder: Path) -> int:
    """Plain files below the folder, and nothing else: what a controller sends must not be written anywhere else."""
    size = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if not member.isreg() or name.is_absolute() or ".." in name.parts:
                    raise SwathError(f"the archive has {member.name!r}, which is no file of an export")
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                found = tar.extractfile(member)
                data = b"" if found is None else found.read()
                path.write_bytes(data)
                size += len(data)
    except tarfile.TarError as error:
        raise SwathError(f"the archive cannot be read: {error}") from error
    return size


async def reextract_remote(
    client: ControllerClient,
    job_id: str,
    scraper: str,
    wish: dict[str, Any],
    display: ProgressDisplay,
    stop: asyncio.Event,
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
        status = status_from_view(view)
    async with aclosing(follow_job(client, status.job.job_id, display.note)) as statuses:
        while not status.state.terminal and (following := await _next_status(statuses, stop)) is not None:
            status = following
            display.show(status)
    return status


async def _next_status(statuses: AsyncGenerator[JobStatus, None], stop: asyncio.Event) -> JobStatus | None:
    coming, stopped = asyncio.ensure_future(anext(statuses)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        stopped.cancel()
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
