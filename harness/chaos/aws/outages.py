"""Takes store, queue or bucket away while workers run, and checks what is reported and how soon work goes on (Z9)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import botocore.session

from harness.chaos.aws.check import check
from harness.chaos.aws.disturbed_run import NO_ANSWER
from harness.chaos.aws.job import AwsJob, SitePlan, make_job
from harness.chaos.aws.job_parts import JOB_ID, in_one
from harness.chaos.aws.raw_store import PlainTable
from harness.chaos.aws.site import served
from harness.chaos.findings import Findings, Kind
from harness.fakes.aws import Endpoints
from harness.fakes.listener import Listener
from harness.fakes.s3_faults import S3Faults, S3Rates
from harness.processes import ProcessGroup, log_errors, logs
from swath.backends.local_presence.worker_locks import Presence

__all__ = ["GOES_ON_SECONDS", "Blocking", "Forwarder", "Outage", "OutageTarget", "run_outage", "run_outages"]

_CHUNK_BYTES: Final = 65_536


class Blocking(StrEnum):
    """How a server is away."""

    REFUSES = "refuses"  # nobody listens, and what was open is cut
    SWALLOWS = "swallows"  # connections are there, and nothing ever comes back


class Forwarder(Listener):
    """Forwards bytes both ways while it is open."""

    def __init__(self, upstream_url: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream_url)
        self._swallows = False

    async def shut(self, how: Blocking) -> None:
        """From now on nobody gets through."""
        if how is Blocking.SWALLOWS:
            self._swallows = True
        else:
            await self.stop()

    async def open_again(self) -> None:
        """Lets everybody through again, on the same port; what was swallowed is cut, and never comes."""
        await self.stop()
        self._swallows = False
        await self.start()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, there and back, until either side ends it."""
        up_reader, up_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            ways = [asyncio.create_task(self._carry(*way)) for way in ((reader, up_writer), (up_reader, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            up_writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_CHUNK_BYTES):
            if not self._swallows:
                sink.write(data)
                await sink.drain()


REPORTED_SECONDS: Final = 5.0  # what Z9 allows
GOES_ON_SECONDS: Final = 15.0
ITEMS: Final = 100
SITE: Final = SitePlan(rate=20.0, concurrency=8, page_ms=100.0)
SLOW_SITE: Final = SitePlan(rate=5.0, concurrency=8, page_ms=100.0)


class OutageTarget(StrEnum):
    """What goes away, and how."""

    STORE_REFUSES = "store refuses connections"
    STORE_SWALLOWS = "store swallows requests"
    QUEUE_DELETED = "queue deleted and made anew"
    BUCKET_503 = "bucket answers 503"

    @property
    def waiting_for(self) -> str:
        """What a worker must say that it waits for."""
        return {"s": "store", "q": "queue", "b": "disk"}[self.value[0]]

    @property
    def told_seconds(self) -> float:
        """By when it must. A request that waits at SQS is answered after twenty seconds at the latest."""
        return REPORTED_SECONDS + (20.0 if self is OutageTarget.QUEUE_DELETED else 0.0)

    def plan(self, seconds: float) -> tuple[SitePlan, int]:
        """The site, and items enough that some are left when it is over: without a queue the work goes on."""
        if self is OutageTarget.QUEUE_DELETED:
            return SLOW_SITE, round(SLOW_SITE.rate * (max(seconds, self.told_seconds) + 8.0))
        return SITE, ITEMS


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Seconds from its beginning until the log and the host's notes (of which status tells) named it, and from its end
    until the job went on and nobody waited any more; None when that did not come."""

    what: OutageTarget
    seconds: float
    log_seconds: float | None
    status_seconds: float | None
    went_on_seconds: float | None
    forgotten_seconds: float | None

    def judge(self, findings: Findings) -> None:
        """Holds it against Z9."""
        for name, value, most in (
            ("the log did not say what it waits for", self.log_seconds, self.what.told_seconds),
            ("status would not say what it waits for", self.status_seconds, self.what.told_seconds),
            ("work did not go on", self.went_on_seconds, GOES_ON_SECONDS),
            ("it is back, and still waited for", self.forgotten_seconds, GOES_ON_SECONDS),
        ):
            fine = value is not None and value <= most
            findings.expect(fine, Kind.WRONG, self.what, f"{name} within {most:g} s ({_reported_after(value)})")

    def as_row(self) -> dict[str, Any]:
        """For the report."""
        told = (
            f"{self.seconds:g} s; said in the log after {_reported_after(self.log_seconds)}, "
            f"in the notes for status after {_reported_after(self.status_seconds)}; "
            f"back: went on after {_reported_after(self.went_on_seconds)}, nobody waited after "
            f"{_reported_after(self.forgotten_seconds)}"
        )
        return {**asdict(self), "name": self.what.value, "told": told}


def _reported_after(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


START_SECONDS: Final = 60.0
END_SECONDS: Final = 240.0
LOOK_SECONDS: Final = 0.1
BEGUN_ITEMS: Final = 8
WORKERS: Final = 3


def run_outages(folder: Path, endpoints: Endpoints, seconds: float, findings: Findings) -> list[dict[str, Any]]:
    """All of them, one after the other."""
    rows = []
    for number, what in enumerate(OutageTarget):
        own = Findings()
        outage = run_outage(folder / str(number), endpoints, what, seconds, own)
        outage.judge(own)
        findings.take(own, what.value)
        rows.append(outage.as_row())
        print(f"{what.value}: {rows[-1]['told']}", flush=True)
    return rows


def run_outage(folder: Path, endpoints: Endpoints, what: OutageTarget, seconds: float, findings: Findings) -> Outage:
    """One of them. What is wrong with the job in the end is among the findings; `judge` says the rest."""
    folder.mkdir(parents=True)
    with served("county", str(folder / "site.log"), str(what.plan(seconds)[0].page_ms)) as site_url:
        job = _job(folder, endpoints, what, seconds, site_url)
        outage = asyncio.run(_OutageRun(job, what, findings).run(seconds))
    findings.take(check(job).findings, "check")
    for line in log_errors(job.log):
        if what is OutageTarget.BUCKET_503 and NO_ANSWER in line:
            continue  # it was back when a worker looked whether anything else in it can be used
        findings.add(Kind.WRONG, "a process said", line)
    return outage


def _job(folder: Path, endpoints: Endpoints, what: OutageTarget, seconds: float, site_url: str) -> AwsJob:
    site, items = what.plan(seconds)
    # Only who has nothing to do listens to the queue, so then the job can use fewer workers than there are.
    concurrency = 2 if what is OutageTarget.QUEUE_DELETED else 8
    named = AwsJob(
        folder=folder / "job",
        items=items,
        parts=(in_one(items, concurrency),),
        name=f"outage-{secrets.token_hex(3)}",
        endpoints=endpoints,
        site=site,
        site_url=site_url,
    )
    return make_job(named)


class _OutageRun:
    def __init__(self, job: AwsJob, what: OutageTarget, findings: Findings) -> None:
        self._job = job
        self._what = what
        self._findings = findings
        self._gate = Forwarder(job.endpoints.dynamodb_url)
        self._bucket = S3Faults(job.endpoints.s3_url, 0, S3Rates())
        self._table = PlainTable(job.endpoints, job.name)
        self._number = 0

    async def run(self, seconds: float) -> Outage:
        job = self._job
        await self._swath(job, "aws", "init")
        await self._swath(job, *job.create_arguments(job.parts[0]))
        self._number = self._table.number(JOB_ID) or 0
        async with self._gate, self._bucket:
            detours = {"AWS_ENDPOINT_URL_DYNAMODB": self._gate.url, "AWS_ENDPOINT_URL_S3": self._bucket.url}
            pack = ProcessGroup({"worker": job.command(["worker"])}, job.environment(detours), job.log)
            with pack:
                for _ in range(WORKERS):
                    pack.start("worker")
                outage = await self._suffer(job, seconds)
                await self._until(lambda: self._done() >= job.items, END_SECONDS)
                await self._until(lambda: self._table.moment(self._number).over, END_SECONDS)
                await self._send_home(pack)
        self._table.close()
        return outage

    async def _suffer(self, job: AwsJob, seconds: float) -> Outage:
        await self._until(lambda: self._done() >= BEGUN_ITEMS, START_SECONDS)
        await asyncio.sleep(1.0)  # so that all of them are at work, or at the queue
        notes = Presence(job.host(0) / "workers")
        await self._until(lambda: notes.waiting_for() is None, START_SECONDS)  # a busy machine may be late by itself
        waiting_for, most = self._what.waiting_for, 2 * self._what.told_seconds
        logged_before = _lines(job, waiting_for)
        async with self._away(job):
            if self._what is OutageTarget.BUCKET_503:  # which nobody can know before the bucket is asked for something
                await self._until(lambda: self._bucket.injected["slow_down"] > 0, START_SECONDS)
            began = time.monotonic()
            log_seconds, status_seconds = await asyncio.gather(
                self._until(lambda: _lines(job, waiting_for) > logged_before, most, began),
                self._until(lambda: notes.waiting_for() == waiting_for, most, began),
            )
            await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
            stood = await asyncio.to_thread(self._done)
            state = (await asyncio.to_thread(self._table.moment, self._number)).state
            self._findings.expect(state == "running", Kind.WRONG, JOB_ID, f"it is {state} while it waits")
        back = time.monotonic()
        went_on = await self._until(lambda: self._done() > stood, 3 * GOES_ON_SECONDS)
        forgotten = await self._until(lambda: notes.waiting_for() is None, 3 * GOES_ON_SECONDS, back)
        return Outage(
            what=self._what,
            seconds=seconds,
            log_seconds=log_seconds,
            status_seconds=status_seconds,
            went_on_seconds=went_on,
            forgotten_seconds=forgotten,
        )

    @contextlib.asynccontextmanager
    async def _away(self, job: AwsJob) -> AsyncIterator[None]:
        """Takes it away, and brings it back."""
        if self._what is OutageTarget.QUEUE_DELETED:
            await asyncio.to_thread(_delete_queues, job.endpoints, job.name)
            yield
            await self._swath(job, "aws", "init")
        elif self._what is OutageTarget.BUCKET_503:
            self._bucket.rates = S3Rates(slow_down=1.0)
            yield
            self._bucket.rates = S3Rates()
        else:
            await self._gate.shut(Blocking.REFUSES if self._what is OutageTarget.STORE_REFUSES else Blocking.SWALLOWS)
            yield
            await self._gate.open_again()

    def _done(self) -> int:
        return self._table.moment(self._number).done

    async def _until(self, is_so: Callable[[], bool], seconds: float, since: float | None = None) -> float | None:
        """How long it took, from now or since then; None when it took longer than it may."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if await asyncio.to_thread(is_so):
                return time.monotonic() - (began if since is None else since)
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _swath(self, job: AwsJob, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *job.command(list(arguments)), env=job.environment(), stdout=asyncio.subprocess.DEVNULL
        )
        if code := await process.wait():
            raise SystemExit(f"{arguments}: exit code {code}")

    async def _send_home(self, pack: ProcessGroup) -> None:
        for process in pack.alive:
            process.send(signal.SIGTERM)
        await self._until(lambda: all(process.popen.poll() is not None for process in pack.alive), 30.0)
        for process in pack.alive:
            code = process.popen.poll()
            self._findings.expect(code == 0, Kind.WRONG, "worker", process.told_end)


def _lines(job: AwsJob, what: str) -> int:
    said = (log.read_text(encoding="utf-8", errors="replace") for log in logs(job.log))
    return sum(text.count(f"waiting_for: {what}") for text in said)


def _delete_queues(endpoints: Endpoints, name: str) -> None:
    session: Any = botocore.session.Session()
    client: Any = session.create_client(
        "sqs",
        region_name=endpoints.region,
        endpoint_url=endpoints.sqs_url,
        aws_access_key_id=endpoints.access_key,
        aws_secret_access_key=endpoints.secret_key,
    )
    with contextlib.closing(client):
        for queue in (name, f"{name}-express", f"{name}-dead"):
            client.delete_queue(QueueUrl=client.get_queue_url(QueueName=queue)["QueueUrl"])
