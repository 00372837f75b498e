"""Store, queue and bucket go away while workers run, and come back (Z9): what is said, and how soon work goes on.

Each outage has a job and workers of its own. How far the job is, is read past the outage (reading.py); that nothing was
lost is found out by check.py, as after a storm.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import botocore.session

from swath.backends.host.presence import Presence
from swath.testing.aws_s3_faults import S3Faults, S3Rates
from swath.testing.aws_servers import Endpoints
from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos.processes import Pack, log_errors, logs
from swath.testing.chaos_aws.check import check
from swath.testing.chaos_aws.disturbed import NO_ANSWER
from swath.testing.chaos_aws.gate import Gate, Shut
from swath.testing.chaos_aws.job import AwsJob, make_job
from swath.testing.chaos_aws.outage import GOES_ON_SECONDS, Outage, What
from swath.testing.chaos_aws.parts import JOB_ID, in_one
from swath.testing.chaos_aws.reading import PlainTable
from swath.testing.chaos_aws.site import served

__all__ = ["run_outage", "run_outages"]

START_SECONDS: Final = 60.0
END_SECONDS: Final = 240.0
LOOK_SECONDS: Final = 0.1
BEGUN_ITEMS: Final = 8
WORKERS: Final = 3


def run_outages(folder: Path, endpoints: Endpoints, seconds: float, findings: Findings) -> list[dict[str, Any]]:
    """All of them, one after the other."""
    rows = []
    for number, what in enumerate(What):
        own = Findings()
        outage = run_outage(folder / str(number), endpoints, what, seconds, own)
        outage.judge(own)
        findings.take(own, what.value)
        rows.append(outage.as_row())
        print(f"{what.value}: {rows[-1]['told']}", flush=True)
    return rows


def run_outage(folder: Path, endpoints: Endpoints, what: What, seconds: float, findings: Findings) -> Outage:
    """One of them. What is wrong with the job in the end is among the findings; `judge` says the rest."""
    folder.mkdir(parents=True)
    with served("county", str(folder / "site.log"), str(what.plan(seconds)[0].page_ms)) as site_url:
        job = _job(folder, endpoints, what, seconds, site_url)
        outage = asyncio.run(_Run(job, what, findings).run(seconds))
    findings.take(check(job).findings, "check")
    for line in log_errors(job.log):
        if what is What.BUCKET_503 and NO_ANSWER in line:
            continue  # it was back when a worker looked whether anything else in it can be used
        findings.add(Kind.WRONG, "a process said", line)
    return outage


def _job(folder: Path, endpoints: Endpoints, what: What, seconds: float, site_url: str) -> AwsJob:
    site, items = what.plan(seconds)
    # Only who has nothing to do listens to the queue, so then the job can use fewer workers than there are.
    concurrency = 2 if what is What.QUEUE_DELETED else 8
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


class _Run:
    def __init__(self, job: AwsJob, what: What, findings: Findings) -> None:
        self._job = job
        self._what = what
        self._findings = findings
        self._gate = Gate(job.endpoints.dynamodb_url)
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
            pack = Pack({"worker": job.command(["worker"])}, job.environment(detours), job.log)
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
            if self._what is What.BUCKET_503:  # which nobody can know before the bucket is asked for something
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
        if self._what is What.QUEUE_DELETED:
            await asyncio.to_thread(_delete_queues, job.endpoints, job.name)
            yield
            await self._swath(job, "aws", "init")
        elif self._what is What.BUCKET_503:
            self._bucket.rates = S3Rates(slow_down=1.0)
            yield
            self._bucket.rates = S3Rates()
        else:
            await self._gate.shut(Shut.REFUSES if self._what is What.STORE_REFUSES else Shut.SWALLOWS)
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

    async def _send_home(self, pack: Pack) -> None:
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
