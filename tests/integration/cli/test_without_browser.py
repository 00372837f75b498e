"""B1, K1: who does not use a browser neither needs one nor waits for its driver to be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = ("patchright", "psutil")

# As on a machine where they are not installed: nobody finds them.
HIDE = f"""
import importlib.machinery, sys

class WithoutBrowser(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {LIBRARIES!r} else super().find_spec(name, path, target)

known = importlib.machinery.PathFinder
sys.meta_path[:] = [WithoutBrowser if finder is known else finder for finder in sys.meta_path]
"""

THEN_TELL = """
import sys
from swath.entrypoints.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    print("imported:", sorted({name.partition(".")[0] for name in sys.modules} & set(%r)), file=sys.stderr)
    raise
"""


def _swath(folder: Path, *arguments: str, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    return subprocess.run(
        [sys.executable, "-c", before + THEN_TELL % (LIBRARIES,), *arguments],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.req("B1", "K1")
@pytest.mark.parametrize("before", ["", HIDE], ids=["installed", "not installed"])
def test_a_job_over_http_runs_without_the_browser_libraries(tmp_path: Path, before: str) -> None:
    (tmp_path / "items.csv").write_text("n\n1\n2\n")
    done = _swath(
        tmp_path, "run", "example-mock", "--items", "items.csv", "--job-id", "small", "--quiet", before=before
    )
    assert done.returncode == 0, done.stderr
    assert "imported: []" in done.stderr
    assert "demo-county-browser" in _swath(tmp_path, "scraper", "list", before=before).stdout


@pytest.mark.req("B1", "K1", "C2")
@pytest.mark.parametrize(
    ("before", "variables", "expected"),
    [
        (HIDE, {}, "pip install 'swath[browser]'"),
        ("", {"SWATH_CHROMIUM": "no-such-program"}, "no-such-program"),
        ("", {"SWATH_BROWSER_PROVIDER": "cdp"}, "SWATH_BROWSER_CDP_URL"),
        ("", {"SWATH_BROWSER_PROVIDER": "browserbase"}, "SWATH_BROWSERBASE_API_KEY"),
    ],
    ids=["no driver", "no browser", "no address", "no key"],
)
def test_a_job_that_needs_a_browser_says_what_is_missing(
    tmp_path: Path, before: str, variables: dict[str, str], expected: str
) -> None:
    (tmp_path / "items.csv").write_text("parcel_id\n100-10-100\n")
    order = ("run", "demo-county-browser", "--items", "items.csv", "--job-id", "small", "--quiet")
    done = _swath(tmp_path, *order, before=before, **variables)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("swath: ")]
    assert expected in line
    assert "Traceback" not in done.stderr
