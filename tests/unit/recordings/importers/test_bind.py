"""A3: `--bind` puts an input wherever the recorded value stands, in any form, and drops selectors that hold it."""

from __future__ import annotations

import typing
from typing import Any, Final

import pytest
from pydantic import BaseModel

from swath.domain.errors import BadInput
from swath.recordings.importers import BoundRecording, bind
from swath.recordings.importers.binding.replacement import PLAIN, TREATED
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.template import render_template
from tests.unit.recordings.importers.written import recording, typed

pytestmark = pytest.mark.req("A3")

APN: Final = "200-14-030"


def bound(*steps: dict[str, Any], to: str = APN, **fields: Any) -> BoundRecording:
    return bind(recording(*steps, **fields), {"apn": to})


def steps_of(found: BoundRecording) -> list[dict[str, Any]]:
    return [step.model_dump(mode="json", by_alias=True, exclude_defaults=True) for step in found.recording.steps]


@pytest.mark.parametrize(
    ("text", "to", "made"),
    [
        ("200-14-030", APN, "{{ input.apn }}"),
        ("20014030", APN, "{{ input.apn | digits }}"),
        ("200.14.030", APN, '{{ input.apn | replace("-", ".") }}'),
        ("parcel 200-14-030, please", APN, "parcel {{ input.apn }}, please"),
        ("AB-12/34x", "ab-12/34x", "AB-12/34x"),
        ("AB-12-34X", "ab-12-34x", "{{ input.apn | upper }}"),
        ("ab1234x", "AB-12-34x", '{{ input.apn | replace("-", "") | lower }}'),
        ("Smith", "Smith", "{{ input.apn }}"),
        ("SMITH", "Smith", "{{ input.apn | upper }}"),
        ("the Smithsons", "Smith", "the Smithsons"),
        ("Mr Smith.", "Smith", "Mr {{ input.apn }}."),
        (
            "200-14-030",
            "20014030",
            "{{ input.apn | slice(0, 3) }}-{{ input.apn | slice(3, 5) }}-{{ input.apn | slice(5) }}",
        ),
        ("200-14", APN, "200-14"),
        ("14", "14", "{{ input.apn }}"),
        ("2014", "14", "2014"),
        ("x {{ input.other }} 200-14-030", APN, "x {{ input.other }} {{ input.apn }}"),
        ("{200-14-030}", APN, "{{{ input.apn }}}"),
        ("{{200-14-030}}", APN, "{{{{ input.apn }}}}"),
    ],
)
def test_a_value_is_found_in_its_forms_and_not_by_chance(text: str, to: str, made: str) -> None:
    found = bound(typed(to, "#first"), typed(text), to=to)
    assert steps_of(found)[1]["text"] == made
    scope = {"input": {"apn": to, "other": "o"}}
    assert render_template(made, scope) == render_template(text, scope)


def test_the_input_is_declared_with_what_was_recorded() -> None:
    found = bind(
        recording(typed("b 12345"), typed("Reno"), inputs={"old": {}}), {"number": "12345", "city": "Reno"}
    ).recording
    assert {name: field.example for name, field in found.inputs.items()} == {
        "old": None,
        "number": "12345",
        "city": "Reno",
    }


def test_a_value_that_lies_in_another_is_bound_beside_it() -> None:
    found = bind(recording(typed("200-14-030"), typed("200-14", "#b")), {"book": "200-14", "apn": APN})
    assert [step["text"] for step in steps_of(found)] == ["{{ input.apn }}", "{{ input.book }}"]


