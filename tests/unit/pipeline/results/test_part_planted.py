"""Z7: parts of exports that somebody else has planted beside the target, as anybody may in a folder like /tmp."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.pipeline.results.export.output_file import check_target

pytestmark = pytest.mark.req("Z7")

NOBODY = 65534
HANG_SECONDS = 60
WRITE = """
import pathlib, sys
from swath.pipeline.results.export.output_file import open_output
with open_output(pathlib.Path(sys.argv[1])) as part:
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


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """Like /tmp: anybody may put something there, and nobody may remove what belongs to others."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "mine").mkdir()
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="gives links to another user")
@pytest.mark.parametrize(
    ("link", "to", "target"),
    [
        ("all.jsonl", "../mine/new", "open/all.jsonl"),
        ("all.jsonl", "{}/mine/old", "open/all.jsonl"),
        ("folder", "../mine", "open/folder/all.jsonl"),
        ("folder", "../mine", "open/../mine/../open/folder/all.jsonl"),
        ("folder", "../mine", "mine/inside/all.jsonl"),
    ],
)
def test_a_link_that_another_user_put_into_an_open_folder_is_not_followed(
    tmp_path: Path, open_folder: Path, link: str, to: str, target: str
) -> None:
    (tmp_path / "mine/old").write_text("old")
    (tmp_path / "mine/inside").symlink_to("../open/folder")
    planted = open_folder / link
    planted.symlink_to(to.format(tmp_path))
    wanted, leads_to = tmp_path / target, Path(os.path.realpath(tmp_path / target))
    assert check_target(wanted, replace=True) == leads_to  # it is ours, as if we had made it
    os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(BadInput, match="link of another user"):
        check_target(wanted, replace=True)
    open_folder.chmod(0o755)  # put there by whoever may write there, which is somebody whom the folder's owner lets
    assert check_target(wanted, replace=True) == leads_to


def test_links_that_lead_in_circles_are_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(BadInput, match="nothing can be written there"):
        check_target(tmp_path / "a" / "x")
