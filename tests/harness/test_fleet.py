"""The short form of `make fleet`: jobs on the local AWS servers through real processes, a count that finds fault."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness import interruption
from harness.bench.slot_use import SlotPlan, Used
from harness.chaos.aws.raw_store import PlainRow, PlainTable
from harness.fakes.aws import Endpoints
from harness.fleet import __main__ as fleet
from harness.fleet import loading, report
from harness.fleet.job_run import JobCost, MeasuredPlan, run_job
from harness.fleet.measured_job import MeasuredJob
from harness.fleet.meters import read_meters
from harness.fleet.report import Figures, problems
from harness.fleet.slots import SlotUse
from harness.soak.job import item_ids
from harness.tables import marks
from swath.backends.aws.client.metering import Meter
from tests.integration.aws.conftest import aws, aws_servers

BEGIN, END = marks()

__all__ = ["aws", "aws_servers"]  # the fixtures of the servers


@contextmanager
def shared(aws: Endpoints) -> Iterator[object]:
    """The servers of the tests, in the place of new ones."""
    yield type("Servers", (), {"endpoints": aws})


def noted(folder: Path, *meters: Meter) -> Path:
    (folder / "1.json").write_bytes(msgspec.json.encode(list(meters)))
    return folder


def worked(folder: Path, write_units: float) -> JobCost:
    folder.mkdir()
    asked = read_meters(noted(folder, Meter(write_units=write_units)), 1_000)
    order = MeasuredPlan(scraper="example-mock", items=1_000, workers=2, concurrency=8)
    return JobCost(
        order=order, seconds=10, cpu_seconds=1, ending_seconds=1, ending_cpu_seconds=1, asked_to_load=asked, asked=asked
    )


@pytest.mark.req("Q3")
def test_meters_of_all_processes_are_added_and_priced(tmp_path: Path) -> None:
    first, second = Meter(write_units=300.0, read_units=80.0), Meter(write_units=100.0)
    first.requests.update({"dynamodb.put_item": 30, "sqs.receive_message": 10})
    second.requests.update({"s3.put_object": 200, "s3.get_object": 100, "s3.delete_objects": 7, "dynamodb.query": 10})
    first.declined["dynamodb.put_item"] = 3
    noted(tmp_path, first)
    (tmp_path / "2.json").write_bytes(msgspec.json.encode([second]))
    asked = read_meters(tmp_path, 100)
    assert (asked.each("dynamodb"), asked.each("sqs"), asked.each("s3")) == (0.4, 0.1, 3.07)
    assert asked.declined == 3
    assert asked.million("dynamodb") == pytest.approx(4 * 0.625 + 0.8 * 0.125)
    assert asked.million("sqs") == pytest.approx(0.1 * 0.40)
    assert asked.million("s3") == pytest.approx(2 * 5.00 + 1 * 0.40), "S3 deletes for nothing"


@pytest.mark.req("Q3")
def test_a_process_that_left_no_meters_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        read_meters(tmp_path, 1)


@pytest.mark.req("Q3", "S1")
def test_aims_are_judged_and_what_was_missed_is_said(tmp_path: Path) -> None:
    cheap, dear = worked(tmp_path / "cheap", 300.0), worked(tmp_path / "dear", 900.0)
    assert problems(Figures(command="", mock=cheap)) == []
    assert "$1.12" in problems(Figures(command="", mock=dear))[0], "load and run are added"
    assert problems(Figures(command="", mock=dear, judged=False)) == []
    used = Used(plan=SlotPlan(workers=2, items=100), share=0.85, seconds=3.0, peak_items=8)
    asked = cheap.asked
    assert asked is not None
    assert "85.0%" in problems(Figures(command="", slots=SlotUse(used, asked)))[0]


@pytest.mark.req("Q3")
def test_figures_are_put_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n", encoding="utf-8")
    figures = Figures(command="make fleet", mock=worked(tmp_path / "mock", 300.0))
    report.write_page(page, figures)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n\n{BEGIN}\n\n| a million items |")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "old" not in text
    assert json.loads(report.as_json(figures))["mock"]["order"]["items"] == 1_000


@pytest.mark.req("Q3", "Z8")
def test_a_job_on_aws_is_run_and_what_it_asked_for_is_known(aws: Endpoints, tmp_path: Path) -> None:
    order = MeasuredPlan(scraper="example-mock", items=150, workers=1, concurrency=16, keep="data")
    done = run_job(MeasuredJob(folder=tmp_path / "cost", endpoints=aws), order)
    assert done.asked is not None
    assert done.asked_to_load is not None
    assert done.asked.each("s3") > 3, "data, metadata and an entry of the manifest for each item"
    assert done.asked.requests["dynamodb.transact_write_items"] >= 2, "commits of the items, and the end of the job"
    assert done.asked_to_load.write_units > 0
    assert done.cpu_each > 0


@pytest.mark.req("Q3", "R2")
def test_packed_results_ask_little_of_s3(aws: Endpoints, tmp_path: Path) -> None:
    order = MeasuredPlan(scraper="example-mock", items=150, workers=1, concurrency=16, layout="warc")
    done = run_job(MeasuredJob(folder=tmp_path / "packed", endpoints=aws), order)
    assert done.asked is not None
    assert done.asked.requests["s3.put_object"] < 100, "two for each commit, two for each lease, manifests"
    assert done.asked.million("s3") < 4.0


@pytest.mark.req("Q3", "R2")
def test_both_layouts_are_told_side_by_side(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    files, packed = worked(tmp_path / "files", 300.0), worked(tmp_path / "packed", 300.0)
    packed = replace(packed, order=replace(packed.order, layout="warc"))
    report.write_cost(page, Figures(command="make fleet", county=[files, packed]))
    text = page.read_text(encoding="utf-8")
    assert "| a million items | demo-county, 1,000 items, files | demo-county, 1,000 items, warc |" in text
    assert "| S3, $ |" in text
    assert "wall time" not in text
    report.write_cost(page, Figures(command="make fleet"))
    assert page.read_text(encoding="utf-8") == text, "another part has measured no cost"


@pytest.mark.req("Q3", "R2")
def test_one_layout_may_be_named() -> None:
    for words, layouts in (([], ("files", "warc")), (["--layout", "warc", "--short"], ("warc",))):
        assert fleet._sizes(fleet._parser().parse_args(words)).layouts == layouts
    assert fleet._command_line(fleet._parser().parse_args(["--layout", "warc"])) == 'make fleet ARGS="--layout warc"'


@pytest.mark.req("Z8", "J2")
def test_a_load_that_is_killed_is_completed_by_the_same_command(
    aws: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = MeasuredJob(folder=tmp_path / "load", endpoints=aws)
    loaded = loading.load(place, 150_000, kill_at=0.1)  # early: beside other tests it is looked at but rarely
    assert loaded.problems == []
    assert 15_000 <= loaded.killed_rows < 150_000
    assert loaded.peak_bytes > 1 << 20
    rows = PlainTable.rows
    first = next(item_ids(150_000)).encode()

    def damaged(table: PlainTable) -> Iterator[PlainRow]:
        for row in rows(table):
            if row.partition.startswith("items/") and first in row.body:
                continue
            yield row

    monkeypatch.setattr(PlainTable, "rows", damaged)
    assert "missing or wrong" in loading._count(place, 150_000)[0], "the count can find fault"


@pytest.mark.req("Q3", "S1")
def test_slow_pages_are_measured_from_the_command_line(
    aws: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "running_servers", lambda: shared(aws))
    monkeypatch.setattr(interruption, "install", lambda: None)
    file = tmp_path / "figures.json"
    assert fleet.main(["--slots", "--short", "--folder", str(tmp_path), "--json", str(file)]) == 0
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["slots"]["used"]["peak_items"] == 8
    assert figures["slots"]["asked"]["requests"]["dynamodb.transact_write_items"] > 0
