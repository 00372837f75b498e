"""J7: what a controller shows of a job becomes the same status again, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.job import Counts, EndingStep, Job, JobEnding, JobStatus, SiteOutlook, StopReason, WaitingFor
from swath.domain.transitions import JobState
from swath.entrypoints.api.models import job_view
from swath.entrypoints.api.routes.control import apply_merge_patch
from swath.entrypoints.cli.jobs import show
from swath.entrypoints.cli.remote.client import make_merge_patch, status_from_view

pytestmark = pytest.mark.req("J7")

COUNTS = st.builds(Counts, **{name: st.integers(0, 10**7) for name in Counts.__struct_fields__})
SITES = st.builds(
    SiteOutlook,
    name=st.text(),
    circuit=st.sampled_from(["open", "closed"]),
    requests_per_second=st.floats(0, 100),
    waits_seconds=st.none() | st.floats(0, 100),
    why=st.none() | st.text(),
)
ENDINGS = st.builds(
    JobEnding,
    step=st.sampled_from(EndingStep),
    done=st.integers(0, 10**7),
    total=st.integers(0, 10**7),
    deaths=st.integers(0, 99),
    retry_seconds=st.none() | st.floats(0, 600),
)
POLICIES = st.builds(
    lambda n, days: ExecutionPolicy.model_validate({"retries": {"max_retries": n}, "retention_days": days}),
    st.integers(0, 9),
    st.none() | st.floats(1, 100),
)
JOBS = st.builds(
    Job,
    job_id=st.text(min_size=1),
    scraper_id=st.text(min_size=1),
    name=st.none() | st.text(),
    labels=st.dictionaries(st.text(), st.text(), max_size=3),
    callback_url=st.none() | st.text(),
    priority=st.integers(-9, 9),
    policy=POLICIES,
    created_at=st.floats(0, 2e9),
)
STATUSES = st.builds(
    JobStatus,
    job=JOBS,
    state=st.sampled_from(JobState),
    generation=st.integers(1, 9),
    counts=COUNTS,
    failures=st.dictionaries(st.sampled_from([kind.value for kind in FailureKind]), st.integers(1, 99), max_size=3),
    items_per_second=st.floats(0, 1e6),
    started_at=st.none() | st.floats(0, 2e9),
    ended_at=st.none() | st.floats(0, 2e9),
    loaded_rows=st.integers(0, 10**7),
    stopping=st.none() | st.sampled_from(StopReason),
    circuit_opened=st.none() | st.text(min_size=1),
    waiting_for=st.none() | st.sampled_from(WaitingFor),
    ending=st.none() | ENDINGS,
    deleting=st.booleans(),
    cost=st.floats(0, 1e6),
    sites=st.lists(SITES, max_size=2).map(tuple),
    closed_seconds=st.floats(0, 1e6),
)


@given(STATUSES)
def test_a_status_comes_through_as_it_is(status: JobStatus) -> None:
    if status.counts.remaining < 0:  # no store counts like that
        status = msgspec.structs.replace(status, counts=Counts(total=status.counts.ended))
    sent = json.loads(msgspec.json.encode(job_view(status)))
    found = status_from_view(sent)
    assert json.loads(msgspec.json.encode(found.as_json())) == {
        name: value for name, value in sent.items() if name not in ("deleting", "stopping")
    }
    assert (found.deleting, found.stopping) == (status.deleting, status.stopping)


VALUES: st.SearchStrategy[Any] = st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
OBJECTS = st.dictionaries(
    st.sampled_from("abcd"), VALUES | st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=3), max_size=4
)


@given(OBJECTS, OBJECTS)
def test_a_part_makes_one_policy_of_another(former: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert apply_merge_patch(former, make_merge_patch(former, wanted)) == wanted
    only = make_merge_patch(former, wanted, only_changes=True)
    assert apply_merge_patch(former, only) == wanted
    assert not any(name in former and former[name] == wanted.get(name) for name in only)


@pytest.mark.parametrize("per_second", [31.046, 0.004, 2.449999])
def test_a_pace_reads_the_same_after_it_was_rounded_on_the_way(per_second: float) -> None:
    job = Job(job_id="j", scraper_id="s")
    status = JobStatus(job=job, state=JobState.RUNNING, counts=Counts(total=1_357), items_per_second=per_second)
    there = status_from_view(json.loads(msgspec.json.encode(job_view(status))))
    assert show._rate_and_eta(there) == show._rate_and_eta(status)
