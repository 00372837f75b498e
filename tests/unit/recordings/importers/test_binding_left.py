"""A3: what is left of a bound value, where no input can stand or none is put, is told: nothing stays behind unsaid."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from swath.domain.errors import BadInput
from swath.recordings.importers import BoundRecording, bind, import_recording
from swath.recordings.importers.binding.residue import other_date_notations
from tests.unit.recordings.importers.written import recording, typed

pytestmark = pytest.mark.req("A3")

APN: Final = "200-14-030"


def keys(*pressed: str) -> list[dict[str, Any]]:
    return [{"do": "press", "key": key, "how": how} for key in pressed for how in ("down", "up")]


def told(found: BoundRecording) -> list[str]:
    return list(map(str, found.remarks))


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "pressed"),
    [
        (APN, list(APN)),
        (APN, ["2", "0", "0", "Tab", "1", "4", "Tab", "0", "3", "0"]),
        (APN, ["2", "0", "0", "1", "5", "Backspace", "4", "0", "3", "0"]),
        ("Smith", ["Shift", "S", "m", "i", "t", "h"]),
        ("Smith", ["KeyS", "KeyM", "KeyI", "KeyT", "KeyH"]),
        ("12", ["Digit1", "Numpad2"]),
    ],
)
def test_a_value_that_is_also_pressed_key_by_key_is_told_with_its_steps(literal: str, pressed: list[str]) -> None:
    steps = [{"do": "click", "on": "#a"}, *keys(*pressed), typed(literal), *keys("Enter")]
    found = bind(recording(*steps), {"it": literal})
    (told_of,) = told(found)
    first = 4 if pressed[0] == "Shift" else 2
    assert told_of.startswith(f"steps {first} to {1 + 2 * len(pressed)}: {literal!r}: is pressed key by key, ")


def test_each_time_that_it_is_pressed_is_told_also_between_drafts_and_in_branches() -> None:
    shift = {"do": "press", "key": "Shift", "how": "down"}
    drafted = [*keys("2", "0", "0"), typed("200"), shift, *keys(*APN[3:]), typed(APN)]
    branch = {"do": "if", "condition": {"text": "x"}, "then": keys(*APN)}
    found = bind(recording(*drafted, branch), {"it": APN})
    pressed = [one.partition(", where")[0] for one in told(found) if "key by key" in one]
    assert pressed == [
        f"steps 1 to 22: {APN!r}: is pressed key by key",
        f"steps 24.then.1 to 24.then.20: {APN!r}: is pressed key by key",
    ]


def test_notes_count_the_steps_of_the_recording_that_is_given_back() -> None:
    """Chrome tells of a box again and again while somebody types; what only begins a value is left out."""
    shift = {"do": "press", "key": "Shift", "how": "down"}
    drafted = [typed("S", "#name"), shift, typed("Smith", "#name"), typed("200-1"), shift, typed(APN)]
    wait = {"do": "javascript", "code": f"x == '{APN}'", "until_true": True}
    chosen = [{"do": "click", "on": [f"text/{value}", "#a"]} for value in ("Smith", APN)]
    branch = {"do": "if", "condition": {"text": "x"}, "then": [wait, *chosen]}
    found = bind(recording(*drafted, *chosen, branch, wait), {"name": "Smith", "it": APN})
    assert [step.do for step in found.recording.steps] == ["press", "type", "press", "type", "click", "click", "if"]
    assert [one.partition(": ")[0] for one in told(found)] == [
        *("after step 2", "step 6", "before step 7.then.1", "step 7.then.2", "after step 7"),
        *("before step 1", "step 5", "step 7.then.1"),
    ]


@pytest.mark.parametrize(
    "pressed", [["Enter"], ["2", "0", "0"], ["Tab", "2", "Enter", *APN[1:]], ["Shift", "x", "Tab", "Enter"]]
)
def test_keys_that_are_not_the_value_are_not_told(pressed: list[str]) -> None:
    assert told(bind(recording(typed(APN), *keys(*pressed)), {"it": APN})) == []


def test_keys_that_are_held_with_another_type_nothing() -> None:
    control = [{"do": "press", "key": "Control", "how": how} for how in ("down", "up")]
    held = [control[0], *keys("a", "b", "c"), control[1]]
    assert told(bind(recording(typed("abc"), *held), {"it": "abc"})) == []


def test_a_value_that_only_keys_hold_is_refused_with_where_they_are() -> None:
    with pytest.raises(BadInput, match="nothing would depend on it: steps 2 to 21: '200-14-030': is pressed key"):
        bind(recording({"do": "click", "on": "#a"}, *keys(*APN)), {"it": APN})


# -- the id, and words for people --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "literal", "made"),
    [
        ("Owner of Müller GmbH", "Müller GmbH", "owner-of-p"),
        ("MÜLLER GmbH's owner", "Müller GmbH", "p-s-owner"),
        ("São Paulo", "São Paulo", "p"),
        ("Parcel 200/14/030", "200-14-030", "parcel-p"),
        ("The Smithsons", "Smith", "the-smithsons"),
        ("Main St", "Øst", "main-st"),
        ("Recording", "株式会社", "recording"),
    ],
)
def test_an_id_that_was_made_of_the_title_is_made_without_the_value(title: str, literal: str, made: str) -> None:
    steps = [{"type": "navigate", "url": "https://a.test/"}, {"type": "change", "selectors": ["#a"], "value": literal}]
    imported = import_recording(json.dumps({"title": title, "steps": steps}), "flow.json").recording
    assert bind(imported, {"p": literal}).recording.id == made


def test_an_input_that_is_named_like_its_value_is_nothing_left() -> None:
    found = bind(recording(typed("Smith"), id="find-smith"), {"smith": "Smith"})
    assert (found.recording.id, told(found)) == ("find-smith", [])


def test_what_people_read_is_searched_whatever_its_capitals() -> None:
    fields = {"name": "Of mÜLLER Gmbh", "description": "MüLLer GMBH", "notes": ["a", "typed MÜLLER gmbH"]}
    named = {**typed("Müller GmbH"), "name": "Type MüllER GmbH"}
    found = bind(recording(named, **fields), {"p": "Müller GmbH"})
    assert [one.partition(" still holds it")[0] for one in told(found)] == [
        "'Müller GmbH': name",
        "'Müller GmbH': description",
        "step 1: 'Müller GmbH': name",
        "'Müller GmbH': notes",
    ]


def test_a_short_value_is_not_looked_for_in_notes_which_are_full_of_numbers() -> None:
    assert told(bind(recording(typed("14"), notes=["step 14 (click): x"]), {"p": "14"})) == []


@pytest.mark.parametrize(
    ("selector", "is_told"),
    [
        ("#row-7", True),
        (".tab7", False),
        ("td:nth-child(7)", False),
        ('[data-id="7"]', True),
        ("xpath///tr[7]/td", False),
        ("xpath///tr[@id='7']", True),
        ("text/Bill 7", True),
        ('aria/Bill 7[role="link"]', True),
        ("text/Bill 17", False),
        ("pierce/#\\37 ", True),
    ],
)
def test_a_short_value_by_which_an_element_may_be_named_is_told(selector: str, is_told: bool) -> None:
    for on in ([selector], ["text/7", selector]):
        found = bind(recording(typed("7"), {"do": "click", "on": on}), {"bill": "7"})
        assert any("may be there by chance" in one for one in told(found)) is is_told
        assert found.recording.steps[1].on == ((selector,),)  # type: ignore[union-attr] # a click


def test_words_with_other_marks_between_them_are_recognised() -> None:
    steps = [
        typed("Smith, John"),
        {"do": "click", "on": "aria/SMITH JOHN"},
        {"do": "click", "on": ["text/smith/john", "#b"]},
    ]
    found = bind(recording(*steps, {"do": "wait_for", "text": "Johnsmith john"}), {"owner": "Smith, John"})
    assert [one.partition(", written")[0] for one in told(found)] == [
        "step 2: 'Smith, John': the selector still holds it",
        "step 3: 'Smith, John': the selector text/smith/john names an element by it, and is dropped",
    ]


# -- dates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "same", "others"),
    [
        (
            "03/05/2024",
            ["2024-03-05", "3/5/2024", "3/5/24", "20240305", "5.3.2024", "05.03.2024", "March 5, 2024", "5 Mar 2024"],
            ["05/03/2024", "5/3/2024", "2024-05-03", "13/5/2024", "2024-03-051"],
        ),
        ("2024-03-05", ["03/05/2024", "3/5/2024", "2024/3/5"], ["05/03/2024", "5/3/2024", "2024-05-03"]),
        ("2024-03-15", ["3/15/2024", "15/03/2024", "15.03.24"], ["3/16/2024"]),
        ("15/03/2024", ["2024-03-15", "15/3/2024", "15-3-2024"], ["2024-03-05"]),
        ("05.03.2024", ["2024-03-05", "5.3.24", "3/5/2024"], ["03.05.2024", "2024-05-03"]),
        ("March 5, 2024", ["2024-03-05", "03/05/2024", "Mar 5, 2024"], ["05/03/2024"]),
    ],
)
def test_a_date_that_is_written_otherwise_elsewhere_is_told(literal: str, same: list[str], others: list[str]) -> None:
    for text in (*same, *others):
        elsewhere = {"do": "wait_for", "text": f"recorded {text}, p. 7"}
        found = bind(recording(typed(literal), elsewhere), {"d": literal})
        is_told = any(one.startswith(f"step 2: {literal!r}: text still holds it") for one in told(found))
        assert is_told == (text in same), text


def test_dates_are_told_in_addresses_properties_and_ids_and_drop_selectors() -> None:
    found = bind(
        recording(
            {"do": "goto", "url": "https://a.test/?on=3%2F5%2F2024"},
            typed("03/05/2024"),
            {"do": "wait_for", "on": "#d", "properties": {"value": "2024-03-05"}},
            {"do": "click", "on": ["text/Mar 5, 2024", "#hit"]},
            id="deeds-of-2024-03-05",
        ),
        {"d": "03/05/2024"},
    )
    assert [one.partition("'03/05/2024': ")[2][:34] for one in told(found)] == [
        "the id still holds it; give it ano",
        "url still holds it, written as no ",
        "the property value still holds it,",
        "the selector text/Mar 5, 2024 name",
    ]


def test_a_date_of_which_each_writing_has_an_input_is_not_told() -> None:
    steps = (typed("03/05/2024"), typed("2024-03-05", "#b"))
    assert told(bind(recording(*steps), {"d": "03/05/2024", "iso": "2024-03-05"})) == []


@pytest.mark.parametrize("text", ["200-14-030", "20014030", "99/99/2024", "02/30/2024", "1/2", "12345678", "May", ""])
def test_what_is_no_date_has_no_other_writings(text: str) -> None:
    assert other_date_notations(text) == ()


# -- passwords ---------------------------------------------------------------------------------------------------------


def login(*on: str) -> str:
    steps = [
        {"type": "navigate", "url": "https://a.test/"},
        {"type": "change", "selectors": ["#user"], "value": "clerk"},
        {"type": "change", "selectors": list(on), "value": "s3cret-77"},
    ]
    return json.dumps({"title": "Log in", "steps": steps})


@pytest.mark.parametrize(
    "on", [["aria/Password"], ["input[type=password]"], ["#a", "#password"], ["aria/Kennwort"], ["#user_pwd"]]
)
def test_a_recorded_password_is_told_until_it_is_bound(on: list[str]) -> None:
    imported = import_recording(login(*on), "flow.json")
    (remark,) = imported.remarks
    assert str(remark).startswith("step 3 (change): types a password, which stands in the recording as it was typed")
    assert "s3cret" not in str(remark)
    assert bind(imported.recording, {"user": "clerk"}).recording.notes == (str(remark),)
    bound = bind(imported.recording, {"secret": "s3cret-77"}).recording
    assert bound.notes == ()
    assert bound.inputs["secret"].example is None
    assert "s3cret" not in bound.model_dump_json()


@pytest.mark.parametrize("on", ["#pass-through", "aria/Passenger", "#pwdx"])
def test_other_boxes_are_no_passwords(on: str) -> None:
    assert import_recording(login(on), "flow.json").remarks == ()
