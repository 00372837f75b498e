"""The short form of `make chaos-aws`, the same with the fence switched off, and that its checkers have teeth."""

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.chaos.aws.job import SitePlan
from harness.chaos.aws.job_parts import shared_out
from harness.chaos.aws.queue_messages import Messages
from harness.chaos.aws.raw_store import HeadAt, LeaseAt
from harness.chaos.aws.site import LoggedRequest
from harness.chaos.aws.site_rate import Strike, measure_site_rates
from harness.chaos.findings import Findings
from harness.chaos.side_jobs import ITEMS
from swath.backends.aws.store.job_row import HeldLease, JobRow

TEST_SECONDS = 600  # against hanging
COMMAND = [sys.executable, "-m", "harness.chaos.aws", "--short"]
SITE = SitePlan(rate=10.0, concurrency=2, page_ms=100.0)


def chaos(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    report = folder / "report.json"
    done = subprocess.run(
        [*COMMAND, "--folder", str(folder), "--json", str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS - 20,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.long
@pytest.mark.req("Z1", "Z2", "Z3", "Z10", "S6", "W1", "Q3", "Q5")
@pytest.mark.timeout(TEST_SECONDS)
def test_workers_on_aws_that_are_killed_frozen_and_disturbed_lose_nothing(tmp_path: Path) -> None:
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
    made = storm["strikes"]
    assert made["woken after a retry"] >= 1
    assert made["seconds between the hosts' clocks"] >= 40
    for kind, least in (("clock ", 3), ("presence f", 1), ("a bucket that answers", 1)):
        done = sum(count for name, count in made.items() if name.startswith(kind))
        assert done >= least, kind
    beside = 4  # kept, retried, damaged, and one beside that
    assert (storm["items"], storm["jobs"], len(storm["large_jobs"])) == (180 + beside * ITEMS, 7, 2)
    assert figures["messages"]["sent"] > 7
    assert figures["messages"]["received"] > 0
    assert visits["well"]
    assert visits["requests"] >= storm["items"]


@pytest.mark.long
@pytest.mark.req("Z1")
@pytest.mark.timeout(900)  # about a minute on two cores that others use too, and mostly the first is enough
def test_without_the_fence_the_same_run_on_aws_finds_items_counted_twice(tmp_path: Path) -> None:
    arguments = ("--items", "120", "--kills", "0", "--freezes", "4", "--broken", "fence")
    for seed in ("20", "21", "22"):  # who wakes up with nothing left to say does no harm
        (tmp_path / seed).mkdir()
        code, figures, said = chaos(tmp_path / seed, "--seed", seed, *arguments)
        if code:
            break
    assert code == 1, said
    assert figures["storm"]["strikes"]["woken without lease"] > 0
    assert figures["found"]["counted_twice"] > 0
    assert figures["storm"]["verify_exit_code"] != 0


@pytest.mark.parametrize("items", [20, 180, 20_000])
def test_every_item_is_in_one_job_that_comes_in_before_the_others_are_done(items: int) -> None:
    parts = shared_out(items, 16)
    assert sorted(n for part in parts for n in range(part.first, part.first + part.items)) == list(range(items))
    large = [part for part in parts if part.large]
    assert parts[0] == large[0]
    assert [part.due for part in parts] == sorted(part.due for part in parts)
    assert parts[-1].due < sum(part.items for part in large)
    for before, part in pairwise(large):
        assert part.due == before.due + before.items


def test_the_full_form_has_messages_enough_to_lose_and_double_some() -> None:
    small = [part for part in shared_out(20_000, 16) if not part.large]
    assert sum(min(part.items, part.concurrency) for part in small) > 1_000
    between = {part.due for part in shared_out(20_000, 16) if part.large and part.due}
    assert sum(part.due in between for part in small) > 200


@pytest.mark.req("Q5")
@pytest.mark.parametrize(("lost", "doubled", "found"), [(9, 40, 0), (0, 40, 1), (9, 0, 1), (0, 0, 2)])
def test_a_run_without_lost_or_doubled_messages_has_shown_nothing(lost: int, doubled: int, found: int) -> None:
    findings = Findings()
    faults = Counter({"messages sent": 1_000, "lost": lost, "duplicated": doubled, "repeated": 7})
    Messages.of(faults).judge(findings)
    assert findings.found.total() == found


def test_the_count_reads_heads_as_they_are_written() -> None:
    """It has an account of its own of what is where; if the rows change, it must."""
    for places, written in ((HeadAt, JobRow), (LeaseAt, HeldLease)):
        fields = msgspec.structs.fields(written)
        assert {place.name.lower(): fields[place].name for place in places} == {
            place.name.lower(): place.name.lower() for place in places
        }


def visits(*opened: float, seconds: float = 0.1, pid: int = 1) -> list[LoggedRequest]:
    return [LoggedRequest(at, at + seconds, pid, "200") for at in opened]


@pytest.mark.req("Z3")
def test_a_site_that_is_visited_too_fast_is_noticed() -> None:
    kept = visits(*(n / 10 for n in range(50)), seconds=0.05)
    assert measure_site_rates(kept, [], SITE, 0.0).well(SITE)
    hasty = visits(*(n / 12 for n in range(60)), seconds=0.05)
    assert not measure_site_rates(hasty, [], SITE, 0.0).well(SITE)


@pytest.mark.req("Z3")
def test_too_many_requests_at_once_are_noticed_unless_their_worker_was_struck() -> None:
    open_together = [*visits(0.0, pid=1), *visits(0.01, pid=2), *visits(0.05, pid=3)]
    found = measure_site_rates(open_together, [], SITE, 0.0)
    assert (found.most_open, found.well(SITE)) == (3, False)
    found = measure_site_rates(open_together, [Strike(1, 0.04)], SITE, 0.0)
    assert (found.most_open, found.most_open_of_all, found.struck, found.well(SITE)) == (2, 3, 1, True)


@pytest.mark.req("Z3")
def test_a_site_that_notes_the_end_of_a_request_late_is_not_visited_too_much() -> None:
    in_turn = [*visits(0.0, 0.0), *visits(0.09)]  # sent when one was answered, which the site noted 10 ms later
    assert not measure_site_rates(in_turn, [], SITE, 0.0).well(SITE)
    assert measure_site_rates(in_turn, [], SITE, 0.02).most_open == 2


@pytest.mark.req("Z3")
def test_what_a_woken_worker_sends_counts_like_any_other() -> None:
    asleep = Strike(1, 0.0, until=5.0)
    found = measure_site_rates(visits(*(6 + n / 12 for n in range(60)), pid=1), [asleep], SITE, 0.0)
    assert (found.struck, found.well(SITE)) == (0, False)
