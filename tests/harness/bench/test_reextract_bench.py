"""The short form of `make bench-reextract`: both layouts, every page, and a line that says what came of it."""

from pathlib import Path

import pytest

from harness.bench.bare_parse import bodies
from harness.bench.reextract import main
from harness.tables import marks


@pytest.mark.req("R6")
def test_both_layouts_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(marks("reextract")), encoding="utf-8")
    assert main(["--pages", "200", "--rounds", "1", "--page", str(page)]) in (0, 1)  # so few pages are not judged
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]]
    assert rows == ["files", "warc"]
    assert page.read_text(encoding="utf-8").count("% |") == 4


def test_the_bare_loop_finds_nothing_where_nothing_is(tmp_path: Path) -> None:
    assert list(bodies(tmp_path)) == []
