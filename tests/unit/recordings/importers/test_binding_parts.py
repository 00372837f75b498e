"""A3: where all of a value was found, a text that may be a part of it, or something else, is left alone, and told with
the flag that would bind it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from swath.domain.errors import BadInput
from swath.recordings.importers import BoundRecording, bind
from swath.recordings.schema.template import render_template
from tests.unit.recordings.importers.written import recording, typed

pytestmark = pytest.mark.req("A3")

ACCOUNT: Final = "AB-1002-2024"


def texts(found: BoundRecording) -> list[Any]:
    return [getattr(step, "text", getattr(step, "url", None)) for step in found.recording.steps]


def notes(found: BoundRecording) -> list[str]:
    return list(map(str, found.remarks))


def test_an_unrelated_field_is_not_tied_to_a_part_of_the_value() -> None:
    found = bind(recording(typed(ACCOUNT, "#account"), typed("1002", "#zip")), {"account": ACCOUNT})
    assert texts(found) == ["{{ input.account }}", "1002"]
    (told,) = notes(found)
    assert told.startswith(
        "step 2: 'AB-1002-2024': '1002' may be a part of it or something else, and stays; if it is, "
    )
    assert told.endswith(" --bind-part account=1002")


@pytest.mark.parametrize(
    ("literal", "text", "part"),
    [
        (ACCOUNT, "1002", '{{ input.account | split("-", 1) }}'),
        (ACCOUNT, "2024", '{{ input.account | split("-", 2) }}'),
        (ACCOUNT, "AB-1002", '{{ input.account | split("-", 0) }}-{{ input.account | split("-", 1) }}'),
        ("200-14-030", "200-14", '{{ input.account | split("-", 0) }}-{{ input.account | split("-", 1) }}'),
        ("20014030", "20014", "{{ input.account | slice(0, 5) }}"),
    ],
)
def test_the_flag_of_the_note_binds_it(literal: str, text: str, part: str) -> None:
    made = recording(typed(literal, "#account"), typed(text, "#other"))
    (told,) = notes(bind(made, {"account": literal}))
    flag = told.partition("--bind-part ")[2]
    assert flag == f"account={text}"
    found = bind(made, {"account": literal}, {"account": {text}})
    assert texts(found) == ["{{ input.account }}", part]
    assert render_template(part, {"input": {"account": literal}}) == text
    assert notes(found) == []


def test_the_digits_of_a_value_with_letters_may_be_a_zip_code() -> None:
    made = recording(
        typed("AB-10022", "#account"), typed("10022", "#zip"), {"do": "goto", "url": "https://a.test/?z=10022"}
    )
    found = bind(made, {"account": "AB-10022"})
    assert texts(found) == ["{{ input.account }}", "10022", "https://a.test/?z=10022"]
    assert "--bind-part account=10022" in notes(found)[0]
    assert notes(found)[1].startswith("step 3: 'AB-10022': url may hold a part of it")
    alone = bind(recording(typed("10022", "#account")), {"account": "AB-10022"})
    assert texts(alone) == ["{{ input.account | digits }}"]
    many = bind(recording(typed(ACCOUNT), typed("10022024", "#b")), {"account": ACCOUNT})
    assert texts(many)[1] == "{{ input.account | digits }}"


def test_pieces_of_a_short_value_may_be_a_day_and_a_month() -> None:
    made = recording(typed("10-02", "#number"), typed("10", "#day"), typed("02", "#month"))
    found = bind(made, {"number": "10-02"})
    assert texts(found) == ["{{ input.number }}", "10", "02"]
    assert [told.partition("--bind-part ")[2] for told in notes(found)] == ["number=10", "number=02"]
    said = bind(made, {"number": "10-02"}, {"number": {"10", "02"}})
    assert texts(said)[1:] == ['{{ input.number | split("-", 0) }}', '{{ input.number | split("-", 1) }}']
    alone = bind(recording(*made.model_dump(mode="json", exclude_unset=True)["steps"][1:]), {"number": "10-02"})
    assert texts(alone) == ['{{ input.number | split("-", 0) }}', '{{ input.number | split("-", 1) }}']


def test_pieces_that_make_up_a_telling_value_are_it_wherever_else_it_stands() -> None:
    made = recording(typed("200-14-030", "#q"), typed("200", "#a"), typed("14", "#b"), typed("030", "#c"))
    assert all("input.apn" in text for text in texts(bind(made, {"apn": "200-14-030"})))


def test_the_beginning_in_the_box_of_the_value_is_the_value() -> None:
    made = recording(typed("200-1", "#apn"), {"do": "press", "key": "Tab"}, typed("200-14-030", "#apn"))
    assert texts(bind(made, {"apn": "200-14-030"}))[0] == "{{ input.apn | slice(0, 5) }}"


def test_what_has_an_input_of_its_own_needs_no_note() -> None:
    made = recording(typed(ACCOUNT, "#account"), typed("1002", "#zip"))
    found = bind(made, {"account": ACCOUNT, "zip": "1002"})
    assert texts(found) == ["{{ input.account }}", "{{ input.zip }}"]
    assert notes(found) == []


def test_a_value_of_which_only_a_part_was_typed_is_told_with_that() -> None:
    with pytest.raises(BadInput, match="'1002' may be a part of it or something else"):
        bind(recording(typed("1002", "#zip")), {"account": ACCOUNT})


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"account": {"7777"}}, "--bind-part account=7777: no step types this as a part of 'AB-1002-2024'"),
        ({"account": {ACCOUNT}}, "no step types this as a part"),
        ({"other": {"1002"}}, "--bind-part other=1002: other is not bound"),
    ],
)
def test_a_part_of_nothing_is_refused(parts: dict[str, set[str]], complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        bind(
            recording(typed(ACCOUNT, "#account"), typed("1002", "#zip"), typed("7777", "#x")),
            {"account": ACCOUNT},
            parts,
        )
    assert complaint in str(refused.value)


def test_notes_of_the_import_are_numbered_anew_when_binding_leaves_out_a_step() -> None:
    told = ("step 3 (click): the field glow is not known", "the action 'x' is left out: 2 steps (2, after 3)", "plain")
    steps = [typed("200-14", "#apn"), typed("200-14-030", "#apn"), {"do": "click", "on": "#go"}]
    found = bind(recording(*steps, notes=list(told)), {"apn": "200-14-030"})
    assert [step.do for step in found.recording.steps] == ["type", "click"]
    assert found.recording.notes == (
        "step 2 (click): the field glow is not known",
        "the action 'x' is left out: 2 steps (1, after 2)",
        "plain",
    )
    assert [place.step for place in found.places] == ["1"]


def test_an_address_that_may_hold_a_part_is_told_of() -> None:
    made = recording(
        typed(ACCOUNT, "#account"),
        {"do": "goto", "url": "https://a.test/list?year=2024&page=2"},
        {"do": "goto", "url": "https://a.test/2024x?n=12024"},
    )
    found = bind(made, {"account": ACCOUNT})
    assert texts(found)[1:] == ["https://a.test/list?year=2024&page=2", "https://a.test/2024x?n=12024"]
    (told,) = notes(found)
    assert told.startswith("step 2: 'AB-1002-2024': url has '2024', which may be a part of it, and stays")
