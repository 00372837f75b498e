"""O1, O2, W5: a real worker tells that it lives, what it does, and how items end."""

from __future__ import annotations

import asyncio
import json
import re
import signal

import httpx
import pytest

from tests.acceptance.conftest import Shell

ONCE = '{"retries": {"max_retries": 0}}'


async def port_of(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            if found := re.search(r"metrics on http://127\.0\.0\.1:(\d+)/metrics", line):
                return int(found[1])
    raise AssertionError("it said no port")


@pytest.mark.req("O1", "O2", "W5")
async def test_a_worker_has_a_port_and_a_log_for_programs(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n2\n3\n")
    shell.write("once.json", ONCE)
    create = ("jobs", "create", "example-fail", "--items", "items.csv", "--job-id", "bad", "--policy", "once.json")
    assert (await shell.run(*create))[0] == 0
    worker = await shell.start("worker", "--metrics-port", "0")
    port = await port_of(worker)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client, asyncio.timeout(60):
        assert (await client.get("/live")).text == "alive\n"
        while 'swath_items_total{kind="server_error",state="failed"} 3.0' not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.1)
    worker.send_signal(signal.SIGTERM)
    _, err = await asyncio.wait_for(worker.communicate(), 60)
    assert worker.returncode == 0
    lines = [json.loads(line) for line in err.decode().splitlines() if line.startswith("{")]
    failed = [line for line in lines if line["event"] == "item failed"]
    assert sorted(line["item_id"] for line in failed) == ["1", "2", "3"]
    for line in failed:
        assert (line["level"], line["job_id"], line["request_id"]) == ("ERROR", "bad", None)
        assert {"target_url", "proxy_used", "error_reason", "retry_attempts"} <= set(line)


@pytest.mark.req("W4", "W5")
async def test_each_process_of_a_worker_has_a_port_of_its_own(shell: Shell) -> None:
    worker = await shell.start("worker", "--processes", "2", "--metrics-port", "0")
    ports = [await port_of(worker), await port_of(worker)]
    assert len(set(ports)) == 2
    async with httpx.AsyncClient() as client:
        for port in ports:
            assert (await client.get(f"http://127.0.0.1:{port}/live")).status_code == 200
    worker.send_signal(signal.SIGTERM)
    await asyncio.wait_for(worker.communicate(), 60)
    assert worker.returncode == 0


@pytest.mark.req("O1", "C1")
async def test_a_person_who_runs_a_job_is_not_told_of_every_item_in_json(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n2\n")
    shell.write("once.json", ONCE)
    arguments = ("run", "example-fail", "--items", "items.csv", "--policy", "once.json", "--quiet", "--job-id")
    _, _, err = await shell.run(*arguments, "silent")
    assert "item failed" not in err
    shell.environment["SWATH_LOG_LEVEL"] = "warning"
    _, _, err = await shell.run(*arguments, "told")
    assert len(re.findall(r"^\S+Z ERROR swath\.items: item failed .*error_reason=", err, re.MULTILINE)) == 2
