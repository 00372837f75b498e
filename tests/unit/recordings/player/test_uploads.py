"""Uploads come out of one folder, and whatever an item names, its failure says no more than that name."""

from pathlib import Path

import pytest

from swath import Failed, FailureKind
from swath.recordings.player.handlers import read_upload

pytestmark = pytest.mark.req("A4", "Z6")


@pytest.mark.parametrize("name", ["a" * 300, "é" * 200, "half \ud800", "none.txt", "folder", "a\0b"])
async def test_a_name_that_is_no_file_is_invalid_input_without_a_path_of_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Failed) as failed:
        await read_upload(tmp_path, name, 100)
    assert failed.value.failure.kind is FailureKind.INVALID_INPUT
    assert str(tmp_path) not in failed.value.failure.message
    assert len(failed.value.failure.message) < 200


async def test_the_longest_name_is_a_name(tmp_path: Path) -> None:
    (tmp_path / ("a" * 255)).write_bytes(b"x")
    assert await read_upload(tmp_path, "a" * 255, 100) == ("a" * 255, b"x")
