"""Z10 on AWS: while the bucket refuses the results of one job, its site is left alone and other jobs go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.chaos.aws.raw_store import PlainTable
from harness.fakes.aws import Endpoints
from harness.fakes.s3_faults import S3Faults, S3Rates
from tests.acceptance.test_damaged_folder_requests import CONCURRENCY, attempts, counting_site, order
from tests.integration.aws.commands_shell import AwsShell

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]  # S3 is asked for 15 seconds before a call fails


def held_by(aws: Endpoints, name: str, pid: int, job_id: str) -> bool:
    """Whether the process holds a lease of the job."""
    table = PlainTable(aws, name)
    try:
        number = table.number(job_id)
        return number is not None and pid in table.moments([number])[number].held
    finally:
        table.close()


@pytest.mark.req("Z10", "Z9", "S6")
async def test_a_site_is_left_alone_while_the_bucket_refuses_the_results(
    tmp_path: Path, aws: Endpoints, aws_name: str
) -> None:
    """All items of the job `suspected` ran when their worker was killed, so each of them runs alone from then on."""
    shell = AwsShell(tmp_path / "here", aws, aws_name)
    shell.done("aws", "init")
    bucket = S3Faults(aws.environment["AWS_ENDPOINT_URL_S3"], 1, S3Rates())
    try:
        async with bucket, counting_site(shell) as site:
            shell.environment["AWS_ENDPOINT_URL_S3"] = bucket.url
            site.early, site.gates = 0, {job_id: asyncio.Event() for job_id in ("suspected", "other")}
            await order(shell, "suspected", "files", CONCURRENCY)
            first = await shell.start("worker")
            async with asyncio.timeout(90):
                while site.requests("suspected").total() < CONCURRENCY:
                    await asyncio.sleep(0.02)
            bucket.denied = lambda: {f"/{aws_name}/{job_id}/": 503 for job_id in ("suspected", "damaged")}
            first.kill()
            await first.communicate()
            for job_id in ("damaged", "other"):
                await order(shell, job_id, "files")

            second = await shell.start("worker")
            async with asyncio.timeout(90):
                for job_id in ("damaged", "suspected"):
                    while not await asyncio.to_thread(held_by, aws, aws_name, second.pid, job_id):
                        await asyncio.sleep(0.1)
            for gate in site.gates.values():
                gate.set()
            await shell.until("other", status="completed")
            assert attempts(shell.folder, "damaged") == 0
            assert attempts(shell.folder, "suspected") == site.requests("suspected").total() == CONCURRENCY

            bucket.denied = dict
            for job_id in ("damaged", "suspected"):
                await shell.until(job_id, status="completed")
                assert max(site.requests(job_id).values()) <= 2
                assert (await shell.run("jobs", "verify", job_id))[0] == 0
            second.terminate()
            await asyncio.wait_for(second.communicate(), 60)
    finally:
        await shell.end_all()
