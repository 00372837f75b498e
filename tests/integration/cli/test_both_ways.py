"""C1, I2: each command of `swath jobs` says the same of a job in the store and over a controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath.domain.errors import BadInput, Conflict, Outdated, UnknownName
from swath.domain.execution_policy import Keep
from swath.domain.failure import FailureKind
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.client import open_jobs
from swath.entrypoints.cli.jobs.control import (
    RetryArgs,
    cancel_job,
    delete_job,
    pause_job,
    resume_job,
    retry_job,
    show_or_change_policy,
    show_webhooks,
)
from swath.entrypoints.cli.jobs.show import list_jobs, show_item, show_status
from swath.settings import Settings
from tests.integration.api.serving import Place, Served
from tests.unit.integrations.webhooks.receiver import receiving

pytestmark = pytest.mark.req("C1", "I2")

Command = Callable[[Settings, str], Awaitable[ExitCode]]

TIMES = ("created_at", "started_at", "ended_at", "items_per_second", "eta_seconds")
ODD = "odd id/with ünïcode & 100%"


class Ways:
    """A command here and over there, each with a job of its own, or both with the same."""

    def __init__(self, here: Settings, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.here = here
        self.there = msgspec.structs.replace(here, server=url, data=Path("nothing-is-here"))
        self.both = (self.here, self.there)
        self.capsys = capsys

    async def same(self, command: Command, job_id: str) -> str:
        """What both say of one job, which must be equal."""
        first, second = await self.each(command, job_id, job_id)
        assert first == second
        assert not self.there.data.exists()
        return first

    async def each(self, command: Command, mine: str, other: str) -> tuple[str, str]:
        """What one says of `mine` here, and of `other` there."""
        said = []
        for settings, job_id in ((self.here, mine), (self.there, other)):
            code = await command(settings, job_id)
            assert code is ExitCode.COMPLETE
            said.append(self.capsys.readouterr().out)
        return said[0], said[1]


@pytest.fixture
def ways(here: Settings, served: Served, capsys: pytest.CaptureFixture[str]) -> Ways:
    return Ways(here, served.url, capsys)


@pytest.fixture
def idle_ways(here: Settings, idle: Served, capsys: pytest.CaptureFixture[str]) -> Ways:
    return Ways(here, idle.url, capsys)


async def said_by(command: Awaitable[ExitCode], ways: Ways) -> str:
    assert await command is ExitCode.COMPLETE
    return ways.capsys.readouterr().out


def order(job_id: str, ids: list[str] | None = None, **more: Any) -> dict[str, Any]:
    rows = [{"item_id": f"i{n}", "input": {"parcel_id": n}} for n in ids or ["100", "404", "101"]]
    return {"job_id": job_id, "scraper_id": "typed", "items": rows, **more}


async def ordered(served: Served, *job_ids: str, **more: Any) -> None:
    for job_id in job_ids:
        await served.ask("POST", "/jobs", json=order(job_id, **more))


def plain(text: str, job_id: str) -> Any:
    """JSON without what two jobs cannot share."""
    found = json.loads(text.replace(job_id, "JOB"))
    return {name: value for name, value in found.items() if name not in TIMES}


async def test_what_is_shown_of_a_job_is_the_same(ways: Ways, served: Served) -> None:
    policy = {"retries": {"max_retries": 1}, "throttling": {"max_concurrent_workers": 2}}
    await ordered(served, ODD, name="Ärger", labels={"a": "b"}, priority=-3, execution_policy=policy)
    await served.until("odd%20id%2Fwith%20%C3%BCn%C3%AFcode%20%26%20100%25", "completed")
    status = json.loads(await ways.same(lambda at, job: show_status(at, job, as_json=True), ODD))
    assert (status["counts"]["not_found"], status["labels"], status["priority"]) == (1, {"a": "b"}, -3)
    assert status["execution_policy"] == policy
    listed = json.loads(await ways.same(lambda at, _: list_jobs(at, 100, as_json=True), ODD))
    assert [one["job_id"] for one in listed] == [ODD]
    assert "completed" in await ways.same(lambda at, _: list_jobs(at, 100, as_json=False), ODD)
    shown = await ways.same(lambda at, job: show_or_change_policy(at, job, None, None, as_json=False), ODD)
    assert "max_retries: 1" in shown
    assert "no webhooks" in await ways.same(lambda at, job: show_webhooks(at, job, again=False, as_json=False), ODD)


@pytest.mark.req("R8")
async def test_an_item_is_the_same_but_for_where_its_files_are(ways: Ways, served: Served) -> None:
    await ordered(served, "job")
    await served.until("job", "completed")
    for item_id in ("i100", "i404"):
        first, second = [
            json.loads(await said_by(show_item(at, "job", item_id, None, as_json=True), ways)) for at in ways.both
        ]
        assert first.pop("location").endswith("/results/job")
        assert second.pop("location") == f"{served.url}/jobs/job/results"
        assert first == second
    _, told = await ways.each(lambda at, job: show_item(at, job, "i100", None, as_json=False), "job", "job")
    place = next(line for line in told.splitlines() if "html.html" in line).split()[1]
    assert (await served.client.get(place)).content == b"<h1>ok</h1>"  # what is shown can be fetched


async def test_a_list_goes_on_over_pages(idle_ways: Ways, idle: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from swath.entrypoints.cli.remote import jobs

    monkeypatch.setattr(jobs, "PAGE_JOBS", 2)
    await ordered(idle, *"abcde")
    for limit in (1, 2, 4, 5, 9):
        said = [await said_by(list_jobs(at, limit, as_json=True), idle_ways) for at in idle_ways.both]
        found = json.loads(said[0])
        assert said[0] == said[1]
        assert [one["job_id"] for one in found] == list("edcba")[:limit]


@pytest.mark.req("J5")
async def test_a_job_is_managed_in_the_same_way(idle_ways: Ways, idle: Served, tmp_path: Path) -> None:
    await ordered(idle, "job-l", "job-r")
    (tmp_path / "policy.yaml").write_text("retries:\n  max_retries: 7\nthrottling:\n  max_concurrent_workers: 3\n")
    (tmp_path / "other.yaml").write_text("keep: data\n")

    async def both(command: Command) -> Any:
        mine, other = await idle_ways.each(command, "job-l", "job-r")
        assert plain(mine, "job-l") == plain(other, "job-r")
        return json.loads(mine)

    assert (await both(lambda at, job: pause_job(at, job, as_json=True)))["status"] == "paused"
    assert (await both(lambda at, job: resume_job(at, job, as_json=True)))["status"] == "pending"
    policy, other = tmp_path / "policy.yaml", tmp_path / "other.yaml"
    await both(lambda at, job: show_or_change_policy(at, job, policy, None, as_json=True))
    changed = await both(lambda at, job: show_or_change_policy(at, job, None, 5, as_json=True))
    assert (changed["retries"]["max_retries"], changed["throttling"]["max_concurrent_workers"]) == (7, 5)
    changed = await both(lambda at, job: show_or_change_policy(at, job, other, None, as_json=True))
    assert changed["keep"] == "data"
    assert changed["retries"]["max_retries"] == 3  # a file replaces the policy as a whole
    assert (await both(lambda at, job: cancel_job(at, job, as_json=True)))["status"] == "cancelled"
    again = await both(lambda at, job: retry_job(at, job, RetryArgs(not_run=True), run=False, as_json=True))
    assert (again["generation"], again["counts"]["pending"]) == (2, 3)
    await both(lambda at, job: cancel_job(at, job, as_json=True))
    assert (await both(lambda at, job: delete_job(at, job, sure=True, as_json=True)))["deleted"] is True
    assert await idle.ask("GET", "/jobs") == {"jobs": [], "next_cursor": None}


@pytest.mark.req("J5")
async def test_what_others_change_meanwhile_stays(idle_ways: Ways, idle: Served) -> None:
    await ordered(idle, "job")
    parts: list[dict[str, Any]] = [{"retries": {"kinds": {kind: {"max_retries": 7}}}} for kind in list(FailureKind)[:8]]
    others = [idle.ask("PATCH", "/jobs/job/policy", json=part) for part in parts]
    mine = [show_or_change_policy(at, "job", None, 5, as_json=True) for at in idle_ways.both]
    await asyncio.gather(*others, *mine)
    held = (await idle.ask("GET", "/jobs/job"))["execution_policy"]
    assert len(held["retries"]["kinds"]) == len(parts)
    assert held["throttling"] == {"max_concurrent_workers": 5}


@pytest.mark.req("J5")
async def test_only_what_was_changed_is_sent(idle_ways: Ways, idle: Served) -> None:
    await ordered(idle, "job")
    async with open_jobs(idle_ways.there) as there, open_jobs(idle_ways.here) as here:
        read = (await there.status("job")).job.policy
        await idle.ask("PATCH", "/jobs/job/policy", json={"keep": "data"})
        with pytest.raises(Outdated):
            await here.change_policy("job", read.with_concurrency(5), read)
        changed = (await there.change_policy("job", read.with_concurrency(5), read)).job.policy
    assert (changed.keep, changed.throttling.max_concurrent_workers) == (Keep.DATA, 5)


MISTAKES: list[tuple[Callable[[Settings], Awaitable[ExitCode]], type[Exception]]] = [
    (lambda at: show_status(at, "jbo", as_json=True), UnknownName),
    (lambda at: show_item(at, "job", "nothing", None, as_json=True), UnknownName),
    (lambda at: resume_job(at, "gone", as_json=True), UnknownName),
    (lambda at: retry_job(at, "job", RetryArgs(failed=True), run=False, as_json=True), Conflict),
    (lambda at: retry_job(at, "job", RetryArgs(), run=False, as_json=True), BadInput),
    (lambda at: delete_job(at, "job", sure=True, as_json=True), Conflict),
    (lambda at: show_webhooks(at, "job", again=True, as_json=True), Conflict),
]


@pytest.mark.req("C2")
async def test_mistakes_are_told_in_the_same_words(idle_ways: Ways, idle: Served) -> None:
    await ordered(idle, "job")
    for command, kind in MISTAKES:
        said = []
        for settings in idle_ways.both:
            with pytest.raises(kind) as raised:
                await command(settings)
            said.append(str(raised.value))
        assert said[0] == said[1]


@pytest.mark.req("J5")
async def test_ids_that_the_job_does_not_have_are_named(ways: Ways, served: Served, tmp_path: Path) -> None:
    await ordered(served, "job")
    await served.until("job", "completed")
    (tmp_path / "ids").write_text("i100\nx1\nx2\n")
    choice = RetryArgs(items=str(tmp_path / "ids"))
    for settings in (ways.here, ways.there):
        with pytest.raises(BadInput, match=r"has no item 'x1'.*'x2'.*nothing is run again"):
            await retry_job(settings, "job", choice, run=False, as_json=True)
    with pytest.raises(BadInput, match="--run works on a store"):
        await retry_job(ways.there, "job", choice, run=True, as_json=True)
    assert (await served.ask("GET", "/jobs/job/status"))["generation"] == 1


@pytest.mark.req("N1")
async def test_webhooks_are_shown_and_sent_again(
    place: Place, here: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with receiving() as receiver:
        place.environment["SWATH_ALLOW_PRIVATE"] = receiver.address
        async with place.serving() as served:
            ways = Ways(here, served.url, capsys)
            await ordered(served, "job", callback_url=receiver.url)
            await served.until("job", "completed")
            while (await served.ask("GET", "/jobs/job/webhooks"))[0]["state"] != "delivered":
                await asyncio.sleep(0.05)
            await show_webhooks(ways.there, "job", again=True, as_json=False)
            assert "webhook of job job was delivered" in capsys.readouterr().out
            entries = json.loads(
                await ways.same(lambda at, job: show_webhooks(at, job, again=False, as_json=True), "job")
            )
            assert entries[0]["state"] == "delivered"
            assert len(entries[0]["deliveries"]) == len(receiver.received) == 2
            await ways.same(lambda at, job: show_webhooks(at, job, again=False, as_json=False), "job")
