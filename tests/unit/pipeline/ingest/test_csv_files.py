"""CSV as people and programs write it is read; each way in which it can be wrong gets its line and its reason."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest

from swath.pipeline.ingest.sources.csv_rows import COLUMN_LIMIT
from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS
from tests.unit.pipeline.ingest.reading import Bill, Dribble, given, in_pieces, inputs, read, refusal

pytestmark = pytest.mark.req("J2", "Z5")

TWO = [{"parcel_id": "1", "owner": "Ann"}, {"parcel_id": "2", "owner": "Bob"}]


@pytest.mark.parametrize(
    "text",
    [
        "parcel_id,owner\n1,Ann\n2,Bob\n",
        "parcel_id,owner\n1,Ann\n2,Bob",
        "parcel_id,owner\r\n1,Ann\r\n2,Bob\r\n",
        "parcel_id,owner\r1,Ann\r2,Bob\r",
        "parcel_id,owner\r\n1,Ann\n2,Bob\r",
        "\ufeffparcel_id,owner\n1,Ann\n2,Bob\n",
        "parcel_id;owner\n1;Ann\n2;Bob\n",
        "parcel_id\towner\n1\tAnn\n2\tBob\n",
        "parcel_id|owner\n1|Ann\n2|Bob\n",
        "\n\nparcel_id,owner\n\n1,Ann\n\n\n2,Bob\n\n",
        ' parcel_id , "owner"\n1,Ann\n2,Bob\n'.replace(' "owner"', '"owner"'),
        '"parcel_id","owner"\n"1","Ann"\n"2","Bob"\n',
        "parcel_id,owner\n1,Ann\n,\n2,Bob\n,,\n".replace(",,\n", ",\n"),
    ],
    ids=[
        "lf",
        "no-last-end",
        "crlf",
        "cr",
        "mixed",
        "bom",
        "semicolon",
        "tab",
        "bar",
        "blank",
        "spaces",
        "quoted",
        "empty",
    ],
)
def test_ways_to_write_the_same_table(text: str) -> None:
    assert inputs(given(text)) == TWO


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_pieces_of_a_slow_pipe_do_not_show(size: int) -> None:
    text = '\ufeffparcel_id,owner\r\n"1","Ann\r\nLee, Ürün"\r\n2,Bob\r\n'
    source = FileSource("-", stdin=Dribble(in_pieces(text.encode(), size)))
    assert inputs(source) == [{"parcel_id": "1", "owner": "Ann\r\nLee, Ürün"}, {"parcel_id": "2", "owner": "Bob"}]


def test_a_delimiter_inside_quotes_is_not_sniffed() -> None:
    assert inputs(given('"a,b,c,d";parcel_id\nx;1\n')) == [{"a,b,c,d": "x", "parcel_id": "1"}]


def test_a_column_name_of_two_lines_hides_no_delimiter() -> None:
    assert inputs(given('\n"a\nb,c";"parcel_id"\n"v";"0"\n')) == [{"a\nb,c": "v", "parcel_id": "0"}]


def test_the_delimiter_can_be_said() -> None:
    assert inputs(given("parcel_id;a,b\n1;2,3\n", delimiter=";")) == [{"parcel_id": "1", "a,b": "2,3"}]


def test_a_tsv_file_is_split_at_tabs_alone(tmp_path: Path) -> None:
    file = tmp_path / "items.TSV"
    file.write_text("parcel_id\n1,2,3\n")
    assert inputs(FileSource(file)) == [{"parcel_id": "1,2,3"}]


def test_a_column_without_a_name_gets_one() -> None:
    assert inputs(given(",parcel_id\n0,17\n")) == [{"column_1": "0", "parcel_id": "17"}]


def test_cells_are_kept_to_the_letter() -> None:
    formula = '=HYPERLINK("http://x")'
    quoted = formula.replace('"', '""')
    assert inputs(given(f'parcel_id,x\n" 1 ","{quoted}"\n')) == [{"parcel_id": " 1 ", "x": formula}]


def test_rows_and_lines_are_numbered_apart() -> None:
    items, bad = read(given('parcel_id,owner\n1,"a\nb\nc"\n\n2,x\n3\n4,y\n'))
    assert [item.seq for item in items] == [1, 2, 4]
    assert [(row.number, row.line) for row in bad] == [(3, 7)]


def test_a_ragged_row_is_an_error_of_its_line() -> None:
    items, bad = read(given("parcel_id,owner\n1,Ann\n2\n3,Bob,x,y\n4,Eve\n"))
    assert [item.item_id for item in items] == ["1", "4"]
    assert [str(row) for row in bad] == [
        "line 3: has 1 cell where the header has 2",
        "line 4: has 4 cells where the header has 2; quote cells that contain ','",
    ]


def test_text_after_a_closing_quote_is_an_error_of_its_line() -> None:
    items, bad = read(given('parcel_id,owner\n1,"Ann"e\n2,Bob\n'))
    assert [item.item_id for item in items] == ["2"]
    assert [(row.number, row.line) for row in bad] == [(1, 2)]
    assert "closing quote" in bad[0].message


@pytest.mark.req("K2")
def test_a_missing_column_is_named_with_what_to_say() -> None:
    message = refusal(given("APN,owner\n1,Ann\n"))
    assert "'parcel_id'" in message
    assert "'APN', 'owner'" in message
    assert "--map parcel_id=COLUMN" in message


def test_only_some_of_very_many_columns_are_listed() -> None:
    message = refusal(given(",".join(f"c{n}" for n in range(5_000)) + "\n"))
    assert "and 4,992 more" in message


def test_latin_1_is_refused_with_line_and_conversion(tmp_path: Path) -> None:
    file = tmp_path / "my items.csv"
    file.write_bytes("parcel_id,owner\n1,Ann\n2,José\n".encode("latin-1"))
    message = refusal(FileSource(file))
    assert "line 3: byte 0xE9 is not UTF-8" in message
    assert "latin-1" in message
    assert f"iconv -f LATIN1 -t UTF-8 '{file}' > 'utf8-my items.csv'" in message


def test_the_line_of_a_wrong_byte_is_right_far_into_the_file() -> None:
    lines = ["parcel_id", *(f"{n}" for n in range(30_000)), "José x"]
    for end in ("\n", "\r\n", "\r"):
        assert "line 30002: byte 0xE9" in refusal(given(end.join(lines).encode("latin-1")))


@pytest.mark.parametrize("size", [1, 9])
def test_a_crlf_cut_in_two_is_counted_once(size: int) -> None:
    raw = "parcel_id\r\n1\r\n\xe9x".encode("latin-1")
    source = FileSource("-", stdin=Dribble(in_pieces(raw, size)))
    assert "line 3: byte 0xE9" in refusal(source)


@pytest.mark.parametrize("size", range(8, 24))
def test_lines_are_numbered_right_wherever_a_crlf_is_cut(size: int) -> None:
    raw = b"parcel_id,owner\r\n1,Ann\r\n2,Bob\r\n\r\n3\r\n"
    _, bad = read(FileSource("-", stdin=Dribble(in_pieces(raw, size))))
    assert [row.line for row in bad] == [5]


def test_windows_quotes_point_to_windows_1252() -> None:
    assert "iconv -f CP1252" in refusal(given(b"parcel_id\n\x93quoted\x94\n"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_and_32_are_told_from_latin_1(encoding: str) -> None:
    message = refusal(given("parcel_id,owner\n1,Åsa\n".encode(encoding)))
    assert encoding.upper()[:6] in message
    assert "iconv -f UTF-" in message


def test_a_file_cut_inside_a_character_is_refused() -> None:
    assert "line 2: ends in the middle of a UTF-8 character" in refusal(given("parcel_id\n1é".encode()[:-1]))


def test_a_nul_byte_is_refused_with_its_line() -> None:
    assert "line 3: has a NUL byte" in refusal(given(b"parcel_id\n1\n2\x00\n"))


def test_an_endless_file_of_zeros_is_refused_at_once() -> None:
    assert "NUL byte" in refusal(FileSource("/dev/zero"))


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n", "\ufeff", ",,\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert "is empty" in refusal(given(text))


def test_a_header_alone_is_refused() -> None:
    assert "has a header but no rows" in refusal(given("parcel_id\n\n"))


def test_a_column_that_comes_twice_is_refused() -> None:
    assert "line 1: the header has 'owner' 2 times" in refusal(given("parcel_id,owner, owner\n1,a,b\n"))


def test_an_unclosed_quote_is_refused_with_its_line() -> None:
    assert 'line 3: a quote (") in this row is never closed' in refusal(given('parcel_id,a\n1,x\n2,"y\n3,z\n'))
    assert 'line 1: a quote (") in this row is never closed' in refusal(given('parcel_id,"a\n1,x\n'))


def test_an_unclosed_quote_costs_bounded_memory() -> None:
    long = itertools.chain([b'parcel_id,a\n1,x\n2,"y\n'], itertools.repeat(b"n,text\n" * 1_000, 2_000))
    pipe = Dribble(long)
    message = refusal(FileSource("-", stdin=pipe))
    assert "line 3: a quote" in message
    assert "is not closed within" in message
    assert pipe.handed_out < 2 * ROW_LIMIT_CHARS


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_cell_of_ten_megabytes_is_an_error_of_its_line(line_end: str) -> None:
    huge = "x" * 10_000_000
    items, bad = read(given(line_end.join(["parcel_id,a", "1,x", f"2,{huge}", f'3,"{huge}"', "4,y", ""])))
    assert [(item.seq, item.item_id) for item in items] == [(1, "1"), (4, "4")]
    assert [(row.number, row.line) for row in bad] == [(2, 3), (3, 4)]
    assert "longer than 1,048,576 characters" in bad[0].message


def test_a_huge_line_at_the_end_without_a_line_end_is_an_error_too() -> None:
    items, bad = read(given("parcel_id\n1\n" + "x" * 3_000_000))
    assert [item.item_id for item in items] == ["1"]
    assert [row.line for row in bad] == [3]


def test_the_limit_of_a_row_is_exact() -> None:
    fits = "x" * (ROW_LIMIT_CHARS - len("2,\n"))
    items, bad = read(given(f"parcel_id,a\n2,{fits}\n3,{fits}x\n4,y\n"))
    assert [item.item_id for item in items] == ["2", "4"]
    assert [row.line for row in bad] == [3]


def test_a_long_row_over_many_lines_is_an_error_of_that_row() -> None:
    cell = "\n".join(["y" * 1_000] * 1_049)
    items, bad = read(given(f'parcel_id,a\n1,"{cell}"\n2,x\n'))
    assert [item.item_id for item in items] == ["2"]
    assert [(row.number, row.line) for row in bad] == [(1, 2)]


def test_too_many_columns_are_refused() -> None:
    message = refusal(given(",".join(f"c{n}" for n in range(100_000)) + "\n"))
    assert "the header has 100,000 columns" in message
    assert f"{COLUMN_LIMIT:,}" in message
    assert "the header is too long" in refusal(given(",".join(f"column-{n}" for n in range(100_000)) + "\n"))


def test_an_empty_cell_stands_for_nothing_except_in_a_required_string() -> None:
    items, bad = read(given("parcel_id,year,note,extra\n1,,,\n,2020,n,e\n"), Bill)
    assert [item.input for item in items] == [{"parcel_id": "1", "extra": ""}]
    assert [str(row) for row in bad] == ["line 3: parcel_id: must have at least 1 characters (is '')"]


def test_gzip_is_known_by_its_bytes_not_by_its_name(tmp_path: Path) -> None:
    text = b"parcel_id,owner\n1,Ann\n2,Bob\n"
    for name, content in (("items.csv", gzip.compress(text)), ("items.csv.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(content)
        assert inputs(FileSource(tmp_path / name)) == TWO
    (tmp_path / "unpacked.csv.gz").write_bytes(text)
    assert inputs(FileSource(tmp_path / "unpacked.csv.gz")) == TWO


def test_gzip_in_several_members_with_padding_is_read_whole() -> None:
    packed = gzip.compress(b"parcel_id,owner\n1,A") + gzip.compress(b"") + gzip.compress(b"nn\n2,Bob\n") + b"\0" * 512
    assert inputs(given(packed)) == TWO
    assert inputs(FileSource("-", stdin=Dribble(in_pieces(packed, 5)))) == TWO


@pytest.mark.parametrize("kept", [3, 15, 40, -4, -1])
def test_truncated_gzip_is_refused(kept: int) -> None:
    packed = gzip.compress(b"parcel_id\n" + b"".join(b"%d\n" % n for n in range(500)))
    assert "cut off in the middle of its gzip data" in refusal(given(packed[:kept]))


def test_damaged_gzip_is_refused() -> None:
    packed = bytearray(gzip.compress(b"parcel_id\n" + b"1\n" * 500))
    packed[-6] ^= 0xFF  # in the checksum
    assert "is damaged gzip" in refusal(given(bytes(packed)))


def test_a_gzip_bomb_of_one_line_costs_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "items.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b"parcel_id\n1\n")
        for _ in range(64):
            packed.write(b"x" * (1 << 20))
        packed.write(b"\n2\n")
    items, bad = read(FileSource(file))
    assert [item.item_id for item in items] == ["1", "2"]
    assert [row.line for row in bad] == [3]


@pytest.mark.parametrize(
    ("head", "said"),
    [(b"PK\x03\x04", "Excel"), (b"\xd0\xcf\x11\xe0", "Excel"), (b"BZh9", "bunzip2"), (b"\x28\xb5\x2f\xfd", "zstd")],
)
def test_other_formats_are_named(head: bytes, said: str) -> None:
    message = refusal(FileSource("-", stdin=Dribble(in_pieces(head + bytes(100), 1))))
    assert said in message
