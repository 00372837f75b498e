"""Only processes that a test started through harness.armed_cli can be armed."""

import re
import subprocess
from pathlib import Path

import pytest

from harness.chaos.job import ChaosJob, make_job

SOURCES = Path(__file__).parents[3] / "src"


@pytest.fixture
def small_job(tmp_path: Path) -> ChaosJob:
    return make_job(tmp_path / "job", items=20, mean_seconds=0.001, concurrency=8)


def run(job: ChaosJob, *, armed: bool, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        job.command(job.run_arguments, armed=armed),
        env=job.environment(**environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_normal_process_does_not_die_at_a_named_point(small_job: ChaosJob) -> None:
    done = run(small_job, armed=False, SWATH_CRASH_AT="after_submit:1", SWATH_FREEZE_AT="after_claim:1")
    assert done.returncode == 3, done.stderr


def test_an_armed_process_dies_where_it_is_told_to(small_job: ChaosJob) -> None:
    assert run(small_job, armed=True, SWATH_CRASH_AT="after_claim:1").returncode == 137


def test_of_several_places_the_first_that_is_reached_counts(small_job: ChaosJob) -> None:
    done = run(small_job, armed=True, SWATH_CRASH_AT="after_end:1,after_stage:1000,after_claim:1")
    assert done.returncode == 137
    assert not list(small_job.results.glob("job_metadata.json"))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SWATH_CRASH_AT", "after_lunch:1"),
        ("SWATH_CRASH_AT", "after_claim"),
        ("SWATH_CRASH_AT", "after_claim:0"),
        ("SWATH_FREEZE_AT", "after_claim:x"),
        ("SWATH_BROKEN", "heart"),
    ],
)
def test_a_word_that_is_not_understood_ends_the_process(small_job: ChaosJob, variable: str, value: str) -> None:
    done = run(small_job, armed=True, **{variable: value})
    assert done.returncode == 1
    assert f"{variable}={value}" in done.stderr


def test_the_product_knows_nothing_of_the_variables() -> None:
    readers = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search("SWATH_(CRASH_AT|FREEZE_AT|BROKEN)|armed_cli", path.read_text(encoding="utf-8"))
    }
    assert readers <= {"swath/observability/crash_points.py"}  # whose docstring names the module
