"""JSON arrays and JSON Lines: both shapes of a row, and the errors of a line and of a file."""

from __future__ import annotations

import itertools

import pytest
from pydantic import BaseModel, ConfigDict

from swath.pipeline.ingest.sources.file_and_stream import FileSource, InputFormat
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS
from swath.pipeline.ingest.validate import RowChecker
from tests.unit.pipeline.ingest.reading import Dribble, Parcel, given, in_pieces, inputs, read, refusal

pytestmark = pytest.mark.req("J1", "J2", "Z5")


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


def test_a_row_is_an_input_or_an_input_with_its_id() -> None:
    text = '[{"parcel_id": "1"}, {"item_id": "second", "input": {"parcel_id": "2"}}, {"input": {"parcel_id": "3"}}]'
    items, bad = read(given(text))
    assert bad == []
    assert [(item.seq, item.item_id, item.input) for item in items] == [
        (1, "1", {"parcel_id": "1"}),
        (2, "second", {"parcel_id": "2"}),
        (3, "3", {"parcel_id": "3"}),
    ]


def test_an_input_with_a_field_named_input_is_not_taken_apart() -> None:
    class Odd(BaseModel):
        input: dict[str, int]

    assert inputs(given('{"input": {"a": 1}}'), Odd) == [{"input": {"a": 1}}]


@pytest.mark.parametrize("form", ["array", "lines"])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("17", "is not an object"),
        ("null", "is not an object"),
        ('["parcel_id"]', "is not an object"),
        ('{"parcel": "1"}', "parcel_id: is missing"),
        ('{"parcel_id": 5}', "parcel_id: must be text (is 5)"),
        ('{"parcel_id": "1", "x": NaN}', "has NaN"),
        ('{"parcel_id": "1", "x": -Infinity}', "has -Infinity"),
        ('{"parcel_id": "1", "x": 1e999}', "too large (1e999)"),
        ('{"parcel_id": "1", "x": ' + "9" * 5_000 + "}", "a number of 5000 digits"),
        ('{"parcel_id": "1", "parcel_id": "2"}', "has the key 'parcel_id' twice"),
        ('{"parcel_id": "\\ud800"}', "half of a surrogate pair"),
        ('{"parcel_id": "a\\u0000b"}', "NUL character"),
        ('{"item_id": "", "input": {"parcel_id": "1"}}', "item_id: is empty"),
        ('{"item_id": true, "input": {"parcel_id": "1"}}', "item_id: must be text or a whole number"),
        ('{"item_id": "' + "x" * 1_001 + '", "input": {"parcel_id": "1"}}', "has 1,001 characters"),
        ('{"parcel_id": "1", "x": ' + "[" * 101 + "]" * 101 + "}", "nested more than 100 deep"),
    ],
)
def test_a_bad_value_is_an_error_of_its_line(form: str, row: str, said: str) -> None:
    good = '{"parcel_id": "%s"}'
    rows = [good % "first", row, good % "last"]
    items, bad = read(given("[" + ",\n".join(rows) + "]" if form == "array" else "\n".join(rows)))
    assert [(item.seq, item.item_id) for item in items] == [(1, "first"), (3, "last")]
    assert [(found.number, found.line) for found in bad] == [(2, 2)]
    assert said in bad[0].message


def test_a_line_that_is_not_json_is_an_error_of_its_line() -> None:
    items, bad = read(given('{"parcel_id": "1"}\n{"parcel_id": \n\n{"parcel_id": "3"} x\n{"parcel_id": "4"}\n'))
    assert [item.item_id for item in items] == ["1", "4"]
    assert [row.line for row in bad] == [2, 4]
    assert "is not valid JSON" in bad[0].message


def test_a_line_nested_deep_is_an_error_of_its_line() -> None:
    deep = '{"parcel_id": ' + "[" * 100_000 + "]" * 100_000 + "}"
    items, bad = read(given('{"parcel_id": "1"}\n' + deep + '\n{"parcel_id": "3"}'))
    assert [item.item_id for item in items] == ["1", "3"]
    assert "nested more than 100 deep" in bad[0].message


