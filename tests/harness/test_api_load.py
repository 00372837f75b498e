"""The short form of `make load`: 20,000 items over HTTP into a real controller, killed on the way, and a count that can
find fault."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness.api_load import loading, report
from harness.api_load.__main__ import SHORT, main
from harness.api_load.latency import FAILS_EVERY, Timed
from harness.api_load.loading import KilledLoad, WholeLoad
from harness.api_load.report import Figures, aims_of, problems
from harness.bench.sync_scrape import SyncCost
from harness.tables import marks

GZIP_CSV = "csv.gz"  # whose store nobody has ended items of


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("load")
    page = folder / "page.md"
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*marks()), encoding="utf-8")
    told = ["--json", str(folder / "figures.json"), "--page", str(page)]
    assert main(["--short", "--keep", "--folder", str(folder), *told]) == 0
    return folder


@pytest.mark.timeout(300)
@pytest.mark.req("J2", "I2", "Z8")
def test_a_short_load_loses_nothing_and_says_what_it_measured(loaded: Path) -> None:
    figures = json.loads((loaded / "figures.json").read_text(encoding="utf-8"))
    assert figures["problems"] == []
    assert [one["form"] for one in figures["wholes"]] == ["NDJSON", "gzip CSV"]
    for one in figures["killed"]:
        assert 0.4 * SHORT.items <= one["killed_items"] < SHORT.items
    memory = [aim for aim in figures["aims"] if aim["name"].startswith("memory of the controller")]
    assert [aim["met"] for aim in memory] == [True, True]
    assert len(figures["timed"]) == 7
    page = (loaded / "page.md").read_text(encoding="utf-8")
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert page.count(f"all {SHORT.items:,}, each once") == 4
    assert "old" not in page


@pytest.mark.timeout(300)
@pytest.mark.req("I2")
def test_the_items_that_are_looked_at_have_ended_and_some_failed(loaded: Path) -> None:
    (data,) = loaded.glob("swath-load-*/ndjson/data")
    with closing(sqlite3.connect(data / "swath.db")) as store:
        found = store.execute("SELECT state, total, success, failed FROM jobs").fetchone()
    failed = (SHORT.items - 1) // FAILS_EVERY
    assert found == ("running", SHORT.items, SHORT.items - 1 - failed, failed)


@pytest.fixture
def spoil(loaded: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """Runs a statement on a copy of the store, and counts again."""
    (data,) = loaded.glob(f"swath-load-*/{GZIP_CSV}/data")
    with (
        closing(sqlite3.connect(data / "swath.db")) as source,
        closing(sqlite3.connect(tmp_path / "swath.db")) as copy,
    ):
        source.backup(copy)

    def statement(change: str) -> list[str]:
        with closing(sqlite3.connect(tmp_path / "swath.db", isolation_level=None)) as db:
            assert db.execute(change).rowcount >= 1
        return loading.store_problems(tmp_path, SHORT.items)

    assert loading.store_problems(tmp_path, SHORT.items) == []
    return statement


@pytest.mark.timeout(300)
@pytest.mark.req("J2")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DELETE FROM items WHERE seq = 7", "rows of items: 19999, not 20000"),
        ("UPDATE items SET item_id = 'other' WHERE seq = 7", "1 rows are not what was sent, first 000-00-006"),
        ("UPDATE items SET input = '{}' WHERE seq = 7", "1 rows are not what was sent, first 000-00-006"),
        ("UPDATE items SET seq = 30000 WHERE seq = 20000", "1 rows are not what was sent, first 000-19-999"),
        ("UPDATE jobs SET total = total + 1", "the counter of the job: 20001, not 20000"),
        ("UPDATE jobs SET loaded_rows = 8000", "the rows that it has loaded: 8000, not 20000"),
        ("DELETE FROM batches", "the rows of its batches: None, not 20000"),
        ("UPDATE jobs SET state = 'loading'", "the counter of the job: none, not 20000"),
    ],
)
def test_the_count_finds_what_is_wrong(spoil: Callable[[str], list[str]], change: str, complaint: str) -> None:
    assert complaint in spoil(change)


def figures_of(large_ms: float, small_ms: float, own_ms: float = 10.0, peak_bytes: int = 100 << 20) -> Figures:
    whole = WholeLoad(form="CSV", items=9, sent_bytes=1, seconds=1.0, peak_bytes=1, problems=[])
    killed = KilledLoad(
        form="CSV", items=9, killed_items=4, way="", again_seconds=1.0, peak_bytes=peak_bytes, problems=["gone"]
    )
    timed = Timed(question="q", judged=True, small_p50=0.1, large_p50=0.1, small_p95=small_ms, large_p95=large_ms)
    sync = SyncCost(scrapes=1, sync_ms=own_ms, sync_p95_ms=1.0, least_ms=1.0, fetch_ms=0.0, fsync_ms=0.0, commits=3.0)
    return Figures(
        command="make load",
        items=9,
        small=3,
        judged=True,
        load_before=0.0,
        wholes=[whole],
        killed=[killed],
        timed=[timed],
        sync=sync,
    )


@pytest.mark.req("I2", "I3")
def test_aims_are_judged() -> None:
    def missed(figures: Figures) -> list[str]:
        return [aim.name for aim in aims_of(figures) if not aim.met]

    assert missed(figures_of(11.0, 10.0)) == []
    assert missed(figures_of(2.0, 0.1)) == [], "two milliseconds are noise"
    assert missed(figures_of(16.0, 10.0)) == ["q, p95, ms"]
    assert missed(figures_of(1.0, 1.0, own_ms=15.5)) == ["`sync` beside the fetch, ms"]
    assert missed(figures_of(1.0, 1.0, peak_bytes=251 << 20)) == ["memory of the controller, CSV, MiB"]
    assert problems(figures_of(1.0, 1.0)) == ["CSV: gone"]
    assert "MISSED" in report.table(figures_of(16.0, 10.0))
