"""Holds the score on pages that were written without knowledge of the rules; the docs show it."""

import json
import re
from pathlib import Path

import pytest

from harness.classifier_score import LABELS, Score, main, read_labels, score, table, write_page

pytestmark = pytest.mark.req("K7", "H2")

ROOT = Path(__file__).parents[4]
CORPUS = ROOT / "tests/fixtures/truth"


@pytest.fixture(scope="module")
def scored() -> Score:
    return score(CORPUS)


def test_no_wall_is_taken_for_a_page_and_no_page_for_a_wall(scored: Score) -> None:
    assert scored.missed == []
    assert scored.false_alarms == []
    assert scored.mixed_up == []


def test_the_corpus_is_large_and_holds_what_is_hard(scored: Score) -> None:
    assert len(scored.taken) >= 40
    with_200 = {label.expected for label, _ in scored.taken if label.status == 200}
    assert with_200 >= {"page", "blocked", "captcha", "maintenance", "session_expired", "rate_limited", "server_error"}
    assert {label.file for label, _ in scored.taken} == {
        file.name for file in CORPUS.iterdir() if file.name not in {LABELS, "README.md"}
    }


def test_the_page_shows_the_score(scored: Score) -> None:
    page = (ROOT / "docs/explanation/truth.md").read_text(encoding="utf-8")
    assert table(scored) in page
    assert re.search(rf"103 of {len(scored.taken)}\b", page), "the first, blind score belongs to these pages"


# The scorer itself.


def folder_of(tmp_path: Path, *rows: tuple[str, str]) -> Path:
    lines = []
    for number, (expected, text) in enumerate(rows):
        (tmp_path / f"{number}.html").write_text(text, encoding="utf-8")
        headers = {"Content-Type": "text/html"}
        lines.append(json.dumps({"file": f"{number}.html", "expected": expected, "headers": headers}))
    (tmp_path / LABELS).write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


WALL, GOOD = "<h1>Access denied</h1>", "<h1>Parcel 1</h1><p>Owner: A. Smith"


@pytest.mark.parametrize(
    ("rows", "mistakes", "code"),
    [
        ([("blocked", WALL), ("page", GOOD)], (0, 0, 0), 0),
        ([("blocked", GOOD)], (1, 0, 0), 1),
        ([("page", WALL)], (0, 1, 0), 1),
        ([("not_found", GOOD)], (0, 1, 0), 1),
        ([("captcha", WALL)], (0, 0, 1), 0),
    ],
)
def test_each_mistake_is_counted_for_what_it_is(
    tmp_path: Path,
    rows: list[tuple[str, str]],
    mistakes: tuple[int, int, int],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = score(folder_of(tmp_path, *rows))
    assert (len(found.missed), len(found.false_alarms), len(found.mixed_up)) == mistakes
    assert main([str(tmp_path)]) == code
    wrong = [line for line in capsys.readouterr().out.splitlines() if "taken for" in line and ".html: " in line]
    assert len(wrong) == sum(mistakes)


def test_the_table_has_a_row_for_what_is_and_a_column_for_what_was_said(tmp_path: Path) -> None:
    found = table(score(folder_of(tmp_path, ("captcha", WALL), ("page", GOOD))))
    assert "| **captcha** | · | 1 | · |" in found
    assert found.startswith("| is \\ taken for | page | blocked | captcha |")


def test_signatures_of_a_site_count(tmp_path: Path) -> None:
    folder, sites = folder_of(tmp_path, ("not_found", GOOD)), tmp_path / "sites.yaml"
    sites.write_text("sites: {site.example: {signatures: [{kind: not_found, body: parcel 1}]}}", encoding="utf-8")
    assert main([str(folder)]) == 1
    assert main([str(folder), "--sites", str(sites)]) == 0


def test_the_table_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- score: begin -->\nold\n<!-- score: end -->\nafter\n", encoding="utf-8")
    write_page(page, "new")
    assert page.read_text(encoding="utf-8") == ("before\n<!-- score: begin -->\n\nnew\n\n<!-- score: end -->\nafter\n")


def test_labels_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    (tmp_path / LABELS).write_text('{"file": "a.html", "expected": "page"}\n{"file": 1}\n', encoding="utf-8")
    assert main([str(tmp_path)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert len(read_labels(CORPUS)) >= 40