def test_a_line_above_the_limit_is_an_error_of_its_line() -> None:
    long = '{"parcel_id": "%s"}' % ("x" * 2_000_000)
    items, bad = read(given('{"parcel_id": "1"}\n' + long + '\n{"parcel_id": "3"}'))
    assert [item.item_id for item in items] == ["1", "3"]
    assert [(row.number, row.line) for row in bad] == [(2, 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"parcel_id": "1"},\n{"parcel_id" "2"}]', "line 2: is not valid JSON: Expecting ':' delimiter"),
        ('[{"parcel_id": "1"}\n{"parcel_id": "2"}]', "line 2: ',' or ']' is missing here"),
        ('[{"parcel_id": "1"},\n]', "line 2: is not valid JSON"),
        ('[\n{"parcel_id": "1"}]\n\n[]', "line 4: something follows after the end of the array"),
        ('[{"parcel_id": "1"}, {"parcel_id":\n"', "line 1: this element is not finished"),
        ('{"items": []}', "line 1: is not a JSON array; for one object per line say --format jsonl"),
        ('"text"', "line 1: is not a JSON array"),
        ("[]", "has no rows"),
        ("", "is empty"),
        ("   \n ", "is not a JSON array"),
        ("[" * 100_000, "nested more than 100 deep"),
    ],
)
def test_an_array_that_stops_being_json_is_refused_with_its_line(text: str, said: str) -> None:
    assert said in refusal(given(text, InputFormat.JSON))


def test_an_array_called_json_lines_is_refused_with_the_right_word() -> None:
    assert "line 2: begins a JSON array, not JSON Lines; say --format json" in refusal(
        given('\n[{"parcel_id": "1"}]', InputFormat.JSONL)
    )


@pytest.mark.parametrize("text", ['[{"parcel_id": "%s"}]', '[{"parcel_id": "1"}, {"a": "%s"'])
def test_an_element_above_the_limit_is_refused(text: str) -> None:
    assert "this element is longer than 1,048,576 characters" in refusal(given(text % ("x" * 3_000_000)))


def test_an_element_without_end_costs_bounded_memory() -> None:
    pipe = Dribble(itertools.chain([b'[{"parcel_id": ["'], itertools.repeat(b'x","' * 1_000, 2_000)))
    assert "longer than" in refusal(FileSource("-", InputFormat.JSON, stdin=pipe))
    assert pipe.handed_out < 2 * ROW_LIMIT_CHARS


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("form", [InputFormat.JSON, InputFormat.JSONL])
def test_pieces_of_a_slow_pipe_do_not_show(form: InputFormat, size: int) -> None:
    rows = ['{"n": 12345}', '{"n": -1.5e3, "s": "\\"],é"}', '{"n": [true, null, {}]}']
    text = "\ufeff[\r\n" + ", \n".join(rows) + "\n]\n" if form is InputFormat.JSON else "\r\n".join(rows)
    source = FileSource("-", form, stdin=Dribble(in_pieces(text.encode(), size)))
    assert inputs(source, Anything) == [{"n": 12345}, {"n": -1500.0, "s": '"],é'}, {"n": [True, None, {}]}]


def test_a_number_cut_by_a_piece_is_one_number() -> None:
    pipe = Dribble([b'[{"parcel_id": "1"}, 12', b'34, {"parcel_id": "2"}]'])
    items, bad = read(FileSource("-", InputFormat.JSON, stdin=pipe), Parcel)
    assert [item.seq for item in items] == [1, 3]
    assert [row.number for row in bad] == [2]


def test_lines_of_a_pretty_printed_array_are_counted() -> None:
    _, bad = read(given('[\n  {\n    "parcel_id": "1"\n  },\n  {\n    "nothing": "2"\n  }\n]\n'))
    assert [(row.number, row.line) for row in bad] == [(2, 5)]


@pytest.mark.parametrize("model", [Parcel, Anything])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"item_id": "x", "input": "1"}', "input: must be an object beside an item_id (is '1')"),
        ('{"item_id": "x", "input": null}', "input: must be an object beside an item_id (is None)"),
        ('{"item_id": "x", "input": {"parcel_id": "1"}, "year": 1}', "has item_id and input, and 'year' beside them"),
        ('{"item_id": "x", "input": 5, "parcel_id": "1"}', "has item_id and input, and 'parcel_id' beside them"),
    ],
)
def test_an_item_id_is_never_passed_over_in_silence(model: type[BaseModel], row: str, said: str) -> None:
    items, bad = read(given(row), model)
    assert items == []
    assert said in bad[0].message


def test_a_model_or_an_option_that_names_such_a_field_means_the_field() -> None:
    class WithId(BaseModel):
        item_id: str

    class WithInput(BaseModel):
        input: str

    row = {"item_id": "x", "input": "1", "year": 1}
    text = '{"item_id": "x", "input": "1", "year": 1}'
    assert inputs(given(text), WithId) == inputs(given(text), WithInput) == [row]
    assert inputs(given('{"item_id": "x", "input": "1"}'), WithId) == [{"item_id": "x", "input": "1"}]
    mapped = RowChecker(Parcel, mapping={"parcel_id": "input"})
    assert inputs(given(text), mapped) == [{"item_id": "x", "year": 1, "parcel_id": "1"}]
    items, _ = read(given('{"item_id": "x", "input": "1", "parcel_id": "2"}'), RowChecker(Parcel, id_column="item_id"))
    assert [item.item_id for item in items] == ["x"]
