"""A job's counters and how its final state follows from its items (property 9)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.execution_policy import ExecutionPolicy, Keep
from swath.domain.job import Counts, Job, JobStatus, StopReason, WaitingFor, final_state
from swath.domain.transitions import JOB_MOVES, ItemState, JobState

S, F, K, C = ItemState.SUCCESS, ItemState.FAILED, ItemState.SKIPPED, ItemState.CANCELLED
stops = st.sampled_from([None, *StopReason])
outcomes = st.lists(st.sampled_from([S, F, K, C]), max_size=12)


def counts_of(items: list[ItemState]) -> Counts:
    return Counts(
        success=items.count(S),
        failed=items.count(F),
        skipped=items.count(K),
        cancelled=items.count(C),
        total=len(items),
    )


@pytest.mark.req("J4")
@given(items=outcomes, stopping=stops)
def test_property_9_the_final_state_follows_from_the_outcomes(
    items: list[ItemState], stopping: StopReason | None
) -> None:
    state = final_state(counts_of(items), stopping)
    everything_well = all(item in (S, K) for item in items) and S in items
    cancelled = stopping is StopReason.CANCELLED and (C in items or not items)
    opened = stopping is StopReason.CIRCUIT_OPEN
    assert (state is JobState.CANCELLED) == cancelled
    assert (state is JobState.COMPLETED) == (everything_well and not opened)
    assert (state is JobState.FAILED) == (opened or (S not in items and not cancelled))
    assert state.terminal


@pytest.mark.req("J4")
@pytest.mark.parametrize(
    ("items", "stopping", "state"),
    [
        ([S], None, JobState.COMPLETED),
        ([S, K], None, JobState.COMPLETED),
        ([S, F], None, JobState.PARTIALLY_COMPLETED),
        ([S, C], None, JobState.PARTIALLY_COMPLETED),  # cancelled in an earlier generation
        ([F, F], None, JobState.FAILED),
        ([K, K], None, JobState.FAILED),
        ([F, K, C], None, JobState.FAILED),
        ([S, C], StopReason.CANCELLED, JobState.CANCELLED),
        ([C], StopReason.CANCELLED, JobState.CANCELLED),
        ([], StopReason.CANCELLED, JobState.CANCELLED),
        ([S, S], StopReason.CANCELLED, JobState.COMPLETED),  # the cancel came too late
        ([F], StopReason.CANCELLED, JobState.FAILED),
        ([F, C], StopReason.CIRCUIT_OPEN, JobState.FAILED),
        ([S, S, F, C], StopReason.CIRCUIT_OPEN, JobState.FAILED),
        ([S, S], StopReason.CIRCUIT_OPEN, JobState.FAILED),  # too many were not found
    ],
)
def test_final_states_by_example(items: list[ItemState], stopping: StopReason | None, state: JobState) -> None:
    assert final_state(counts_of(items), stopping) is state


@pytest.mark.req("J4")
@given(items=outcomes, more=st.integers(1, 5), stopping=stops)
def test_a_job_with_unfinished_items_has_no_final_state(
    items: list[ItemState], more: int, stopping: StopReason | None
) -> None:
    counts = msgspec.structs.replace(counts_of(items), total=len(items) + more)
    with pytest.raises(ValueError, match=f"{more} items"):
        final_state(counts, stopping)


@pytest.mark.req("J4")
def test_a_job_that_was_never_started_can_only_end_cancelled_or_by_its_circuit() -> None:
    assert {end for end in JOB_MOVES[JobState.LOADING] if end.terminal} == {JobState.CANCELLED}
    assert {end for end in JOB_MOVES[JobState.PENDING] if end.terminal} == {JobState.CANCELLED, JobState.FAILED}
    assert final_state(counts_of([C, C]), StopReason.CANCELLED) is JobState.CANCELLED


@pytest.mark.req("J7")
@given(
    states=st.fixed_dictionaries(
        {name: st.integers(0, 9) for name in ("pending", "queued", "in_progress", "success", "failed", "skipped")}
    ),
    cancelled=st.integers(0, 9),
)
def test_ended_and_remaining_make_up_the_total(states: dict[str, int], cancelled: int) -> None:
    counts = Counts(**states, cancelled=cancelled, total=sum(states.values()) + cancelled)
    assert counts.ended == states["success"] + states["failed"] + states["skipped"] + cancelled
    assert counts.remaining == states["pending"] + states["queued"] + states["in_progress"]


def test_not_found_is_counted_inside_success() -> None:
    assert Counts(success=3, not_found=2, total=3).ended == 3


def a_job() -> Job:
    return Job(job_id="j", scraper_id="s", labels={"a": "b"}, created_at=1.0)


def test_the_time_of_asking_is_no_part_of_the_order() -> None:
    job = a_job()
    assert not job.differences(msgspec.structs.replace(job, created_at=2.0))
    policy = ExecutionPolicy(keep=Keep.DATA)
    changes: list[dict[str, Any]] = [{"scraper_id": "t"}, {"priority": 1}, {"labels": {}}, {"policy": policy}]
    for change in changes:
        assert job.differences(msgspec.structs.replace(job, **change)) == tuple(change)


@pytest.mark.req("J7")
def test_a_status_has_the_shape_that_is_shown_everywhere() -> None:
    status = JobStatus(
        job=a_job(),
        state=JobState.RUNNING,
        counts=Counts(pending=6, success=3, not_found=1, failed=1, total=10),
        failures={"timeout": 1},
        items_per_second=1.2345,
    )
    shown = status.as_json()
    assert {name: shown[name] for name in ("job_id", "status", "generation", "failures")} == {
        "job_id": "j",
        "status": "running",
        "generation": 1,
        "failures": {"timeout": 1},
    }
    assert shown["counts"] == {
        "pending": 6,
        "queued": 0,
        "in_progress": 0,
        "success": 3,
        "not_found": 1,
        "failed": 1,
        "skipped": 0,
        "cancelled": 0,
        "total": 10,
    }
    assert (shown["items_per_second"], shown["eta_seconds"]) == (1.23, 4.9)
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown


@pytest.mark.req("J7", "S4", "Z9")
def test_a_status_says_why_a_job_does_not_go_on() -> None:
    shown = JobStatus(job=a_job(), state=JobState.RUNNING).as_json()
    assert (shown["waiting_for"], shown["circuit"]) == (None, {"state": "closed", "reason": None})
    status = JobStatus(
        job=a_job(), state=JobState.PAUSED, circuit_opened="5 items failed in a row", waiting_for=WaitingFor.DISK
    )
    assert status.as_json()["waiting_for"] == "disk"
    assert status.as_json()["circuit"] == {"state": "open", "reason": "5 items failed in a row"}


@pytest.mark.parametrize(
    ("state", "pace", "eta"),
    [
        (JobState.RUNNING, 2.0, 5.0),
        (JobState.RUNNING, 0.0, None),
        (JobState.PAUSED, 2.0, None),
        (JobState.COMPLETED, 2.0, None),
    ],
)
def test_the_eta_is_known_only_while_there_is_a_pace(state: JobState, pace: float, eta: float | None) -> None:
    status = JobStatus(job=a_job(), state=state, counts=Counts(pending=10, total=10), items_per_second=pace)
    assert status.eta_seconds == eta


@pytest.mark.req("J7")
def test_a_job_that_waits_for_something_has_no_eta() -> None:
    status = JobStatus(job=a_job(), state=JobState.RUNNING, counts=Counts(pending=10, total=10), items_per_second=2.0)
    assert status.eta_seconds == 5.0
    for what in WaitingFor:
        assert msgspec.structs.replace(status, waiting_for=what).eta_seconds is None
