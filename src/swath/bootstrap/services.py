"""Opens the store, queue, results and site policies that the settings name."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict

from swath.backends.clock import SystemClock
from swath.backends.polling_queue import PollingQueue
from swath.backends.private_files import make_folder
from swath.backends.sqlite.file_changes import OpenFiles
from swath.backends.sqlite.read_only import store_file
from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState
from swath.fetch.sites.policies import SiteDirectory
from swath.pipeline.worker.site_outlook import with_site_outlook
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from swath.ports.site_state import SiteState
from swath.ports.store import Store
from swath.ports.work_queue import Leader, WorkQueue
from swath.settings import DynamoLocation, S3Location, Settings, SqliteLocation

__all__ = [
    "Services",
    "check_results",
    "check_services",
    "make_directory",
    "new_worker_id",
    "open_services",
    "open_sites",
    "require_aws",
    "store_watch",
]

_log = logging.getLogger("swath")

AWS_TIMEOUT_SECONDS: Final = 15.0  # with AWS, before a call counts as not answered
READ_ONLY_TIMEOUT_SECONDS: Final = 3.0
_MAY_RUN: Final = (JobState.PENDING, JobState.RUNNING)
_AWS_LIBRARIES: Final = ("aiobotocore", "obstore")


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The back end of one process. `queue` is the end of it that the worker of this process has; `leader` makes a
    candidate of a worker, where one of them has to do something for all."""

    settings: Settings
    clock: Clock
    store: Store
    queue: WorkQueue
    storage: ResultStorage
    sites: SiteState
    directory: SiteDirectory
    leader: Callable[[str], Leader] | None = None

    async def status(self, job_id: str) -> JobStatus:
        """Where a job stands, with what its sites and its results folder mean for it, if that can be told."""
        status = await self.with_trouble(await self.store.status(job_id))
        try:
            return await with_site_outlook(status, self.directory, self.sites, self.clock)
        except (StoreUnavailable, UserError):
            return status

    async def with_trouble(self, status: JobStatus) -> JobStatus:
        """The same, with what is wrong with its results folder or its scraper, if anything is."""
        if status.state.terminal and not status.deleting:
            return status
        try:
            trouble = await self.storage.trouble(status.job.job_id)
        except (StoreUnavailable, UserError):
            return status
        if trouble is not None:
            return msgspec.structs.replace(status, waiting_for=WaitingFor.DISK, waiting_reason=trouble)
        return await self._with_scraper(status)

    async def _with_scraper(self, status: JobStatus) -> JobStatus:
        """A worker that has the scraper in memory goes on without its file, and one on another machine has files of its
        own: so only a job that nobody works on is looked at, and only where all workers are on this machine."""
        counts, job = status.counts, status.job
        rests = counts.pending > 0 and not counts.queued + counts.in_progress
        if not rests or status.waiting_for is not None or status.state not in _MAY_RUN or self.settings.places.uses_aws:
            return status
        trouble = await asyncio.to_thread(_scraper_problem, self.settings, job)
        if trouble is None:
            return status
        return msgspec.structs.replace(status, waiting_for=WaitingFor.SCRAPER, waiting_reason=trouble)


def _scraper_problem(settings: Settings, job: Job) -> str | None:
    from swath.bootstrap.scrapers import scraper_problem

    return scraper_problem(settings, job)


@asynccontextmanager
async def open_services(
    settings: Settings, *, only_looks: bool = False, must_exist: bool = False
) -> AsyncIterator[Services]:
    """What the settings name: store, queue, results, and the site policies. The back end is chosen by URL (Q4).

    Who only looks is told soon when AWS does not answer. A SQLite store that `must_exist` is not created.
    """
    patience_seconds = READ_ONLY_TIMEOUT_SECONDS if only_looks else AWS_TIMEOUT_SECONDS
    clock, places = SystemClock(), settings.places
    directory = make_directory(settings)
    if places.uses_aws:
        require_aws()
    async with AsyncExitStack() as stack:
        if isinstance(places.store, DynamoLocation):
            back_end = await _open_aws(stack, settings, places.store, clock, patience_seconds=patience_seconds)
        else:
            back_end = _open_embedded(stack, settings, places.store, clock, must_exist=must_exist)
        storage = _open_results(stack, settings, clock)
        yield Services(settings=settings, clock=clock, storage=storage, directory=directory, **asdict(back_end))


