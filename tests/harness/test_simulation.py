"""The simulated fleet keeps every promise of the dispatcher, and each check is seen to fail when its rule is off."""

import asyncio
import random
from pathlib import Path
from typing import Final

import msgspec
import pytest

from harness.simulate.actual import ActualRuns, lower_bound
from harness.simulate.fairness import BOUND
from harness.simulate.lease_runner import SiteSlots
from harness.simulate.memory_store import MemoryTable
from harness.simulate.plan import FULL, SHORT, JobPlan, Plan, Size, make_plan
from harness.simulate.simulation import DisabledRule, Simulated, simulate
from harness.simulate.world import World
from swath.backends.aws.client.rows import ABSENT, Delete, Key, Put
from swath.domain.execution_policy import ExecutionPolicy, Throttling
from swath.domain.job import Job
from tests.support.bounds import HANGING_SECONDS

BROKEN_SEEDS: Final = range(7, 11)  # each of the broken builds goes wrong with the first, or soon after


TINY: Final = msgspec.structs.replace(SHORT, workers=6, items=600, most_limit=8, kills=4, kill_seconds=30.0)


def run(seed: int, broken: DisabledRule | None = None, size: Size = SHORT) -> Simulated:
    return asyncio.run(asyncio.wait_for(simulate(make_plan(size, seed), broken), HANGING_SECONDS))


@pytest.mark.req("S1", "S3", "S4", "Z1", "Z3")
def test_a_fleet_under_fire_keeps_limits_turns_and_items() -> None:
    seed = random.randrange(1_000_000)
    simulated = run(seed)
    world = simulated.world
    told = f"seed {seed}"
    assert simulated.problems == [], told
    assert simulated.kills == SHORT.kills, told
    assert world.truth.attempts > SHORT.items * 0.6, told
    assert world.turns.worst < BOUND, told
    assert world.turns.longest_seconds < 60, told
    assert all(job.peak <= job.plan.limit for job in world.truth.jobs.values()), told
    assert max(world.truth.peak_open.values()) > 1, "and something ran at once"
    assert simulated.seconds >= simulated.ideal.seconds, "nobody beats the lower bound"
    doomed = next(job for job in world.truth.jobs.values() if job.plan.doomed)
    assert doomed.ended == doomed.plan.job.policy.circuit_breaker.min_requests < doomed.plan.items, told


@pytest.mark.req("S1", "S3")
def test_the_same_seed_makes_the_same_run() -> None:
    first, second = (run(11, size=TINY) for _ in range(2))
    assert first.seconds == second.seconds
    assert first.world.events.played == second.world.events.played
    assert first.world.turns.leases == second.world.turns.leases


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (DisabledRule.JOB_LIMITS, "items, "),
        (DisabledRule.SITE_LIMITS, "open requests, "),
        (DisabledRule.PATIENCE, "was passed over"),
    ],
)
@pytest.mark.req("S1", "S3", "Z3")
def test_a_build_without_the_rule_is_found_out(broken: DisabledRule, complaint: str) -> None:
    found = (problem for seed in BROKEN_SEEDS for problem in run(seed, broken).problems)
    assert any(complaint in problem for problem in found)


@pytest.mark.req("S3")
def test_the_full_form_is_as_large_as_it_says() -> None:
    plan = make_plan(FULL, seed=1)
    sizes = [job.items for job in plan.jobs]
    assert (sum(sizes), len(sizes), len(plan.concurrency), max(sizes), min(sizes)) == (1_000_000, 50, 20, 200_000, 1)
    assert plan.size.workers == 1_000
    assert plan == make_plan(FULL, seed=1)


@pytest.mark.req("S3")
def test_the_ideal_is_the_work_over_the_limit_from_the_arrival_on() -> None:
    plan = make_plan(SHORT, seed=3)
    jobs = [msgspec.structs.replace(job, doomed=False) for job in plan.jobs[:2]]
    plan = msgspec.structs.replace(plan, jobs=tuple(jobs))
    truth = ActualRuns(plan)
    late = truth.jobs[jobs[1].job.job_id]
    late.useful_seconds = 1_000.0 * jobs[1].limit
    ideal = lower_bound(truth, plan)
    assert ideal.by_jobs == pytest.approx(jobs[1].arrives_at + 1_000.0)
    assert ideal.by_sites == pytest.approx(
        jobs[1].arrives_at + 1_000.0 * jobs[1].limit / plan.concurrency[late.plan.site]
    )
    assert ideal.seconds == max(ideal.by_jobs, ideal.by_sites, ideal.by_workers)


