"""The short form of `make bench`: everybody who needs no peers, a few pages, and a check that can find fault."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser

from harness.bench import figures as check
from harness.bench import report
from harness.bench.__main__ import main
from harness.bench.contestants import Contestant, own_contestants
from harness.bench.cost import Cost, measured, measured_until
from harness.bench.figures import Figures, Result, Sample, aims_of, sample_of
from harness.bench.pages import FIELDS, body_of, item_ids, truth_of
from harness.bench.report import table
from harness.bench.run_order import Order
from harness.tables import marks
from tests.support.bounds import RUNAWAY_CPU_SECONDS

BEGIN, END = marks()

ITEMS = 200


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "page.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    shown = ["--json", str(folder / "figures.json"), "--page", str(folder / "page.md")]
    code = main(["--short", "--keep", "--folder", str(folder), *shown, "--chart", str(folder / "chart.svg")])
    assert code == 0
    return folder


def test_a_short_run_counts_right_and_says_what_it_measured(ran: Path) -> None:
    figures = json.loads((ran / "figures.json").read_text(encoding="utf-8"))
    assert figures["problems"] == []
    assert [result["name"] for result in figures["results"]] == [one.name for one in own_contestants()]
    assert all(result["peak_bytes"] > 10_000_000 for result in figures["results"])
    assert figures["aims"] == []  # so few items are not judged
    page = (ran / "page.md").read_text(encoding="utf-8")
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "all there, and what the pages say" in page
    assert "old" not in page
    assert (ran / "chart.svg").read_text(encoding="utf-8").count("<rect") == 1 + 3 * len(own_contestants())


def order_of(ran: Path, contestant: Contestant) -> Order:
    (made,) = ran.glob("swath-bench-*")
    return Order(
        folder=made / f"0-{contestant.name.replace(' ', '-')}-{ITEMS}", items=ITEMS, base_url="http://127.0.0.1:1"
    )


@pytest.mark.parametrize("contestant", own_contestants(), ids=lambda one: one.name)
def test_the_check_finds_a_record_that_is_missing_wrong_or_there_twice(ran: Path, contestant: Contestant) -> None:
    order = order_of(ran, contestant)
    assert check.problems(contestant, order) == []
    assert contestant.records is not None
    records = list(contestant.records(order))
    first, (item_id, record) = records[0], records[1]

    def complaint(changed: list[tuple[str, dict[str, str]]]) -> list[str]:
        return check.problems(replace(contestant, records=lambda _: iter(changed)), order)

    assert complaint(records[1:]) == [f"{contestant.name}: 1 of 200 items have no record, such as {first[0]}"]
    assert complaint([first, (item_id, record | {"owner": ""}), *records[2:]]) == [
        f"{contestant.name}: 1 records are not what the page says, such as that of {item_id}"
    ]
    without = {name: value for name, value in record.items() if name != "status"}
    assert "are not what the page says" in complaint([first, (item_id, without), *records[2:]])[0]
    assert complaint([first, *records]) == [f"{contestant.name}: 1 records are there twice"]


def test_rows_that_were_not_loaded_are_found(tmp_path: Path) -> None:
    order = Order(folder=tmp_path, items=10)
    loader = Contestant(name="loader", told="", kind="load", run=lambda _: Cost(0, 0, 0), loaded=lambda _: 9)
    assert check.problems(loader, order) == ["loader: 9 of 10 rows were loaded"]
    assert check.problems(replace(loader, loaded=lambda _: 10), order) == []


def test_pages_are_of_the_promised_size_and_say_every_field() -> None:
    ids = item_ids(50)
    assert len(set(ids)) == 50
    assert 11_500 < sum(len(body_of(item_id)) for item_id in ids) / 50 < 13_500
    for item_id in ids:
        tree = LexborHTMLParser(body_of(item_id))
        found = {name: [node.text().strip() for node in tree.css(selector)] for name, selector in FIELDS.items()}
        assert found == {name: [value] for name, value in truth_of(item_id).items()}
    assert len(FIELDS) == 15


# -- figures -----------------------------------------------------------------------------------------------------------


def test_what_the_start_costs_is_taken_off() -> None:
    sample = sample_of(Cost(1.0, 2.0, 50), Cost(3.0, 4.0, 80), 1_000)
    assert sample == Sample(cpu_ms=2.0, items_per_second=500.0, peak_bytes=80)
    assert sample_of(Cost(1.0, 2.0, 50), Cost(1.5, 1.9, 50), 100).items_per_second == 0


def result(name: str, cpu_ms: float = 1.0, items_per_second: float = 1_000.0) -> Result:
    sample = Sample(cpu_ms, items_per_second, 50_000_000)
    return Result(name=name, told=name, kind="pages", items=5_000, samples=(sample,))


def test_a_round_that_went_wrong_does_not_move_the_figures() -> None:
    good = result("swath warc")
    noisy = replace(good, samples=(*good.samples, *good.samples, Sample(90.0, 3.0, 900_000_000)))
    assert (noisy.cpu_ms, noisy.items_per_second, noisy.peak_bytes) == (1.0, 1_000.0, 50_000_000)


@pytest.mark.parametrize(
    ("ours", "theirs", "limit"),
    [
        ("swath warc", "scrapy default", 1 / 8),
        ("swath warc", "scrapy uvloop", 1 / 6),
        ("swath warc", "crawlee", 1 / 8),
        ("swath files", "scrapy default", 1 / 4),
        ("swath files", "scrapy uvloop", 1 / 4),
        ("swath warc 2", "swath warc", 1.1),
    ],
)
def test_an_aim_for_cpu_is_met_just_below_its_limit(ours: str, theirs: str, limit: float) -> None:
    def met(cpu_ms: float) -> list[bool]:
        return [aim.met for aim in aims_of([result(ours, cpu_ms=cpu_ms), result(theirs, cpu_ms=1.0)])]

    assert met(0.99 * limit) == [True]
    assert met(1.01 * limit) == [False]


@pytest.mark.parametrize(
    ("ours", "theirs", "limit"),
    [
        ("swath warc", "script usual segment", 0.7),
        ("swath files", "script usual files", 0.7),
        ("swath load", "scrapy load", 20.0),
    ],
)
def test_an_aim_for_speed_is_met_just_above_its_limit(ours: str, theirs: str, limit: float) -> None:
    def met(speed: float) -> list[bool]:
        return [aim.met for aim in aims_of([result(ours, items_per_second=speed), result(theirs, items_per_second=1)])]

    assert met(1.01 * limit) == [True]
    assert met(0.99 * limit) == [False]


def test_two_processes_are_judged_by_cpu_and_by_speed() -> None:
    one, two = result("swath memory 1"), result("swath memory 2", cpu_ms=1.05, items_per_second=1_700.0)
    assert [aim.met for aim in aims_of([one, two])] == [True, False]
    assert aims_of([two]) == []


def test_nothing_to_compare_with_meets_no_aim() -> None:
    (aim,) = aims_of([result("swath warc"), result("script usual segment", items_per_second=0)])
    assert not aim.met


def test_the_page_tells_how_far_the_tuned_script_is_ahead() -> None:
    ours, tuned = result("swath warc", items_per_second=500), result("script tuned segment")
    assert "0.50 (swath warc)" in table(Figures(command="", rounds=1, results=[ours, tuned], site_cpu_ms=0.1))
    assert "tuned script" not in table(Figures(command="", rounds=1, results=[ours], site_cpu_ms=0.1))


def test_the_picture_has_a_bar_for_each_panel_and_contestant() -> None:
    loads = replace(result("swath load"), kind="load")
    picture = report.draw([result("swath warc"), result("scrapy default", cpu_ms=8.0), loads])
    assert picture.count("<rect") == 1 + 3 * 2
    assert "8.00" in picture


# -- cost --------------------------------------------------------------------------------------------------------------

BUSY = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < 0.1: pass\n"


def test_the_cost_of_a_program_is_that_of_its_children_too(tmp_path: Path) -> None:
    order = Order(folder=tmp_path, items=1)
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}], check=True)\n"
    cost = measured([sys.executable, "-c", script], order.environment(), order.log)
    assert 0.1 < cost.cpu_seconds < RUNAWAY_CPU_SECONDS
    assert cost.seconds > 0.1
    assert 1_000_000 < cost.peak_bytes < 60_000_000


def test_a_program_that_fails_ends_the_benchmark(tmp_path: Path) -> None:
    order = Order(folder=tmp_path, items=1)
    with pytest.raises(SystemExit, match="ended with code 3"):
        measured([sys.executable, "-c", "import sys; print('why'); sys.exit(3)"], order.environment(), order.log)
    assert order.log.read_text(encoding="utf-8") == "why\n"


def test_a_program_that_would_go_on_is_stopped_when_its_work_is_done(tmp_path: Path) -> None:
    order = Order(folder=tmp_path, items=1)
    mark = tmp_path / "done"
    script = "import pathlib, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    script += f"pathlib.Path({str(mark)!r}).touch()\nsignal.pause()\n"
    measured_until([sys.executable, "-c", script], order.environment(), order.log, mark.exists)
    assert mark.exists()


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [["--small", "5", "--large", "5"], ["--small", "0"], ["--rounds", "0"]])
def test_sizes_that_give_no_figures_are_refused(sizes: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(sizes)
    assert refused.value.code == 2


def test_missing_peers_are_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the peers are not installed in"):
        main(["--peers", str(tmp_path / "none"), "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="no contestant is named nobody"):
        main(["--short", "--only", "nobody", "--folder", str(tmp_path)])
