"""Z7: parts of exports that somebody else has planted beside the target, as anybody may in a folder like /tmp."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("Z7")

NOBODY = 65534
HANG_SECONDS = 60
WRITE = """
import pathlib, sys
from swath.pipeline.results.part import writing
with writing(pathlib.Path(sys.argv[1])) as part:
    part.path.write_text("whole")
    part.publish(replace=False)
"""


def exported_beside(target: Path) -> None:
    """In a process of its own: a thread that hangs in a pipe could not be ended."""
    subprocess.run([sys.executable, "-c", WRITE, target], timeout=HANG_SECONDS, check=True)
    assert target.read_text() == "whole"


def test_a_pipe_with_the_name_of_a_part_holds_no_export_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".all.jsonl.0.swath-part")
    exported_beside(tmp_path / "all.jsonl")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("plant", [Path.touch, Path.mkdir])
def test_what_belongs_to_another_user_is_not_removed(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    planted = tmp_path / ".all.jsonl.0.swath-part"
    plant(planted)
    os.chown(planted, NOBODY, NOBODY)
    exported_beside(tmp_path / "all.jsonl")
    assert planted.exists()


@pytest.mark.parametrize("plant", [Path.touch, Path.mkdir])
def test_what_a_killed_export_of_ours_left_is_removed(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    planted = tmp_path / ".all.jsonl.0.swath-part"
    plant(planted)
    exported_beside(tmp_path / "all.jsonl")
    assert not planted.exists()


def test_a_link_with_the_name_of_a_part_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").touch()
    (tmp_path / ".all.jsonl.0.swath-part").symlink_to(tmp_path / "outside")
    exported_beside(tmp_path / "all.jsonl")
    assert (tmp_path / "outside/file").exists()
