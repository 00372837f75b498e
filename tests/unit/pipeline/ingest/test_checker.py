"""Rows against the input model: names of columns, ids of items, and what is kept."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from swath.domain.errors import BadInput
from swath.domain.item import ITEM_ID_LIMIT, Item, derive_item_id
from swath.pipeline.ingest.sources.rows import BadRow, InputRow, RowsInMemory
from swath.pipeline.ingest.validate import RowChecker
from swath.sdk.models import Input
from tests.unit.pipeline.ingest.reading import Bill, Parcel, given, inputs, read, refusal

pytestmark = pytest.mark.req("K2", "J1", "Z5")


def ids(text: str, checker: RowChecker | type[BaseModel]) -> list[str]:
    items, bad = read(given(text), checker)
    assert bad == []
    return [item.item_id for item in items]


def test_extra_columns_are_kept_and_do_not_change_the_id() -> None:
    items, _ = read(given("parcel_id,owner\n1,Ann\n"))
    assert items == [Item(1, "1", {"parcel_id": "1", "owner": "Ann"})]


def test_the_id_of_several_fields_covers_the_fields_of_the_model_alone() -> None:
    (plain,) = ids("parcel_id,year\n1,2020\n", Bill)
    (extra,) = ids("owner,year,parcel_id\nAnn,2020,1\n", Bill)
    (other,) = ids("parcel_id,year\n1,2021\n", Bill)
    assert plain == extra == derive_item_id({"parcel_id": "1", "year": "2020"})
    assert plain != other


def test_the_only_required_field_is_the_id_when_it_stands_alone() -> None:
    assert ids("parcel_id,year\n1,\n", Bill) == ["1"]


def test_one_value_in_two_optional_fields_makes_two_ids() -> None:
    class Either(BaseModel):
        parcel: str | None = None
        account: str | None = None

    assert len(set(ids("parcel,account\n1,\n,1\n", Either))) == 2


def test_a_model_that_takes_anything_names_items_after_all_of_it() -> None:
    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")

    class Nothing(BaseModel):
        pass

    for model in (Anything, Nothing):
        assert ids("test_param\nhello\nworld\n", model) == ["hello", "world"]


@hypothesis_given(
    st.one_of(st.text(max_size=20), st.text(min_size=ITEM_ID_LIMIT - 1, max_size=ITEM_ID_LIMIT + 1), st.integers())
)
def test_the_id_of_a_one_field_model_is_what_the_domain_derives(value: str | int) -> None:
    class One(BaseModel):
        parcel_id: str | int

    data: dict[str, object] = {"parcel_id": value}
    checked = RowChecker(One).check(InputRow(1, 1, data | {"more": 1}))
    derived = derive_item_id(data)
    if "\0" in derived:
        assert isinstance(checked, BadRow)
    else:
        assert checked == Item(1, derived, data | {"more": 1})


def test_the_id_column_gives_the_id_and_stays_in_the_input() -> None:
    items, bad = read(given("parcel_id,key\n1,a\n2,\n"), RowChecker(Parcel, id_column="key"))
    assert items == [Item(1, "a", {"parcel_id": "1", "key": "a"})]
    assert [str(row) for row in bad] == ["line 3: column 'key': is empty, and an item needs an id"]


def test_an_id_column_that_is_not_there_is_refused() -> None:
    message = refusal(given("parcel_id,key\n1,a\n"), RowChecker(Parcel, id_column="kee"))
    assert "--id-column kee: there is no column 'kee'; did you mean 'key'?" in message


def test_the_id_column_works_for_objects_too() -> None:
    checker = RowChecker(Parcel, id_column="key")
    assert ids(
        '[{"parcel_id": "1", "key": 7}, {"item_id": "x", "input": {"parcel_id": "2", "key": "k"}}]', checker
    ) == [
        "7",
        "k",
    ]


def test_a_mapped_column_takes_the_name_of_the_field() -> None:
    checker = RowChecker(Parcel, mapping={"parcel_id": "APN"})
    assert inputs(given("APN,owner\n1,Ann\n"), checker) == [{"owner": "Ann", "parcel_id": "1"}]
    assert inputs(given('{"APN": "1", "owner": "Ann"}'), checker) == [{"owner": "Ann", "parcel_id": "1"}]


def test_a_mapping_to_no_field_is_refused() -> None:
    with pytest.raises(BadInput, match=r"--map parcel=APN: .* no field 'parcel'; did you mean 'parcel_id'\?"):
        RowChecker(Parcel, mapping={"parcel": "APN"})


def test_a_mapping_from_no_column_is_refused() -> None:
    message = refusal(given("APNN,owner\n1,Ann\n"), RowChecker(Parcel, mapping={"parcel_id": "APN"}))
    assert "--map parcel_id=APN: there is no column 'APN'; did you mean 'APNN'?" in message


def test_a_mapping_that_would_hide_a_column_is_refused() -> None:
    checker = RowChecker(Parcel, mapping={"parcel_id": "APN"})
    assert "there is a column 'parcel_id' too" in refusal(given("APN,parcel_id\n1,2\n"), checker)
    _, bad = read(given('{"APN": "1", "parcel_id": "2"}'), checker)
    assert "has both 'APN' and 'parcel_id'" in bad[0].message


def test_the_caller_s_own_rows_are_not_changed() -> None:
    rows: list[dict[str, Any]] = [{"APN": "1"}, {"input": {"APN": "2"}}]
    checker = RowChecker(Parcel, mapping={"parcel_id": "APN"})
    assert inputs(RowsInMemory("the demo", rows), checker) == [{"parcel_id": "1"}, {"parcel_id": "2"}]
    assert rows == [{"APN": "1"}, {"input": {"APN": "2"}}]


def test_several_missing_columns_are_named_together() -> None:
    class Two(BaseModel):
        parcel_id: str
        county: str

    message = refusal(given("a\n1\n"), Two)
    assert "columns 'parcel_id', 'county'" in message
    assert "--map parcel_id=COLUMN --map county=COLUMN" in message


def test_aliases_of_a_field_count_as_its_column() -> None:
    class Aliased(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        parcel_id: str = Field(alias="APN")
        owner: str = Field(validation_alias=AliasChoices("owner", "owner_name"))

    assert inputs(given("APN,owner_name\n1,Ann\n"), Aliased) == [{"APN": "1", "owner_name": "Ann"}]
    assert inputs(given("parcel_id,owner\n1,Ann\n"), Aliased) == [{"parcel_id": "1", "owner": "Ann"}]
    assert "'parcel_id'" in refusal(given("parcel,owner\n1,Ann\n"), Aliased)
    mapped = RowChecker(Aliased, mapping={"parcel_id": "No."})
    assert inputs(given("No.,owner\n1,Ann\n"), mapped) == [{"owner": "Ann", "APN": "1"}]


def test_a_model_without_room_for_more_refuses_the_header_not_every_row() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        parcel_id: str

    assert "remove 'owner'" in refusal(given("parcel_id,owner\n1,Ann\n"), Closed)


def test_what_the_model_says_is_told_with_the_line() -> None:
    _, bad = read(given("parcel_id,year\n1,next\n2,1066\n3,2020\n"), Bill)
    assert [str(row) for row in bad] == [
        "line 2: year: must be a whole number (is 'next')",
        "line 3: year: must be at least 1900 (is '1066')",
    ]


def test_an_empty_cell_counts_as_absent_where_no_text_is_required() -> None:
    class Colour(Enum):
        RED = "red"

    class Wide(BaseModel):
        text: str
        number: int
        colour: Colour = Colour.RED
        word: Literal["a", "b"] = "a"
        either: str | int

    items, bad = read(given("text,number,colour,word,either\n,1,,,\nx,,,,\n"), Wide)
    assert [item.input for item in items] == [{"text": "", "number": "1", "either": ""}]
    assert [str(row) for row in bad] == ["line 3: number: is missing"]


def test_whatever_a_scraper_s_own_validator_raises_is_about_that_row() -> None:
    class Buggy(BaseModel):
        parcel_id: str

        @field_validator("parcel_id")
        @classmethod
        def _check(cls, value: str) -> str:
            return {"1": "one"}[value]

    items, bad = read(given("parcel_id\n1\n2\n"), Buggy)
    assert [item.item_id for item in items] == ["1"]
    assert [str(row) for row in bad] == ["line 3: the scraper's input model raised KeyError('2')"]


def test_a_message_stays_on_one_short_line() -> None:
    _, bad = read(given('[{"parcel_id": ["' + "x\\n" * 10_000 + '"]}]'))
    assert len(bad[0].message) < 200
    assert "\n" not in bad[0].message


def test_white_space_that_the_model_takes_off_does_not_change_the_id() -> None:
    class One(Input):
        parcel_id: str

    class Two(Input):
        parcel_id: str
        year: int = 2024
        asked_at: float = Field(default_factory=itertools.count().__next__)

    text = '[{"parcel_id": "101"}, {"parcel_id": " 101 "}, {"parcel_id": "101\\u00a0"}]'
    assert ids(text, One) == ["101"] * 3
    assert inputs(given(text), One)[1] == {"parcel_id": " 101 "}
    assert len(set(ids("parcel_id,year\n101,2020\n 101 ,2020\n101, 2020\n", Two))) == 1
    assert len(set(ids('[{"parcel_id": ""}, {"parcel_id": " "}]', One))) == 1


def test_white_space_that_the_model_keeps_makes_another_id() -> None:
    class Loose(Input):
        parcel_id: Any

    class Anything(Input):
        model_config = ConfigDict(extra="allow")

    class Picky(Input):
        parcel_id: str

        @field_validator("parcel_id", mode="before")
        @classmethod
        def _check(cls, value: str) -> str:
            if len(value) < 4:
                raise ValueError("too short")
            return value

    text = '[{"parcel_id": "101"}, {"parcel_id": " 101 "}]'
    for model in (Parcel, Loose, Anything):
        assert ids(text, model) == ["101", " 101 "]
    assert ids('{"parcel_id": " 101 "}', Picky) == [" 101 "]