@pytest.mark.req("Q5")
async def test_the_table_in_memory_has_conditions_order_and_all_or_nothing() -> None:
    table = MemoryTable()
    a, b, c = (Key("p", name) for name in "abc")
    assert await table.commit(Put(b, b"1", version=1, expected=ABSENT), Put(a, b"2"))
    assert not await table.commit(Put(c, b"3"), Put(b, b"4", version=2, expected=ABSENT)), "b is there"
    assert not await table.commit(Put(c, b"3"), Put(b, b"4", version=9, expected=8)), "of another version"
    assert await table.get(c) == {}, "so nothing was written"
    assert await table.commit(Put(b, b"4", version=2, expected=1), Put(c, b"3"))
    assert [row.key.s async for row in table.query("p")] == ["a", "b", "c"]
    assert [row.body async for row in table.query("p", "b", reverse=True, limit=1)] == [b"3"]
    await table.write_many([Delete(a), Delete(a)])
    assert [row.version async for row in table.query("p", last="b")] == [2]
    assert await table.add(a, n=2, m=0) == {"n": 2, "m": 0}
    assert await table.add(a, n=1) == {"n": 3}


def one_job(workers: int, items: int, limit: int) -> Plan:
    """One job for a fleet of which each worker runs one item at once."""
    size = msgspec.structs.replace(FULL, workers=workers, items=items, jobs=1, sites=1, kills=0, items_at_once=1)
    policy = ExecutionPolicy(throttling=Throttling(max_concurrent_workers=limit))
    job = Job(job_id="job-00", scraper_id="simulated", sites=("site-00",), policy=policy)
    plan = JobPlan(job=job, items=items, arrives_at=0.0)
    return Plan(size=size, seed=5, jobs=(plan,), concurrency={"site-00": limit}, kills=())


@pytest.mark.req("W1", "Q3")
def test_many_workers_with_one_slot_each_do_not_wait_for_each_other_long() -> None:
    """Before gathering went by what a commit takes it was twice the ideal and more."""
    simulated = asyncio.run(simulate(one_job(workers=130, items=13_000, limit=120)))
    assert simulated.problems == []
    assert simulated.seconds < 1.5 * simulated.ideal.seconds, "of which the first 15 s are those of the circuit"


def sour(world: World) -> None:
    """From now on every page fails."""
    if world.events.elapsed >= 40.0:
        world.doomed.add("job-00")


@pytest.mark.req("S4")
def test_when_a_site_breaks_down_hardly_anything_starts_after_the_circuit_has_opened() -> None:
    plan = one_job(workers=170, items=30_000, limit=158)
    simulated = asyncio.run(simulate(plan, on_second=sour))
    assert simulated.problems == []
    assert simulated.world.truth.jobs["job-00"].starts_after_open is not None, "and it did open"
    careless = asyncio.run(simulate(plan, DisabledRule.DOUBT, sour))
    assert any("after its circuit opened" in problem for problem in careless.problems)


@pytest.mark.req("S2", "Z3")
async def test_a_share_of_a_site_that_is_being_given_up_lets_nothing_through(tmp_path: Path) -> None:
    plan = one_job(workers=1, items=1, limit=1)
    world, sent = World(plan, tmp_path), list[str]()
    lane = SiteSlots("site-00", "w", world, lambda: True)
    lane.join(lambda: sent.append("first"))
    await world.events.play(lambda: bool(sent))
    lane.release()
    await world.events.play(lambda: lane._asking and not lane._cadence.told)
    lane.join(lambda: sent.append("second"))
    assert sent == ["first"], "the book has just heard that nobody wants it"
    await world.events.play(lambda: len(sent) == 2)
    assert sent == ["first", "second"], "and is asked again"
