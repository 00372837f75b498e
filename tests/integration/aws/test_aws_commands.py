"""Q3, Q4, W1: every command works on DynamoDB, SQS and S3 as it does on a folder, from one machine or from several."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.aws import Endpoints
from swath.demo.county import DemoCountyServer, FaultSettings
from tests.integration.aws.commands_shell import AwsShell

pytestmark = pytest.mark.timeout(600)  # each starts many processes, on a machine that may be busy with others

PARCELS = [f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(80)]  # the county lets in ten a second


@pytest.fixture
async def machine(tmp_path: Path, aws: Endpoints, aws_name: str) -> AsyncIterator[Callable[[str], AwsShell]]:
    """Makes machines that share what is on AWS, and nothing else."""
    made: list[AwsShell] = []

    def make(name: str) -> AwsShell:
        made.append(AwsShell(tmp_path / name, aws, aws_name))
        return made[-1]

    yield make
    for shell in made:
        await shell.end_all()  # what is left on the servers goes with them


@pytest.fixture
def shell(machine: Callable[[str], AwsShell]) -> AwsShell:
    """One machine, with everything set up."""
    shell = machine("here")
    shell.done("aws", "init")
    return shell


@pytest.fixture
async def county(shell: AwsShell) -> AsyncIterator[DemoCountyServer]:
    async with DemoCountyServer() as county:
        shell.environment["SWATH_DEMO_URL"] = county.base_url
        yield county


def _parcels(shell: AwsShell, number: int = len(PARCELS)) -> None:
    shell.write("parcels.csv", "parcel_id\n" + "\n".join(PARCELS[:number]) + "\n")


def _sums(status: dict[str, Any]) -> tuple[int, int]:
    counts = status["counts"]
    return counts["success"] + counts["failed"] + counts["skipped"] + counts["cancelled"], counts["total"]


@pytest.mark.long
@pytest.mark.req("Q3", "W1", "W4")
async def test_a_job_is_worked_on_by_two_processes_and_verifies(shell: AwsShell, county: DemoCountyServer) -> None:
    _parcels(shell)
    county.switches = FaultSettings(latency_ms=100)  # so that neither process is done before the other has begun
    order = ("jobs", "create", "demo-county", "--items", "parcels.csv", "--job-id", "county", "--concurrency", "8")
    code, out, err = await shell.run(*order, "--quiet")
    assert code == 0, err
    assert "0 of 80 done" in out
    workers = await shell.start("worker", "--processes", "2")
    assert (await shell.until("county", status="completed"))["counts"]["success"] == 80
    workers.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(workers.wait(), 60) == 0
    code, out, err = await shell.run("jobs", "verify", "county")
    assert code == 0, f"{out}{err}"
    assert "80 items" in out
    code, out, err = await shell.run("jobs", "item", "county", PARCELS[7])
    assert f"/{shell.name}/county/items/" in out
    assert len(await shell.workers_of("county")) == 2


@pytest.mark.long
@pytest.mark.req("W1", "Q3", "Q4")
async def test_another_machine_takes_part_with_nothing_but_the_urls(
    machine: Callable[[str], AwsShell], shell: AwsShell, county: DemoCountyServer
) -> None:
    _parcels(shell)
    there = machine("there")
    there.environment["SWATH_DEMO_URL"] = county.base_url
    county.switches = FaultSettings(latency_ms=100)
    order = ("jobs", "create", "demo-county", "--items", "parcels.csv", "--job-id", "shared", "--concurrency", "6")
    assert (await shell.run(*order, "--quiet"))[0] == 0
    workers = [await one.start("worker") for one in (shell, there)]
    await there.until("shared", status="completed", success=80)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    assert [await asyncio.wait_for(worker.wait(), 60) for worker in workers] == [0, 0]
    assert await there.workers_of("shared") == {worker.pid for worker in workers}
    assert (await there.run("jobs", "verify", "shared"))[0] == 0
    assert not (there.folder / "data" / "swath.db").exists()


@pytest.mark.long
@pytest.mark.req("W1", "Z1")
async def test_what_a_killed_machine_held_is_done_by_another(
    machine: Callable[[str], AwsShell], shell: AwsShell, county: DemoCountyServer
) -> None:
    _parcels(shell, 60)
    there = machine("there")
    there.environment["SWATH_DEMO_URL"] = county.base_url
    county.switches = FaultSettings(latency_ms=200)
    order = ("jobs", "create", "demo-county", "--items", "parcels.csv", "--job-id", "rescued", "--concurrency", "4")
    assert (await shell.run(*order, "--quiet"))[0] == 0
    first = await shell.start("worker")
    await there.until("rescued", success=lambda done: done >= 4)
    first.kill()
    second = await there.start("worker")
    status = await there.until("rescued", status="completed")
    assert _sums(status) == (60, 60)
    second.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(second.wait(), 60) == 0
    assert (await there.run("jobs", "verify", "rescued"))[0] == 0


@pytest.mark.long
@pytest.mark.req("J5", "C1")
async def test_a_job_is_paused_resumed_cancelled_retried_and_deleted(shell: AwsShell, county: DemoCountyServer) -> None:
    _parcels(shell, 40)
    county.switches = FaultSettings(latency_ms=100)
    order = ("jobs", "create", "demo-county", "--items", "parcels.csv", "--job-id", "ours", "--concurrency", "2")
    assert (await shell.run(*order, "--quiet"))[0] == 0
    worker = await shell.start("worker")
    await shell.until("ours", success=lambda done: done >= 2)
    assert (await shell.run("jobs", "pause", "ours"))[0] == 0
    await shell.until("ours", status="paused", queued=0, in_progress=0)
    county.switches = FaultSettings(
        latency_ms=1_000
    )  # a command takes seconds where much else runs: not to be too late
    assert (await shell.run("jobs", "policy", "ours", "--concurrency", "4"))[0] == 0
    assert (await shell.run("jobs", "resume", "ours"))[0] == 0
    before = (await shell.until("ours", success=lambda done: done >= 6))["counts"]["success"]
    code, _, err = await shell.run("jobs", "cancel", "ours")
    assert code == 0, err
    ended = await shell.until("ours", status="cancelled")
    assert _sums(ended) == (40, 40)
    assert 0 < ended["counts"]["cancelled"] < 40 - before + 1
    county.switches = FaultSettings()
    assert (await shell.run("jobs", "retry", "ours", "--not-run"))[0] == 0
    again = await shell.until("ours", status="completed")
    assert (again["generation"], again["counts"]["success"]) == (2, 40)
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(worker.wait(), 60) == 0
    assert (await shell.run("jobs", "verify", "ours"))[0] == 0
    assert (await shell.run("jobs", "delete", "ours", "--yes"))[0] == 0
    assert "there is no job" in shell.refused("jobs", "status", "ours", code=7)
    assert shell.json("jobs", "list") == []


@pytest.mark.req("C1", "Z1")
async def test_run_goes_on_after_it_was_killed(shell: AwsShell, county: DemoCountyServer) -> None:
    _parcels(shell, 60)
    county.switches = FaultSettings(latency_ms=200)
    order = ("run", "demo-county", "--items", "parcels.csv", "--job-id", "mine", "--concurrency", "4", "--quiet")
    first = await shell.start(*order)
    await shell.until("mine", success=lambda done: done >= 4)
    first.kill()
    await first.wait()
    county.switches = FaultSettings()
    code, out, err = await shell.run(*order)
    assert code == 0, err
    assert "60 of 60 done" in out
    assert f"s3://swath-test/{shell.name}/mine" in out
    assert (await shell.run("jobs", "verify", "mine"))[0] == 0


@pytest.mark.req("C3")
async def test_a_dry_run_compares_with_the_job_and_makes_nothing(shell: AwsShell, county: DemoCountyServer) -> None:
    _parcels(shell, 20)
    order = ("demo-county", "--items", "parcels.csv", "--job-id", "planned", "--quiet")
    code, out, err = await shell.run("run", *order, "--dry-run")
    assert code == 0, err
    assert "planned (new)" in out
    assert shell.json("jobs", "list") == []
    assert (await shell.run("run", *order))[0] == 0
    code, out, err = await shell.run("run", *order, "--dry-run")
    assert code == 0, err
    assert "exists already" in out


@pytest.mark.req("C1", "J7")
async def test_a_job_that_has_ended_is_shown_as_ever(shell: AwsShell, county: DemoCountyServer) -> None:
    _parcels(shell, 5)
    assert (await shell.run("run", "demo-county", "--items", "parcels.csv", "--job-id", "over", "--quiet"))[0] == 0
    assert (await shell.run("jobs", "watch", "over"))[0] == 0
    (listed,) = shell.json("jobs", "list")
    assert (listed["job_id"], listed["status"], listed["counts"]["total"]) == ("over", "completed", 5)
    code, _, err = await shell.run("run", "--job-id", "over", "--quiet")
    assert code == 0
    assert "had ended already" in err


@pytest.mark.req("T1")
async def test_the_demo_runs_on_aws_too(shell: AwsShell) -> None:
    code, out, err = await shell.run("demo", "--parcels", "30", "--concurrency", "4")
    assert code == 0, f"{out}{err}"
    assert "it balances" in out
    assert f"a record:  s3://swath-test/{shell.name}/demo-" in out