@pytest.mark.parametrize(
    ("texts", "to", "made"),
    [
        (
            ["200", "14", "030"],
            APN,
            ['{{ input.apn | split("-", 0) }}', '{{ input.apn | split("-", 1) }}', '{{ input.apn | split("-", 2) }}'],
        ),
        (
            ["200-14", "030"],
            APN,
            ['{{ input.apn | split("-", 0) }}-{{ input.apn | split("-", 1) }}', '{{ input.apn | split("-", 2) }}'],
        ),
        (["2001", "4030"], APN, ["{{ input.apn | digits | slice(0, 4) }}", "{{ input.apn | digits | slice(4) }}"]),
        (["200", "14030"], "20014030", ["{{ input.apn | slice(0, 3) }}", "{{ input.apn | slice(3) }}"]),
        (
            ["AB", "1234"],
            "ab-1234",
            ['{{ input.apn | split("-", 0) | upper }}', '{{ input.apn | split("-", 1) }}'],
        ),
    ],
)
def test_a_value_over_several_boxes_is_split(texts: list[str], to: str, made: list[str]) -> None:
    boxes = [typed(text, f"#b{number}") for number, text in enumerate(texts)]
    between = {"do": "press", "key": "Tab"}
    steps = [step for box in boxes for step in (box, between)]
    found = bound(typed("other", "#x"), *steps, to=to)
    assert [step["text"] for step in steps_of(found) if step["do"] == "type"] == ["other", *made]
    assert [render_template(text, {"input": {"apn": to}}) for text in made] == texts
    assert {place.how for place in found.places} == {"split"}


def test_pieces_of_a_short_value_are_no_split() -> None:
    with pytest.raises(BadInput):
        bound(typed("1"), typed("2", "#b"), to="12")


@pytest.mark.parametrize(
    ("address", "to", "made"),
    [
        ("https://a.test/p/200-14-030", APN, "https://a.test/p/{{ input.apn | url }}"),
        ("https://a.test/?q=12%20Main%20St", "12 Main St", "https://a.test/?q={{ input.apn | url }}"),
        ("https://a.test/?q=12+Main+St&z=1", "12 Main St", "https://a.test/?q={{ input.apn | url_plus }}&z=1"),
        ("https://a.test/?q=a%2fb-1234", "a/b-1234", "https://a.test/?q={{ input.apn | url }}"),
        ("https://a.test/#/20014030?x", APN, "https://a.test/#/{{ input.apn | digits | url }}?x"),
        (
            "https://a.test/?b=200&m=14&i=030&q=200-14-030",
            APN,
            (
                'https://a.test/?b={{ input.apn | split("-", 0) | url }}&m={{ input.apn | split("-", 1) | url }}'
                '&i={{ input.apn | split("-", 2) | url }}&q={{ input.apn | url }}'
            ),
        ),
        ("https://a.test/200/14/030", APN, None),
        ("https://200-14-030.test/p", APN, "https://200-14-030.test/p"),
        ("https://a.test/?apn=14&page=14", "14", "https://a.test/?apn={{ input.apn | url }}&page=14"),
        ("https://a.test/?q=%20Reno", "Reno", "https://a.test/?q=%20{{ input.apn | url }}"),
    ],
)
@pytest.mark.parametrize("where", ["target", "wait"])
def test_addresses_hold_it_encoded_and_in_pieces_but_never_as_host(
    address: str, to: str, made: str | None, where: str
) -> None:
    step = {"do": "click", "on": "#a", "target": address} if where == "target" else {"do": "wait_for", "url": address}
    found = steps_of(bound(typed(to), step, to=to))[1]["target" if where == "target" else "url"]
    if made is not None:
        assert found == made
    rendered = render_template(found, {"input": {"apn": to}})
    assert rendered.lower() == address.lower()


def test_a_host_that_holds_it_is_told_of() -> None:
    found = bound(typed(APN), {"do": "goto", "url": f"https://{APN}.test/{APN}"})
    assert steps_of(found)[1]["url"] == f"https://{APN}.test/{{{{ input.apn | url }}}}"
    assert "holds it in its host" in str(found.remarks[0])


def test_a_word_in_the_path_of_the_first_page_is_chance_when_it_is_typed_later() -> None:
    first, later = "https://a.test/test/form?q=test", "https://a.test/test/done"
    found = bound({"do": "goto", "url": first}, typed("test"), {"do": "goto", "url": later}, to="test")
    assert [step.get("url") for step in steps_of(found)] == [
        "https://a.test/test/form?q={{ input.apn | url }}",
        None,
        "https://a.test/{{ input.apn | url }}/done",
    ]
    assert "taken for chance" in str(found.remarks[0])


