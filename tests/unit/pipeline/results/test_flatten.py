"""Nested records become columns by rules that can be foretold from the record alone."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.pipeline.results.export.formats import safe_cell
from swath.pipeline.results.flatten import cell_text, flatten

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
NESTED = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
RECORDS = st.dictionaries(st.text(), NESTED)


@pytest.mark.req("R5")
@pytest.mark.parametrize(
    ("record", "row"),
    [
        ({"a": 1, "b": {"c": "x", "d": {"e": None}}}, {"a": 1, "b.c": "x", "b.d.e": None}),
        ({"a": [1, {"b": 2}], "c": []}, {"a": '[1,{"b":2}]', "c": "[]"}),
        ({"a": {}}, {"a": "{}"}),
        ({"a.b": 1, "a": {"b": 2}}, {"a\\.b": 1, "a.b": 2}),
        ({"a\\": {"b": 1}, "a\\.b": 2}, {"a\\\\.b": 1, "a\\\\\\.b": 2}),
        ({"_id": 1, "__id": 2, "a": {"_id": 3}}, {"__id": 1, "___id": 2, "a._id": 3}),
        ({}, {}),
        (5, {"value": 5}),
        ("x", {"value": "x"}),
        ([1, 2], {"value": "[1,2]"}),
    ],
)
def test_the_rules(record: Any, row: dict[str, Any]) -> None:
    assert flatten(record) == row
    assert list(flatten(record)) == list(row)


def places(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Where every value of a record is, without the rules."""
    if isinstance(value, dict) and (value or not path):
        return {at: one for key, part in value.items() for at, one in places(part, (*path, key)).items()}
    return {path: value}


@pytest.mark.req("R5")
@given(RECORDS)
def test_no_value_is_lost_and_no_two_share_a_column(record: dict[str, Any]) -> None:
    flat, expected = flatten(record), places(record)
    assert len(flat) == len(expected)
    for value, (path, there) in zip(flat.values(), expected.items(), strict=True):
        if isinstance(there, (list, dict)):
            assert isinstance(value, str), path
            assert json.loads(value) == there
        else:
            assert value == there, path


@pytest.mark.req("R5")
@given(RECORDS)
def test_no_column_of_a_record_can_be_one_of_ours(record: dict[str, Any]) -> None:
    assert not [name for name in flatten(record) if name.startswith("_") and not name.startswith("__")]


@pytest.mark.req("R5")
@given(st.dictionaries(st.text(), SCALARS | st.dictionaries(st.text(), SCALARS, min_size=1)))
def test_a_column_says_where_its_value_was(record: dict[str, Any]) -> None:
    back = {}
    for column, value in flatten(record, "top").items():
        names = _path(column)
        assert names[0] == "top"
        back[names[1:]] = value
    if record:
        assert back == places(record)


def _path(column: str) -> tuple[str, ...]:
    names, current, escaped = [], "", False
    for character in column:
        if escaped:
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        elif character == ".":
            names.append(current)
            current = ""
        else:
            current += character
    return (*names, current)


RISKY = st.sampled_from(
    ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'", '"', ",", ";"]
)
PARTS = st.lists(RISKY | st.sampled_from(["1", "a", "1+1", " "]), max_size=8).map("".join)
CELLS = (
    st.text() | PARTS | st.tuples(RISKY, st.text()).map("".join) | st.tuples(RISKY, st.integers().map(str)).map("".join)
)


def computes(cell: str) -> bool:
    """Whether a spreadsheet may take the cell for more than text or a number."""
    try:
        float(cell)
    except ValueError:
        return cell[:1] in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20" if cell else False
    return cell[0] in "\t\r\n\uff0b\uff0d"


@pytest.mark.req("R5", "Z7")
@given(st.lists(CELLS | SCALARS, min_size=1))
def test_no_cell_is_a_formula_after_a_csv_reader_has_read_it(cells: list[Any]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerow([safe_cell(cell) for cell in cells])
    (read,) = csv.reader(io.StringIO(text.getvalue(), newline=""))
    assert not [cell for cell in read if computes(cell)]
    for cell, given_ in zip(read, cells, strict=True):
        assert cell.replace("'", "") == cell_text(given_).replace("'", "")


@pytest.mark.req("R5", "Z7")
@pytest.mark.parametrize("separator", [";", "\t"])
@given(st.lists(CELLS, min_size=1))
def test_no_cell_is_a_formula_to_a_reader_that_splits_elsewhere(separator: str, cells: list[str]) -> None:
    """Spreadsheets of half of Europe split at semicolons, and then know nothing of quotes inside of a cell."""
    text = io.StringIO(newline="")
    csv.writer(text).writerow([safe_cell(cell) for cell in cells])
    for line in re.split(r"[\r\n]+", text.getvalue()):
        for cell in next(csv.reader([line], delimiter=separator), []):
            assert not computes(cell) or re.match(r"[+-]?[0-9.eE+-]+[,\"]|\t", cell), (line, cell, cells)


@pytest.mark.req("R5")
@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1 555 0100", "'+1 555 0100"),
        ("-5", "-5"),
        ("-5.25", "-5.25"),
        ("+15550100", "+15550100"),
        ("-5+cmd|' /C calc'!A0", "'-5+cmd|' /C calc'!A0"),
        ("-", "'-"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("x;=1+1;y", "x;'=1+1;y"),
        ('x;"=1+1', "x;\"'=1+1"),
        ("one\n=cmd|' /C calc'!A0", "one\n'=cmd|' /C calc'!A0"),
        ("1;-5;+7\n-2.5", "1;-5;+7\n-2.5"),
        ("a;-b - c = d", "a;'-b - c = d"),
        ("a - b; c = d", "a - b; c = d"),
        (-5, "-5"),
        (-1.5, "-1.5"),
        (True, "true"),
        (None, ""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_numbers_stay_numbers(value: Any, cell: str) -> None:
    assert safe_cell(value) == cell
