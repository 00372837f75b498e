"""The short form of `make chaos-aws`, the same with the fence switched off, and that its checkers have teeth."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath.backends.aws.jobs.head import Head, HeldLease
from swath.testing.chaos_aws.job import SitePlan
from swath.testing.chaos_aws.pace import Strike, paced
from swath.testing.chaos_aws.reading import HeadAt, LeaseAt
from swath.testing.chaos_aws.site import Seen

COMMAND = [sys.executable, "-m", "swath.testing.chaos_aws", "--short"]
SITE = SitePlan(rate=10.0, concurrency=2, page_ms=100.0)


def chaos(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    report = folder / "report.json"
    done = subprocess.run(
        [*COMMAND, "--folder", str(folder), "--json", str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.req("Z1", "Z2", "Z3", "W1", "Q3", "Q5")
@pytest.mark.timeout(300)  # about a minute on two cores that others use too
def test_workers_on_aws_that_are_killed_and_frozen_lose_nothing(tmp_path: Path) -> None:
    code, figures, said = chaos(tmp_path, "--seed", "20")
    assert code == 0, said
    assert figures["problems"] == []
    storm, visits = figures["storm"], figures["paced"]
    assert storm["strikes"]["SIGKILL"] == 3
    assert storm["strikes"]["SIGKILL with lease"] >= 1
    assert storm["strikes"]["SIGSTOP"] >= 1
    assert storm["faults"]["lost_answer"] > 0
    assert storm["faults"]["throttled"] > 0
    assert storm["verify_exit_code"] == 0
    assert visits["well"]
    assert visits["requests"] >= storm["items"]


@pytest.mark.req("Z1")
@pytest.mark.timeout(300)  # about a minute on two cores that others use too
def test_without_the_fence_the_same_run_on_aws_finds_items_counted_twice(tmp_path: Path) -> None:
    arguments = ("--seed", "20", "--items", "120", "--kills", "0", "--freezes", "4", "--broken", "fence")
    code, figures, said = chaos(tmp_path, *arguments)
    assert code == 1, said
    assert figures["storm"]["strikes"]["woken without lease"] > 0
    assert figures["found"]["counted_twice"] > 0
    assert figures["storm"]["verify_exit_code"] != 0


def test_the_count_reads_heads_as_they_are_written() -> None:
    """It has an account of its own of what is where; if the rows change, it must."""
    for places, written in ((HeadAt, Head), (LeaseAt, HeldLease)):
        fields = msgspec.structs.fields(written)
        assert {place.name.lower(): fields[place].name for place in places} == {
            place.name.lower(): place.name.lower() for place in places
        }


def visits(*opened: float, seconds: float = 0.1, pid: int = 1) -> list[Seen]:
    return [Seen(at, at + seconds, pid, "200") for at in opened]


@pytest.mark.req("Z3")
def test_a_site_that_is_visited_too_fast_is_noticed() -> None:
    kept = visits(*(n / 10 for n in range(50)), seconds=0.05)
    assert paced(kept, [], SITE, 0.0).well(SITE)
    hasty = visits(*(n / 12 for n in range(60)), seconds=0.05)
    assert not paced(hasty, [], SITE, 0.0).well(SITE)


@pytest.mark.req("Z3")
def test_too_many_requests_at_once_are_noticed_unless_their_worker_was_struck() -> None:
    open_together = [*visits(0.0, pid=1), *visits(0.01, pid=2), *visits(0.05, pid=3)]
    found = paced(open_together, [], SITE, 0.0)
    assert (found.most_open, found.well(SITE)) == (3, False)
    found = paced(open_together, [Strike(1, 0.04)], SITE, 0.0)
    assert (found.most_open, found.most_open_of_all, found.struck, found.well(SITE)) == (2, 3, 1, True)


@pytest.mark.req("Z3")
def test_what_a_woken_worker_sends_counts_like_any_other() -> None:
    asleep = Strike(1, 0.0, until=5.0)
    found = paced(visits(*(6 + n / 12 for n in range(60)), pid=1), [asleep], SITE, 0.0)
    assert (found.struck, found.well(SITE)) == (0, False)