def test_selectors_that_hold_data_go_where_others_stay() -> None:
    on = [
        f"aria/{APN}",
        f'aria/Parcel {APN}[role="link"]',
        ["#hits", f"text/{APN}"],
        "#hits a",
        f'a[href="/p/{APN}"]',
        "xpath///a[@id='20014030']",
        "#p20014030",
        f"text/{APN}",
    ]
    found = bound(typed(APN), {"do": "click", "on": on})
    assert steps_of(found)[1]["on"] == [
        "#hits a",
        'a[href="/p/{{ input.apn }}"]',
        "xpath///a[@id='{{ input.apn | digits }}']",
    ]
    assert len(found.remarks) == 5
    assert all("names an element by it, and is dropped" in str(remark) for remark in found.remarks)


@pytest.mark.parametrize(
    ("selector", "made"),
    [
        (f"text/{APN}", "text/{{ input.apn }}"),
        (f'aria/{APN}[role="link"]', 'aria/{{ input.apn }}[role="link"]'),
        ("#\\32 00-14-030 > a", '[id="{{ input.apn }}"] > a'),
        ("pierce/#p20014030", 'pierce/[id="p{{ input.apn | digits }}"]'),
        (".row-200-14-030", '[class~="row-{{ input.apn }}"]'),
        ('a[href="/x.200-14-030"]', 'a[href="/x.{{ input.apn }}"]'),
    ],
)
def test_the_only_selector_holds_the_input(selector: str, made: str) -> None:
    assert steps_of(bound(typed(APN), {"do": "click", "on": selector}))[1]["on"] == made


def test_what_css_has_escaped_is_rewritten_even_if_the_rest_is_in_quotes() -> None:
    both = f'a[href="/{APN}"] #\\32 00-14-030'
    assert steps_of(bound(typed(APN), {"do": "click", "on": both}))[1]["on"] == (
        'a[href="/{{ input.apn }}"] [id="{{ input.apn }}"]'
    )
    assert steps_of(bound(typed(APN), {"do": "click", "on": [both, "#b"]}))[1]["on"] == "#b"
    inside = 'a[href="/\\32 00-14-030"]'
    assert steps_of(bound(typed(APN), {"do": "click", "on": [inside, "#b"]}))[1]["on"] == "#b"
    with pytest.raises(BadInput, match="step 2: all that names its element holds"):
        bound(typed(APN), {"do": "click", "on": inside})


def test_rules_of_extraction_cannot_hold_an_input() -> None:
    extract = {"do": "extract", "field": "owner"}
    both = bound(typed(APN), {**extract, "on": [f'xpath///tr[@id="{APN}"]', "#owner"]})
    assert steps_of(both)[1]["on"] == "#owner"
    with pytest.raises(BadInput, match="step 2: all that names its element holds '200-14-030'"):
        bound(typed(APN), {**extract, "on": f'xpath///tr[@id="{APN}"]'})


def test_short_values_are_bound_only_whole() -> None:
    steps = (
        typed("14"),
        typed("1440"),
        {"do": "click", "on": ["text/14", "td:nth-child(14)"]},
        {"do": "click", "on": "text/14"},
        {"do": "goto", "url": "https://a.test/14?page=14"},
        {"do": "wait_for", "text": "14 of 140"},
    )
    found = bound(*steps, to="14")
    assert [place.step for place in found.places] == ["1"]
    assert steps_of(found)[2]["on"] == "td:nth-child(14)"
    assert steps_of(found)[3:] == [
        {"do": "click", "on": "text/14"},
        {"do": "goto", "url": "https://a.test/14?page=14"},
        {"do": "wait_for", "text": "14 of 140"},
    ]


def test_what_was_typed_on_the_way_is_left_out() -> None:
    shift = {"do": "press", "key": "Shift", "how": "down"}
    found = bound(typed("2"), shift, typed("200-14"), shift, typed(APN))
    assert [step["do"] for step in steps_of(found)] == ["press", "press", "type"]
    assert [str(remark) for remark in found.remarks] == [
        "before step 1: '200-14-030': types only the beginning of it, and is left out",
        "after step 1: '200-14-030': types only the beginning of it, and is left out",
    ]


