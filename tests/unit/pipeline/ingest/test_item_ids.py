"""J5: a list of item ids for a retry, as people have it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.pipeline.ingest.sources.csv_rows import read_item_ids

pytestmark = pytest.mark.req("J5")


class _Pipe(io.BytesIO):
    def fileno(self) -> int:
        return -1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n\n  c  \nb\n", {"a", "b", "c"}),
        (b"100-10-000\r\nx,y\r\n", {"100-10-000", "x,y"}),
        (b"\xef\xbb\xbfa\nb", {"a", "b"}),
        (b'state,item_id\nfailed,a\nfailed,"b,c"\n', {"a", "b,c"}),
        (b"item_id\na\n", {"a"}),
        (b"item_id,why\n,x\na,y\n", {"a"}),
        (b"item_id;why\na;x\n", {"a"}),
        (gzip.compress(b"a\nb\n", mtime=0), {"a", "b"}),
    ],
)
def test_ids_one_a_line_or_in_a_column(tmp_path: Path, content: bytes, expected: set[str]) -> None:
    path = tmp_path / "ids"
    path.write_bytes(content)
    assert read_item_ids(str(path)) == expected
    assert read_item_ids("-", _Pipe(content)) == expected


@pytest.mark.req("Z5")
@pytest.mark.parametrize("content", [b"", b"\n\n", b"item_id\n", b"item_id,a\nx\n", b"\xff\xfea\0"])
def test_a_list_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ids.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        read_item_ids(str(path))
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_list_is_named() -> None:
    with pytest.raises(BadInput, match=r"nowhere\.txt"):
        read_item_ids("nowhere.txt")
