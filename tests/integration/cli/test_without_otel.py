"""O4: traces without their extra end in one line that names it, also where a part of OpenTelemetry is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HIDE = """
import importlib.machinery, sys

class WithoutPart(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.startswith(%r) else super().find_spec(name, path, target)

known = importlib.machinery.PathFinder
sys.meta_path[:] = [WithoutPart if finder is known else finder for finder in sys.meta_path]
from swath.entrypoints.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.req("O2", "O4")
@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"])
def test_the_extra_is_named(tmp_path: Path, missing: str) -> None:
    (tmp_path / "items.csv").write_text("n\n1\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    done = subprocess.run(
        [sys.executable, "-c", HIDE % missing, "run", "example-mock", "--items", "items.csv", "--quiet"],
        cwd=tmp_path,
        env={**kept, "SWATH_TRACES": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'swath[otel]'" in done.stderr
    assert done.stderr.count("\n") == 1
