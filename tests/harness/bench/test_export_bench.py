"""The short form of `make bench-export`: every format, every record, and no more memory than a million may take."""

from pathlib import Path

import pytest

from harness.bench.export import FORMATS, main
from harness.tables import marks


@pytest.mark.req("R5", "Z8")
def test_every_format_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(marks("export")), encoding="utf-8")
    assert main(["--records", "3000", "--page", str(page)]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == list(FORMATS)
    assert page.read_text(encoding="utf-8").count(" MiB |") == 2 * len(FORMATS)
