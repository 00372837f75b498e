"""The count of `make chaos-aws` looks for every job that was ordered, and not only for the large ones."""

import asyncio
from pathlib import Path

import pytest

from harness.chaos.aws.check import check
from harness.chaos.aws.job import AwsJob, SitePlan, make_job
from harness.chaos.aws.job_parts import shared_out
from harness.fakes.aws import Endpoints
from swath.backends.aws.dynamo.table import Table


@pytest.mark.req("Z1")
async def test_each_job_that_the_table_does_not_know_is_lost(
    aws: Endpoints, aws_name: str, table: Table, tmp_path: Path
) -> None:
    del table  # it is there, and empty
    job = AwsJob(
        folder=tmp_path / "job",
        items=180,
        parts=shared_out(180, 8),
        name=aws_name,
        endpoints=aws,
        site=SitePlan(rate=10.0, concurrency=2, page_ms=100.0),
        site_url="http://site.invalid",
    )
    checked = await asyncio.to_thread(check, make_job(job))
    found = [problem.where for problem in checked.findings.problems]
    assert found == [*(part.job_id for part in job.parts), "all items"]
