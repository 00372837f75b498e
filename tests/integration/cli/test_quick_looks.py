"""C1: who only looks at jobs does not wait for what fetches, parses and finds scrapers to be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "swath.sdk",
    "swath.fetch.http.client.session",
    "swath.pipeline.worker.worker",
    "swath.pipeline.worker.attempt",
    "swath.fetch.browser",
    "selectolax",
    "wreq",
)

THEN_TELL = f"""
import json, sys
from swath.entrypoints.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    print(json.dumps([left.code, sorted(set(sys.modules) & set({HEAVY!r}))]))
"""


def imported(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", THEN_TELL, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, heavy = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return list(heavy)


@pytest.mark.req("C1")
def test_looking_at_jobs_imports_neither_the_kit_nor_the_network(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("n\n1\n")
    ran = imported(tmp_path, "run", "example-mock", "--items", "items.csv", "--job-id", "small", "--quiet")
    assert "swath.sdk" in ran, "the names are those of modules"
    for look in (["list"], ["status", "small"], ["item", "small", "1"], ["verify", "small"]):
        assert imported(tmp_path, "jobs", *look) == [], look
