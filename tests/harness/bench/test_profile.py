"""`make profile` says where the CPU of an item goes, and leaves nothing out."""

from collections import Counter
from pathlib import Path

from harness.bench.profile import main, shares
from harness.bench.sampler import ELSEWHERE
from harness.tables import marks


def test_what_was_seen_is_shared_out_by_part() -> None:
    seen = Counter(
        {
            "swath.fetch.http.blocks.classify": 30,
            "swath.fetch.http.client.session": 10,
            "swath_scraper_1a": 40,
            ELSEWHERE: 20,
        }
    )
    assert shares(seen) == [
        ("the scraper: parsing the page, picking fields", "40%"),
        ("telling data from blocks and errors", "30%"),
        ("the loop itself, and threads: HTTP, files, SQLite", "20%"),
        ("sessions: cookies, redirects, charsets, the egress guard", "10%"),
    ]


def test_a_run_is_looked_at_and_written_down(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(marks("profile")), encoding="utf-8")
    assert main(["--items", "150", "--page", str(page)]) == 0
    written = page.read_text(encoding="utf-8")
    assert "| the scraper: parsing the page, picking fields |" in written
    assert sum(int(line.split()[-2].removesuffix("%")) for line in written.splitlines() if "%" in line) in range(
        94, 107
    )