class _BackEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What comes from one hand, because it shares a file or a table."""

    store: Store
    queue: WorkQueue
    sites: SiteState
    leader: Callable[[str], Leader] | None = None


def _open_embedded(
    stack: AsyncExitStack, settings: Settings, place: SqliteLocation, clock: Clock, *, must_exist: bool
) -> _BackEnd:
    with suppress(OSError):  # said by who cannot do without
        make_folder(place.folder, settings.data_mode)
    store = SqliteStore.open(place.folder, clock, settings.lease_seconds, must_exist=must_exist)
    stack.push_async_callback(store.close)
    sites = SqliteSiteState(place.folder, clock)
    stack.push_async_callback(sites.close)
    return _BackEnd(store=store, queue=PollingQueue(clock), sites=sites)


async def _open_aws(
    stack: AsyncExitStack,
    settings: Settings,
    place: DynamoLocation,
    clock: Clock,
    *,
    patience_seconds: float = AWS_TIMEOUT_SECONDS,
) -> _BackEnd:
    from swath.backends.aws.backend import AwsNames, open_aws_backend

    queue = settings.places.queue
    names = AwsNames(
        table=place.table,
        table_region=place.region,
        queue=place.table if queue is None else queue.name,
        queue_region=None if queue is None else queue.region,
    )
    fleet = await stack.enter_async_context(
        open_aws_backend(names, settings.data, clock, settings.lease_seconds, patience_seconds)
    )
    return _BackEnd(store=fleet.store, queue=fleet.queue, sites=fleet.sites, leader=fleet.leader)


def _open_results(stack: AsyncExitStack, settings: Settings, clock: Clock) -> ResultStorage:
    place = settings.places.results
    if isinstance(place, S3Location):
        from swath.backends.aws.s3.results import S3Results

        remote = S3Results.open(str(place), clock)
        stack.callback(lambda: _log.info("asked of S3: %s", dict(remote.meter.requests)))
        stack.push_async_callback(remote.close)
        return remote
    folder = FolderResults(place.folder, fsync=settings.fsync, folder_mode=settings.results_mode)
    stack.push_async_callback(folder.close)
    return folder


@asynccontextmanager
async def open_sites(settings: Settings) -> AsyncIterator[SiteState]:
    """The site book alone, for who only looks and does not wait: it can be read when the store cannot be opened."""
    place, clock = settings.places.store, SystemClock()
    async with AsyncExitStack() as stack:
        if isinstance(place, DynamoLocation):
            require_aws()
            yield (await _open_aws(stack, settings, place, clock, patience_seconds=READ_ONLY_TIMEOUT_SECONDS)).sites
        else:
            book = SqliteSiteState(place.folder, clock)
            stack.push_async_callback(book.close)
            yield book


def require_aws() -> None:
    """Raises UserError when the libraries of the AWS back end are not installed."""
    if any(importlib.util.find_spec(name) is None for name in _AWS_LIBRARIES):
        raise UserError("the AWS back end is not installed; get it with: pip install 'swath[aws]'")


def make_directory(settings: Settings) -> SiteDirectory:
    """Shipped and own site policies; the demo site is where the settings say it is. Raises BadInput."""
    return SiteDirectory.load(settings.sites, {"demo-county": [urlsplit(settings.demo_url).netloc]})


async def check_services(services: Services) -> None:
    """A mistake is said once, before anything is started: a folder that is only for reading, a table or a bucket that
    was never made. Raises UserError.

    A full disk or a locked store is no mistake: a worker waits for them.
    """
    with suppress(StoreUnavailable):
        await services.store.backlog()
        await services.store.renew(new_worker_id(), [])  # changes nothing, but could
    await check_results(services)


async def check_results(services: Services) -> None:
    """Raises UserError when the place for results cannot be used: before work begins, not in its midst."""
    if isinstance(services.settings.places.results, S3Location):
        with suppress(KeyError, StoreUnavailable):  # a worker waits for what does not answer
            await services.storage.get("swath", "job_metadata.json")


def store_watch(settings: Settings) -> Callable[[], None]:
    """A check for a process that starts others, and does not have the store open itself: it raises StoreReplaced once
    the store's file is not the one that is there now. On AWS there is no such file."""
    place = settings.places.store
    if not isinstance(place, SqliteLocation):
        return lambda: None
    files = OpenFiles(store_file(place.folder), with_log=False)
    files.opened(lambda: None)
    return files.check


def new_worker_id() -> str:
    """Host, process and a little chance: plain enough to name a file."""
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
