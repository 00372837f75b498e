"""C3: a part of a file for trying a job out: the first rows, or some from all over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.sources.rows import BadRow, FirstRows, InputRow, RowSource, SampledRows

pytestmark = pytest.mark.req("C3")


def _file(folder: Path, rows: int) -> FileSource:
    path = folder / "items.csv"
    path.write_text("n\n" + "".join(f"{n}\n" for n in range(rows)))
    return FileSource(path)


def _read(source: RowSource) -> list[InputRow | BadRow]:
    with source.open() as opened:
        assert opened.columns == ("n",)
        return list(opened.rows)


def _values(rows: list[InputRow | BadRow]) -> list[int]:
    return [int(row.data["n"]) for row in rows if isinstance(row, InputRow)]


def test_a_limit_takes_the_first_rows_and_reads_no_further(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(b"n\n1\n2\n" + b"3\n" * 200_000 + b"\xff\n")  # what comes later is not even UTF-8
    assert _values(_read(FirstRows(FileSource(path), 2))) == [1, 2]


def test_a_limit_beyond_the_end_takes_all(tmp_path: Path) -> None:
    assert _values(_read(FirstRows(_file(tmp_path, 3), 10))) == [0, 1, 2]


def test_a_sample_is_in_the_order_of_the_file_and_the_same_each_time(tmp_path: Path) -> None:
    source = _file(tmp_path, 1_000)
    sample = _read(SampledRows(source, 20))
    values = _values(sample)
    assert len(set(values)) == 20
    assert values == sorted(values)
    assert _read(SampledRows(source, 20)) == sample


def test_a_sample_keeps_the_lines_and_numbers_rows_without_gaps(tmp_path: Path) -> None:
    sample = _read(SampledRows(_file(tmp_path, 1_000), 20))
    assert [row.number for row in sample] == list(range(1, 21))
    assert [row.line for row in sample] == [value + 2 for value in _values(sample)]


def test_a_sample_comes_from_all_over_the_file(tmp_path: Path) -> None:
    values = _values(_read(SampledRows(_file(tmp_path, 10_000), 1_000)))
    per_tenth = [sum(1 for value in values if value // 1_000 == tenth) for tenth in range(10)]
    assert all(60 <= found <= 140 for found in per_tenth), per_tenth  # 100 each, with a standard deviation below 10


def test_bad_rows_may_be_in_a_sample_too(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("n\n" + "1,2\n" * 50)
    sample = _read(SampledRows(FileSource(path), 5))
    assert [type(row) for row in sample] == [BadRow] * 5
    assert [row.number for row in sample] == [1, 2, 3, 4, 5]
