"""Files that cannot be opened or end early: one line that says what to do."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swath.pipeline.ingest.sources import decoding
from swath.pipeline.ingest.sources.file_and_stream import FileSource, InputFormat
from tests.unit.pipeline.ingest.reading import given, inputs, read, refusal

pytestmark = pytest.mark.req("J2", "Z5")


def test_a_missing_file_is_named_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "parcels.csv").touch()
    message = refusal(FileSource(tmp_path / "parcel.csv"))
    assert "there is no such file" in message
    assert "parcels.csv" in message
    assert "check the path" in refusal(FileSource(tmp_path / "nowhere" / "x.csv"))


@pytest.mark.parametrize("name", ["", "nul\0inside.csv", "x" * 5_000])
def test_a_name_that_cannot_be_a_file_is_refused(name: str) -> None:
    with pytest.raises(Exception, match=r"no such file|not the name of a file|cannot be read"):
        read(FileSource(name))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "is a directory; name one file in it" in refusal(FileSource(tmp_path))


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything, so it becomes somebody else for a moment."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if me == 0:
            os.seteuid(me)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("parcel_id\n1\n")
    file.chmod(0)
    with without_privileges():
        message = refusal(FileSource(file))
    assert "may not be read" in message


def test_an_error_while_reading_is_refused() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    assert "cannot be read: Input/output error" in refusal(FileSource("-", stdin=Broken()))


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("parcel_id\n1\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert inputs(FileSource(tmp_path / "link.csv")) == [{"parcel_id": "1"}]


@contextmanager
def fifo(path: Path, content: bytes) -> Iterator[Path]:
    """A pipe whose writer writes this and goes away."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    yield path
    writer.join()


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    content = b"parcel_id\n" + b"".join(b"%d\n" % n for n in range(50_000))
    with fifo(tmp_path / "items.csv", content) as pipe:
        assert len(inputs(FileSource(pipe))) == 50_000


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"", "is empty"),
        ("b.csv", b"parcel_id,owner\n", "no rows"),
        ("c.csv", b'parcel_id,owner\n1,"An', "never closed"),
        ("d.json", b'[{"parcel_id": "1"}, {"parcel', "line 1: this element is not finished; the file was cut off"),
        ("e.json", b'[{"parcel_id": "1"}\n,', "line 2: this element is not finished; the file was cut off"),
        ("f.json", b'[{"parcel_id": "1"}', "ends in the middle; the file was cut off"),
        ("g.json", b"", "is empty"),
        ("h.csv.gz", b"\x1f\x8b\x08", "cut off in the middle of its gzip data"),
    ],
)
def test_a_fifo_closed_early_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with fifo(tmp_path / name, content) as pipe:
        assert said in refusal(FileSource(pipe))


@pytest.mark.req("J2", "C2")
def test_a_fifo_without_a_writer_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "WRITER_SECONDS", 0.2)
    os.mkfifo(tmp_path / "items.csv")
    assert "is a pipe that nobody has written to in 0.2 s" in refusal(FileSource(tmp_path / "items.csv"))


def test_a_fifo_whose_writer_is_slow_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "WRITER_SECONDS", 1.0)
    os.mkfifo(tmp_path / "items.csv")

    def write() -> None:
        with (tmp_path / "items.csv").open("wb", buffering=0) as pipe:
            time.sleep(1.3)
            pipe.write(b"parcel_id\n1\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert inputs(FileSource(tmp_path / "items.csv")) == [{"parcel_id": "1"}]
    writer.join()


def test_a_fifo_closed_inside_a_row_makes_that_row_bad(tmp_path: Path) -> None:
    with fifo(tmp_path / "items.csv", b"parcel_id,owner\n1,Ann\n2") as pipe:
        items, bad = read(FileSource(pipe))
    assert [item.item_id for item in items] == ["1"]
    assert [row.line for row in bad] == [3]


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write() -> None:
        os.write(writing, b"parcel_id\n1\n")
        os.close(writing)

    later = threading.Timer(0.02, write)
    later.start()
    with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 a descriptor, not a path
        assert inputs(FileSource("-", stdin=pipe)) == [{"parcel_id": "1"}]
    later.join()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('[{"parcel_id": "1"}]', None),
        ('{"parcel_id": "1"}\n', None),
        ("parcel_id\n1\n", None),
        ('{"parcel_id": "1"}', InputFormat.JSONL),
    ],
)
def test_stdin_has_the_format_it_looks_like(text: str, form: InputFormat | None) -> None:
    assert inputs(given(text, form)) == [{"parcel_id": "1"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("items.csv", "parcel_id\n1\n"),
        ("items.txt", "parcel_id\n1\n"),
        ("items", "parcel_id\n1\n"),
        ("items.JSON", '[{"parcel_id": "1"}]'),
        ("items.jsonl", '{"parcel_id": "1"}'),
        ("items.ndjson.gz", '{"parcel_id": "1"}'),
    ],
)
def test_the_suffix_tells_the_format(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert inputs(FileSource(tmp_path / name)) == [{"parcel_id": "1"}]


def test_a_file_is_closed_when_reading_stops_early(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("parcel_id\n1\n2\n")
    with FileSource(file).open() as opened:
        next(opened.rows)
    with pytest.raises(ValueError, match="closed"):
        list(opened.rows) or pytest.fail("was not closed")
