"""A3: given a row, `suggest` finds which of its columns were recorded, and where."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swath.recordings.document import check_recording
from swath.recordings.importers import bind, suggest
from swath.recordings.validation.names import field_name_error
from tests.unit.recordings.importers.written import recording, typed

pytestmark = pytest.mark.req("A3")


def test_the_surest_comes_first_and_all_can_be_bound_together() -> None:
    made = recording(
        {"do": "goto", "url": "https://a.test/reno/search"},
        typed("200", "#book"),
        typed("14", "#map"),
        typed("030", "#item"),
        typed("Smith", "#owner"),
        {"do": "wait_for", "text": "Owner: Smith of Reno"},
    )
    row = {"Year": "2024", "City": "Reno", "Parcel ID": "200-14-030", "Owner": "Smith", "map": "14", "empty": "  "}
    found = suggest(made, row)
    assert [(one.name, one.literal, one.places[0].how) for one in found] == [
        ("owner", "Smith", "exact"),
        ("parcel_id", "200-14-030", "split"),
        ("city", "Reno", "part"),
    ]
    assert [place.step for place in found[1].places] == ["2", "3", "4"]
    assert found[1].flag == "--bind parcel_id=200-14-030"
    bind(made, {one.name: one.literal for one in found})


def test_of_two_columns_with_one_value_the_one_that_is_named_like_the_box_counts() -> None:
    made = recording(typed("12345", "#parcel-number"), typed("Main St", "#street"))
    (street, parcel) = sorted(
        suggest(made, {"row": "12345", "Parcel Number": "12345", "street": "Main St"}),
        key=lambda one: one.literal,
        reverse=True,
    )
    assert (parcel.name, parcel.also) == ("parcel_number", ("row",))
    assert street.flag == "--bind 'street=Main St'"


def test_a_row_of_which_nothing_was_recorded_gives_nothing() -> None:
    assert suggest(recording(typed("a b c", "#x")), {"q": "zzz", "1st": "2"}) == []


@given(st.text(max_size=80))
@example("1st parcel")
@example("_id")
@example("model_dump")
@example("Nummer für Größe")
@example("株式会社")
@example("1" * 80)
def test_whatever_a_column_is_called_its_proposed_name_is_one_that_import_takes(column: str) -> None:
    made = recording(typed("200-14-030", "#parcel"))
    (found,) = suggest(made, {column: "200-14-030"})
    assert field_name_error(found.name) is None
    check_recording(bind(made, {found.name: found.literal}).recording, "flow", javascript=False)
