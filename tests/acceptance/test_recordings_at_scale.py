"""The short form of `make recordings`: one imported recording over parcels of a county that spoils some of its answers,
beside a scraper written by hand; and its checks by themselves, on jobs that went wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.chaos.findings import Findings
from harness.recordings.check import check_outcomes, check_steps, expected_of
from harness.recordings.flow import RECORDED_PARCEL, make_flow
from harness.recordings.jobs import ItemResult
from harness.recordings.site import InjectedFault
from swath.recordings.document import read_recording
from swath.recordings.schema.recording import Recording

pytestmark = pytest.mark.req("A5", "A4", "K7", "Z5")

THERE, GONE = "501-22-000", "501-22-009"
GOTO = "step 2 (goto http://county.example/app/): HTTP 500 at http://county.example/app/"
SEARCH = "step 8 (wait for #parcelNumber): it is not visible after 6 s"
YEARS = "step 10 (wait for #end): it is not visible after 6 s"


@pytest.mark.long
@pytest.mark.timeout(600)  # those that are spoiled wait for their time: two minutes of a busy machine
def test_outcomes_are_the_countys_and_failures_name_their_steps(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "harness.recordings", "--short", "--seed", "7"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path), "--json", str(report)],
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert report.exists(), done.stderr
    figures = json.loads(report.read_text(encoding="utf-8"))
    assert (done.returncode, figures["problems"]) == (0, []), done.stdout
    assert figures["items"] == 20
    for ran, items, not_found in zip(figures["ran"], (20, 10), (1, 1), strict=True):
        assert sum(ran["ended"].values()) == items
        assert ran["ended"]["not_found"] == not_found
        assert ran["ended"]["success"] >= items * 0.8
        assert ran["verify_exit_code"] == 0
        assert ran["items_per_second"] > 0
    assert sum(figures["failed_steps"].values()) == figures["ran"][0]["failed_attempts"] > 0


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return read_recording(make_flow(tmp_path_factory.mktemp("flow"), "http://county.example", 6.0))


@pytest.mark.req("A3")
def test_the_recording_is_imported_and_nothing_of_the_recorded_parcel_is_left(flow: Recording) -> None:
    assert [step.do for step in flow.steps[:10]] == [
        "set_viewport",
        "goto",
        "wait_for",
        "if",
        "click",
        "type",
        "click",
        "wait_for",
        "scroll",
        "wait_for",
    ]
    told = flow.model_dump(mode="json", by_alias=True)
    assert told["inputs"]["parcel_id"].pop("example") == RECORDED_PARCEL
    assert RECORDED_PARCEL not in json.dumps(told)
    assert told["steps"][5]["text"] == "{{ input.parcel_id }}"


def came(state: str = "success", *failures: tuple[str, str], record: dict[str, Any] | None = None) -> ItemResult:
    return ItemResult(state, expected_of(THERE) if record is None and state == "success" else record, failures)


def problems_of(items: dict[str, ItemResult], *, fails: bool = True) -> list[str]:
    findings = Findings()
    check_outcomes([THERE, GONE], items, findings, fails=fails)
    return [str(problem) for problem in findings.problems]


FAILED = came("failed", *[("timeout", SEARCH)] * 4)


def test_what_the_county_knows_is_right() -> None:
    assert problems_of({THERE: came(), GONE: came("not_found")}) == []
    assert problems_of({THERE: FAILED, GONE: came("not_found")}) == []


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({THERE: came()}, f"lost: {GONE}: the store does not know it"),
        ({THERE: came("not_found"), GONE: came("not_found")}, "it is not_found and must be success"),
        ({THERE: came(), GONE: came()}, "it is success and must be not_found"),
        ({THERE: came(record={}), GONE: came("not_found")}, "its record is wrong: ['acreage', 'assessed_value'"),
        ({THERE: came(record={**(expected_of(THERE) or {}), "owner": "X"}), GONE: came("not_found")}, "['owner']"),
        ({THERE: came("failed", ("timeout", SEARCH)), GONE: came("not_found")}, "it was tried 1 times"),
        ({THERE: came("0"), GONE: came("not_found")}, "it is 0 and must be success"),
        ({THERE: came(), GONE: came("not_found"), "999-99-999": came()}, "nobody has asked for it"),
    ],
)
def test_what_is_not_right_is_found(items: dict[str, ItemResult], problem: str) -> None:
    assert problem in problems_of(items)[0]


def test_without_anything_spoiled_nothing_may_fail() -> None:
    assert problems_of({THERE: FAILED, GONE: came("not_found")}, fails=False) == [
        f"wrong: {THERE}: it has failed though nothing was spoiled"
    ]


def steps_of(flow: Recording, failures: list[tuple[str, str]], spoilt: dict[tuple[str, str], int]) -> list[str]:
    findings, item = Findings(), came("success", *failures)
    by_step = check_steps(flow, {THERE: item}, InjectedFault(spoilt), findings)
    assert sum(by_step.values()) <= len(failures)
    return [str(problem) for problem in findings.problems]


def test_each_spoiled_answer_is_one_failure_of_the_step_that_waits_for_it(flow: Recording) -> None:
    failures = [("server_error", GOTO), ("timeout", SEARCH), ("timeout", YEARS)]
    spoilt = Counter({("app", ""): 1, ("app-parcel", THERE): 1, ("app-years", THERE): 1, ("other", ""): 1})
    assert steps_of(flow, failures, spoilt) == []
    # When the dialog cannot say that one has agreed, it is the search that finds nothing.
    assert steps_of(flow, [("timeout", SEARCH)], {("app-agree", ""): 1}) == []
    assert steps_of(flow, [], {("app-parcel", ""): 1}) == []  # nobody need notice


@pytest.mark.parametrize(
    ("failures", "spoilt", "problem"),
    [
        ([("timeout", "took too long")], {}, "a failure names no step: took too long"),
        ([("timeout", SEARCH.replace("8", "9"))], {}, "a failure names no step"),
        ([("timeout", SEARCH.replace("#parcelNumber", "#x"))], {}, "a failure names no step"),
        ([("timeout", SEARCH)], {}, "0 answers of app-parcel were spoiled, and 1 attempts failed by it"),
        ([("timeout", SEARCH)], {("app-parcel", GONE): 1}, "0 answers of app-parcel were spoiled, and 1"),
        ([], {("app-years", THERE): 2}, "2 answers of app-years were spoiled, and 0 attempts failed by it"),
        ([("blocked", GOTO)], {("app", ""): 1}, "step 2 failed by blocked"),
        ([("timeout", "step 5 (click aria/Parcel number): x")], {}, "step 5 failed by timeout"),
    ],
)
def test_failures_that_nothing_explains_are_found(
    flow: Recording, failures: list[tuple[str, str]], spoilt: dict[tuple[str, str], int], problem: str
) -> None:
    assert any(problem in told for told in steps_of(flow, failures, spoilt))
