"""Figures: how times are told, which cases there are, and how a page gets its table."""

from pathlib import Path

import pytest

from harness.chaos.crash_runs import MOST_ITEMS, cases, retry_cases
from harness.chaos.findings import Findings, Kind
from harness.chaos.recovery import Recovery, Spread
from harness.chaos.report import Figures, command_line, write_page
from harness.chaos.store_reader import HeldItems, StoreReader
from harness.tables import marks
from swath.observability.crash_points import ENDING_POINTS, POINTS

BEGIN, END = marks()


def test_a_spread_tells_median_tail_and_longest() -> None:
    assert Spread.of([n / 100 for n in range(1, 101)]) == Spread(100, 0.5, 0.95, 1.0)
    assert Spread.of([]) == Spread(0, 0.0, 0.0, 0.0)


class FakeWatch(StoreReader):
    """Says what the test says."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))
        self.open = {7}
        self.rows = {1: (7, 0), 2: (7, 0), 3: (7, 0)}

    def open_leases(self, fences: object) -> set[int]:
        return self.open

    def items(self, seqs: object) -> dict[int, tuple[int, int]]:
        return self.rows


def test_an_item_is_re_leased_when_another_lease_holds_it_or_it_ended_there() -> None:
    watch = FakeWatch()
    recovery = Recovery(watch)
    recovery.struck(HeldItems(frozenset({7}), frozenset({1, 2, 3})), 100.0)
    recovery.poll(100.1)
    assert recovery.freed.count == recovery.re_leased.count == 0
    watch.open, watch.rows = set(), {1: (0, 0), 2: (9, 0), 3: (7, 1)}  # waiting; held again; ended by the struck one
    recovery.poll(100.3)
    assert recovery.freed_seconds == [pytest.approx(0.3)]
    assert recovery.re_leased_seconds == [pytest.approx(0.3)]
    assert recovery.kept == 1
    watch.rows = {1: (10, 1)}
    recovery.poll(100.5)
    assert recovery.re_leased_seconds == [pytest.approx(0.3), pytest.approx(0.5)]


def test_every_named_point_has_its_cases() -> None:
    full = cases(5, freeze=True)
    assert {case.point for case in full if not case.freeze} == set(POINTS)
    assert {case.point for case in full if case.freeze} == set(POINTS)
    assert len({case.name for case in full}) == len(full)
    crashes = [case for case in full if not case.freeze]
    too_large = 3  # cases of the third batch of a load and beyond
    assert len(crashes) == 5 * (len(POINTS) - 1) + 1 - too_large  # a job ends only once
    assert max(case.items for case in crashes) <= MOST_ITEMS


def test_full_runs_wake_at_every_named_point_after_a_retry_and_short_ones_at_some() -> None:
    full = retry_cases(7, len(ENDING_POINTS), len(POINTS))
    assert {case.point for case in full} == {*ENDING_POINTS, *POINTS}
    short = retry_cases(7, 4, 1)
    assert short == retry_cases(7, 4, 1)
    assert sum(case.point in ENDING_POINTS for case in short) == 4
    assert len(short) == 5
    assert all(case.freeze and case.retry for case in full + short)


def test_figures_go_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    findings = Findings()
    findings.add(Kind.LOST, "item-1", "gone")
    figures = Figures(command="make chaos", seed=42)
    figures.finish(findings, 61.0)
    write_page(page, figures)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "| lost | 1 |" in text
    assert "old" not in text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(SystemExit):
        write_page(page, Figures(command="", seed=1))
    assert page.read_text(encoding="utf-8") == "nothing"


def test_the_command_line_makes_the_same_run_again() -> None:
    assert command_line({}, 7) == 'make chaos ARGS="--seed 7"'
    options = {"short": True, "kills": 3, "items": None, "part": "storm", "json": "figures.json", "seed": 7}
    assert command_line(options, 7) == 'make chaos ARGS="--short --kills 3 --part storm --seed 7"'
