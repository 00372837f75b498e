"""R7: what `swath jobs compare` says to people, and what it does not take."""

from __future__ import annotations

import pytest

from swath.domain.errors import BadInput
from swath.domain.storage_keys import Layout
from swath.entrypoints.cli.jobs import job_results
from swath.entrypoints.cli.jobs.job_results import CompareArgs
from swath.pipeline.results.compare.comparison import JobComparison
from swath.pipeline.results.compare.report import CompareRequest
from swath.pipeline.results.compare.table import compare_table
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.making import Made, make_job

pytestmark = pytest.mark.req("R7")


@pytest.mark.req("C2")
@pytest.mark.parametrize("other", ["csv", "table"])
def test_two_formats_at_once_are_refused(other: str) -> None:
    with pytest.raises(BadInput, match=f"--json and --format {other} do not go together"):
        _ = CompareArgs(as_json=True, format=other).chosen
    assert CompareArgs(as_json=True, format="json").chosen == "json"


async def test_the_table_says_why_a_completed_job_is_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    store, storage, clock = MemoryStore(FakeClock()), MemoryResults(), FakeClock()
    before = {"1": Made(data={"k": "x", "n": 7}), "2": Made(data={"k": "y"}), "3": Made(data={})}
    await make_job(store, storage, clock, before, "ca", Layout.FILES)
    after = {"1": Made(data={"k": "x", "n": "7"}), "2": Made(data={}), "4": Made(data={"k": "z"})}
    await make_job(store, storage, clock, after, "cb", Layout.FILES)
    with compare_table() as table:
        comparison = JobComparison(store, storage, table, CompareRequest(key=("k",)))
        await comparison.load((await store.status("ca"), await store.status("cb")), lambda items: None)
        job_results._print_comparison(comparison, "table", None, CompareArgs())
    told = capsys.readouterr().out
    assert "\njob ca is not complete (records without the key: 1): what is new may have been there before\n" in told
    assert "\njob cb is not complete (records without the key: 1): what it lacks may be there all the same" in told
    assert ["unknown", "y", "not", "complete"] in [line.split() for line in told.splitlines()]
    assert ["changed", "x", "n", "7", '"7"'] in [line.split() for line in told.splitlines()]


async def test_the_table_says_what_the_later_job_was_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    store, storage, clock = MemoryStore(FakeClock()), MemoryResults(), FakeClock()
    before = {str(number): Made(data={"n": number}) for number in range(1, 4)}
    await make_job(store, storage, clock, before, "all", Layout.FILES)
    await make_job(store, storage, clock, {"1": Made(data={"n": 1})}, "few", Layout.FILES)
    with compare_table() as table:
        comparison = JobComparison(store, storage, table, CompareRequest(key=("input.parcel",)))
        await comparison.load((await store.status("all"), await store.status("few")), lambda items: None)
        job_results._print_comparison(comparison, "table", None, CompareArgs())
    told = capsys.readouterr().out
    assert "\n0 new, 0 changed, 0 vanished, 2 unknown, 1 the same\n" in told
    assert "\njob few was not asked for 2 records of job all, having no such item, so that is unknown\n" in told
    assert "not complete" not in told
    lines = [line.split() for line in told.splitlines()]
    assert lines[-2:] == [["unknown", "2", "not", "asked", "for"], ["unknown", "3", "not", "asked", "for"]]
