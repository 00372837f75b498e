"""S4: a job stops by itself when its site is broken, at the cost that was promised, over all processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite import file_changes
from swath.backends.sqlite.store.store import SqliteStore
from swath.demo.county import DemoCountyServer, FaultSettings
from swath.domain.job import StopReason

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell


def _status(shell: Shell, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.swath("jobs", "status", job_id, "--json").stdout)
    return found


@pytest.mark.req("S4", "C2", "J5")
def test_a_doomed_job_costs_as_many_items_as_it_takes_to_know(shell: Shell) -> None:
    shell.write("items.csv", "\n".join(["n", *map(str, range(10))]))
    shell.write(
        "policy.yaml",
        "throttling: {max_concurrent_workers: 3}\n"
        "circuit_breaker: {min_requests: 5, failure_threshold_percentage: 0.8}\n"
        "retries: {max_retries: 1, base_delay_seconds: 0.01}\n",
    )
    done = shell.swath(
        "run", "example-fail", "--items", "items.csv", "--job-id", "doomed", "--policy", "policy.yaml", "--quiet"
    )
    assert done.returncode == 5, done.stderr
    status = _status(shell, "doomed")
    assert status["status"] == "failed"
    assert (status["counts"]["failed"], status["counts"]["cancelled"]) == (5, 5)
    assert status["circuit"] == {"state": "open", "reason": "5 of the last 5 items failed"}
    entries = [
        entry
        for part in sorted((shell.folder / "data/results/doomed/manifests/full").glob("part-*.json"))
        for entry in json.loads(part.read_text())["items"]
    ]
    ran = [entry for entry in entries if entry["attempts"]]
    assert [len(entry["attempts"]) for entry in ran] == [2] * 5
    assert {(entry["state"], entry["reason"]) for entry in entries if not entry["attempts"]} == {
        ("cancelled", "circuit_open")
    }
    assert shell.swath("jobs", "verify", "doomed").returncode == 0

    assert shell.swath("jobs", "retry", "doomed", "--not-run").returncode == 0
    status = _status(shell, "doomed")
    assert (status["generation"], status["counts"]["pending"], status["circuit"]["state"]) == (2, 5, "closed")
    again = shell.swath("run", "--job-id", "doomed", "--quiet")
    assert again.returncode == 5, again.stderr
    assert (_status(shell, "doomed")["counts"]["failed"]) == 10
    assert shell.swath("jobs", "verify", "doomed").returncode == 0


async def _until_it_opens(store: SqliteStore) -> float:
    """When it was first seen that the circuit had opened."""
    async with asyncio.timeout(60):
        while (status := await store.status("job")).stopping is None and not status.state.terminal:
            await asyncio.sleep(0.002)
    assert status.stopping is StopReason.CIRCUIT_OPEN
    return time.time()


@pytest.mark.req("S4", "W4")
async def test_when_the_site_breaks_no_process_starts_another_item(shell: Shell, county: DemoCountyServer) -> None:
    county.switches = FaultSettings(latency_ms=100, latency_jitter_ms=100, seed=4)
    shell.write("items.csv", "\n".join(["n", *map(str, range(4_000))]))
    shell.write("policy.yaml", "throttling: {max_concurrent_workers: 48}\nretries: {max_retries: 0}\n")
    order = ("jobs", "create", "example-http", "--items", "items.csv", "--job-id", "job", "--policy", "policy.yaml")
    code, _, err = await shell.run(*order, "--quiet")
    assert code == 0, err
    process = await shell.start("worker", "--processes", "3")
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    try:
        async with asyncio.timeout(60):
            while len(list((shell.folder / "data" / "workers").glob("*.lock"))) < 3:
                await asyncio.sleep(0.01)
            good = county.counters.requests + 200  # each item is one request; all three have some then
            while county.counters.requests < good:
                await asyncio.sleep(0.01)
        county.switches = FaultSettings(latency_ms=100, latency_jitter_ms=100, failure_rate=1.0, seed=4)
        opened_at = await _until_it_opens(store)
        async with asyncio.timeout(60):
            while not (status := await store.status("job")).state.terminal:
                await asyncio.sleep(0.02)
        attempts = [item.attempts[-1] for item in await store.items("job", limit=4_000) if item.attempts]
    finally:
        await store.close()
    process.terminate()
    await asyncio.wait_for(process.communicate(), 60)
    # A process may rely on what it has read for a moment, and be interrupted once between its look and the start.
    late = Counter(one.worker for one in attempts if one.started_at > opened_at + file_changes.LONGEST_SECONDS)
    assert all(items == 1 for items in late.values()), late
    assert len({one.worker for one in attempts}) == 3
    counts = status.counts
    assert status.circuit_opened == "20 items failed in a row"
    assert counts.success + counts.failed == county.counters.requests - 1  # robots.txt; nobody else was ever begun
    assert counts.failed <= 20 + 48 + 48  # what was needed, what ran beside it, what good ones had in between
    assert counts.cancelled == 4_000 - counts.success - counts.failed
    assert (await shell.run("jobs", "verify", "job"))[0] == 0


TURNS_BAD = """
from swath import Failed, Failure, FailureKind, HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("turns-bad", version="1")
class TurnsBad(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        if item.n > {good}:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "the site has changed"))
        return None
"""


@pytest.mark.req("S4")
def test_many_good_items_do_not_hide_that_a_site_is_broken_now(shell: Shell) -> None:
    good = 3_000
    shell.write("turns_bad.py", TURNS_BAD.format(good=good))
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, good + 2_001))]))
    shell.write("policy.yaml", "circuit_breaker: {consecutive_failures: 100000}\nkeep: data\n")
    done = shell.swath(
        "run", "turns_bad.py", "--items", "items.csv", "--job-id", "long", "--policy", "policy.yaml", "--quiet"
    )
    assert done.returncode == 5, done.stderr
    status = _status(shell, "long")
    assert status["circuit"]["reason"] == "100 of the last 200 items failed"
    assert status["counts"]["success"] == good
    # It opens at the hundredth failure; beyond it is what had run before the commit that said so.
    assert 100 <= status["counts"]["failed"] <= 100 + 400