def test_what_was_typed_before_a_page_could_heed_it_stays() -> None:
    enter = {"do": "press", "key": "Enter"}
    found = bound(typed("200-1"), enter, typed(APN))
    assert [step.get("text") for step in steps_of(found)] == ["{{ input.apn | slice(0, 5) }}", None, "{{ input.apn }}"]


def test_nested_steps_marks_and_words_for_people_hold_it_too() -> None:
    found = bound(
        typed(APN),
        {
            "do": "if",
            "condition": {"text": f"No {APN}", "equals": APN, "value": "{{ input.x }}"},
            "then": [{"do": "stop", "message": APN}],
            "else": [{"do": "for_each", "values": [APN, "b"], "steps": [{"do": "hover", "on": f"text/{APN}"}]}],
        },
        id=f"find-{APN}",
        name=f"Find {APN}",
        notes=[f"typed {APN}"],
        not_found=[{"text": f"{APN} is not there"}],
        recover=[{"when": {"text": APN}, "steps": [{"do": "click", "on": f"text/{APN}"}]}],
        inputs={"x": {}},
    )
    text = found.recording.model_dump_json(exclude={"inputs"})
    assert APN not in text
    assert found.recording.id == "find-apn"
    assert {place.step for place in found.places} == {
        "1",
        "2",
        "2.then.1",
        "2.else.1",
        "2.else.1.steps.1",
        "not_found.1",
        "recover.1",
        "recover.1.steps.1",
    }
    assert {placed.place for placed in walk(found.recording)} >= {"2.else.1.steps.1", "recover.1.steps.1"}


def test_where_no_input_can_stand_is_told_or_refused() -> None:
    found = bound(
        typed(APN),
        {"do": "javascript", "code": f"x == '{APN}'", "until_true": True},
        {"do": "wait_for", "on": "#a", "properties": {"value": APN, "b": 1}},
        base_url=f"https://a.test/{APN}",
    )
    assert [step["do"] for step in steps_of(found)] == ["type", "wait_for"]
    assert steps_of(found)[1]["properties"] == {"b": 1}
    assert len(found.remarks) == 3
    with pytest.raises(BadInput, match="step 2: its script holds '200-14-030'"):
        bound(typed(APN), {"do": "javascript", "code": f"x = '{APN}'"})


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("literals", "complaint"),
    [
        ({"apn": "999-99-999"}, "apn=999-99-999: the recording does not hold it, nor a form of it"),
        ({"a": APN, "b": APN}, "a and b are both bound to '200-14-030', and nothing tells which is meant where"),
        ({"Parcel": APN}, "'Parcel' cannot name an input"),
        ({"apn": ""}, "apn: give it what was typed"),
        ({"apn": "x" * 1_001}, "apn: give it what was typed"),
        ({"apn": "only-a-1234-selector"}, "nothing would depend on it: step 2: "),
    ],
)
def test_a_value_that_cannot_be_bound_is_refused_in_one_line(literals: dict[str, str], complaint: str) -> None:
    made = recording(typed(APN), {"do": "click", "on": ["text/only-a-1234-selector", "#a"]})
    with pytest.raises(BadInput) as refused:
        bind(made, literals)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def models_in(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for inner in typing.get_args(annotation) for model in models_in(inner)}


def all_models(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            for inner in models_in(field.annotation):
                all_models(inner, seen)
    return seen


def holds_text(annotation: Any) -> bool:
    return annotation in (str, Any) or any(holds_text(inner) for inner in typing.get_args(annotation))


def test_no_field_of_the_language_that_can_hold_text_is_forgotten() -> None:
    """A new field is either replaced in, or known to be one in which no input can stand."""
    models = all_models(Recording, set()) - {type(recording(typed("a")).inputs), *models_in(dict[str, Any])}
    fields = {
        name
        for model in models
        if model.__name__ != "InputField"
        for name, field in model.model_fields.items()
        if holds_text(field.annotation) or models_in(field.annotation)
    }
    assert not TREATED & PLAIN
    assert fields <= TREATED | PLAIN, f"say how these are treated: {fields - TREATED - PLAIN}"
