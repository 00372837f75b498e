"""How long an ending is left alone after it has killed its worker, and what a status shows of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from swath.domain.job import EndingProgress, EndingStep, Job, JobEnding, JobStatus, ending_retry_seconds, job_ending
from swath.domain.transitions import JobState
from swath.entrypoints.cli.output import status_notes

pytestmark = pytest.mark.req("S6", "Z10", "J7")


def test_the_first_death_costs_no_time_and_each_further_one_more_up_to_a_bound() -> None:
    waits = [ending_retry_seconds(deaths) for deaths in range(1, 20)]
    assert waits[0] == 0
    assert all(earlier <= later for earlier, later in pairwise(waits))
    assert waits[:5] == [0, 1, 10, 60, 600]
    assert waits[-1] == 600


def test_an_ending_under_way_shows_its_step_and_one_that_is_put_off_when_it_is_due() -> None:
    assert job_ending(None, 0, -1.0) is None
    under_way = job_ending(EndingProgress(EndingStep.LISTING, 3, 9), 2, 5.0)
    assert under_way == JobEnding(step=EndingStep.LISTING, done=3, total=9, deaths=2)
    assert job_ending(None, 2, 5.04) == JobEnding(step=EndingStep.PUT_OFF, deaths=2, retry_seconds=5.0)
    assert job_ending(None, 2, -7.0) == JobEnding(step=EndingStep.PUT_OFF, deaths=2, retry_seconds=0.0)


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        (JobEnding(step=EndingStep.STARTING), "ending: starting"),
        (JobEnding(step=EndingStep.LISTING, done=1200, total=5000), "ending: writing manifests 1,200 of 5,000"),
        (
            JobEnding(step=EndingStep.PUT_OFF, deaths=2, retry_seconds=1.0),
            "its ending has killed a worker 2 times, next try in 1 s",
        ),
        (
            JobEnding(step=EndingStep.PUT_OFF, deaths=3, retry_seconds=10.0),
            "its ending has killed a worker 3 times, next try in 10 s; to try at once: `swath jobs resume j`",
        ),
    ],
)
def test_people_are_told_what_the_ending_does(ending: JobEnding, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["swath"])
    status = JobStatus(job=Job(job_id="j", scraper_id="any"), state=JobState.RUNNING, ending=ending)
    (shown,) = status_notes(status)
    assert shown == told
