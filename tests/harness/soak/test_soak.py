"""The short form of `make soak`: a few thousand items through real processes, and a count that can find fault."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.soak import count, report
from harness.soak.__main__ import main
from harness.soak.aims import Aim
from harness.soak.job import SoakJob, item_ids
from harness.soak.measured_run import Run, Sample
from harness.tables import marks

ITEMS = 2_000


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> tuple[SoakJob, Path]:
    folder = tmp_path_factory.mktemp("soak")
    figures, page = folder / "figures.json", folder / "page.md"
    begin, end = marks()
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    sizes = ["--items", str(ITEMS), "--small", "300", "--kills", "1", "--keep"]
    code = main([*sizes, "--folder", str(folder), "--json", str(figures), "--page", str(page)])
    assert code == 0
    (made,) = folder.glob("swath-soak-*")
    return SoakJob(folder=made / "large", items=ITEMS), folder


@pytest.mark.req("Z8", "Q2")
def test_a_short_soak_loses_nothing_and_says_what_it_measured(soaked: tuple[SoakJob, Path]) -> None:
    _, folder = soaked
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    assert figures["problems"] == []
    assert figures["large"]["kills"] == 1
    assert figures["steps"]["verify"]["artifacts"] == count.FILES_PER_ITEM * ITEMS
    assert figures["steps"]["bare-manifests"]["same_bytes"]
    assert len(figures["aims"]) == 10
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert f"all {ITEMS:,} accounted for" in page
    assert "old" not in page


@pytest.fixture
def copied(soaked: tuple[SoakJob, Path], tmp_path: Path) -> SoakJob:
    """The store and the results once more, to be spoilt."""
    original, _ = soaked
    job = SoakJob(folder=tmp_path, items=ITEMS)
    shutil.copytree(original.results, job.results)
    with closing(sqlite3.connect(original.database)) as source, closing(sqlite3.connect(job.database)) as copy:
        source.backup(copy)
    assert count.problems(job) == []
    return job


FIRST, SECOND = list(item_ids(2))


@pytest.mark.req("Z8")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DELETE FROM items WHERE seq = 7", "items: 1999, not 2000"),
        ("UPDATE items SET state = 2 WHERE seq = 7", "items that succeeded: 1999, not 2000"),
        ("DELETE FROM outcomes WHERE seq = 7", "outcomes: 1999, not 2000"),
        ("UPDATE jobs SET success = success - 1", "the counter of successes: 1999, not 2000"),
        ("UPDATE jobs SET state = 'running'", "the counter of successes: none, not 2000"),
        (
            "UPDATE outcomes SET ended = (SELECT ended FROM outcomes WHERE seq = 1) WHERE seq = 2",
            f"1 items without their own record, first {SECOND}",
        ),
    ],
)
def test_the_count_finds_what_is_wrong_in_the_store(copied: SoakJob, change: str, complaint: str) -> None:
    with closing(sqlite3.connect(copied.database, isolation_level=None)) as db:
        assert db.execute(change).rowcount == 1
    assert complaint in count.problems(copied)


def _spoil(file: Path, what: str, by: str) -> None:
    body = file.read_bytes()
    assert what.encode() in body
    file.write_bytes(body.replace(what.encode(), by.encode(), 1))


@pytest.mark.req("Z8")
def test_the_count_finds_what_is_wrong_in_the_files(copied: SoakJob) -> None:
    pack = next(pack for pack in (copied.results / "packs").glob("*.jsonl") if FIRST.encode() in pack.read_bytes())
    whole = pack.read_bytes()
    _spoil(pack, '"count":1', '"count":2')
    assert any("items without their own record" in problem for problem in count.problems(copied))
    pack.write_bytes(whole + b"{}\n")
    assert "lines in packs: 2001, not 2000" in count.problems(copied)
    pack.write_bytes(whole)
    (copied.results / ".leases" / "99").mkdir(parents=True)
    assert "rooms left: 1, not 0" in count.problems(copied)
    (copied.results / ".leases" / "99").rmdir()
    _spoil(copied.results / "manifests" / "full" / "part-1.json", f'"item_id":"{FIRST}"', f'"item_id":"{SECOND}"')
    assert count.problems(copied) == ["the list 'full' is not the items of the file in their order"]


def test_an_aim_knows_on_which_side_it_is_met() -> None:
    assert Aim("speed", 0.3, 0.25, at_least=True, told="").met
    assert not Aim("speed", 0.2, 0.25, at_least=True, told="").met
    assert Aim("memory", 1.1, 1.2, at_least=False, told="").met
    assert not Aim("memory", 1.3, 1.2, at_least=False, told="").met


def test_shuffled_ids_are_the_same_ids() -> None:
    in_order = list(item_ids(5_000))
    shuffled = list(item_ids(5_000, shuffled=True))
    assert len(set(in_order)) == 5_000
    assert shuffled != in_order
    assert sorted(shuffled) == in_order == sorted(in_order)


def test_the_picture_has_a_line_for_each_panel_and_stays_small() -> None:
    samples = [Sample(n / 2, n * 10, (50 << 20) + n, n % 7 << 20) for n in range(10_001)]
    picture = report.draw(Run(samples=samples), 100_000)
    assert picture.count("<polyline") == 3
    assert len(picture) < 20_000
    assert Run(samples=samples).largest_log_bytes == 6 << 20
    assert Run(samples=samples).resident_at(0.5) == (50 << 20) + 5_000
