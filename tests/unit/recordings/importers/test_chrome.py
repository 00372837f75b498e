"""A3: Chrome's recordings are read whole; what is wrong with one is said in one line that names the step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from swath.domain.errors import BadInput
from swath.recordings.document import check_recording, dump_yaml, parse_recording
from swath.recordings.importers import Imported, bind, import_recording
from swath.recordings.importers.chrome import STEP_TRANSLATORS
from swath.recordings.schema.steps import Press
from swath.recordings.schema.template import render_template

pytestmark = pytest.mark.req("A3")

SHARED: Final = Path(__file__).parents[5] / "shared/data/chrome-recorder"
PUBLIC: Final = sorted(SHARED.rglob("*.json"))
ON: Final = [["aria/Go", "aria/Now"], "#go"]
VIEWPORT: Final = {
    "width": 1280,
    "height": 720,
    "deviceScaleFactor": 2,
    "isMobile": True,
    "hasTouch": True,
    "isLandscape": True,
}


def imported(*steps: dict[str, Any], **flow: Any) -> Imported:
    return import_recording(json.dumps({"title": "A flow", "steps": list(steps), **flow}), "flow.json")


def made_of(step: dict[str, Any]) -> dict[str, Any]:
    (one,) = imported(step).recording.steps
    return one.model_dump(mode="json", exclude_defaults=True)


GOTO: Final = {"type": "navigate", "url": "https://a.test/x"}


@pytest.mark.parametrize(
    ("step", "ours"),
    [
        (
            {"type": "setViewport", **VIEWPORT},
            {
                "do": "set_viewport",
                "width": 1280,
                "height": 720,
                "scale": 2,
                "mobile": True,
                "touch": True,
                "landscape": True,
            },
        ),
        ({**GOTO, "timeout": 2_500}, {"do": "goto", "url": "https://a.test/x", "timeout_seconds": 2.5}),
        (
            {
                "type": "click",
                "selectors": ON,
                "offsetX": 3.5,
                "offsetY": 4,
                "button": "secondary",
                "deviceType": "touch",
                "duration": 80,
                "target": "https://a.test/popup",
                "frame": [0, 2],
                "assertedEvents": [{"type": "navigation", "url": "https://b.test", "title": ""}],
            },
            {
                "do": "click",
                "on": [["aria/Go", "aria/Now"], "#go"],
                "offset_x": 3.5,
                "offset_y": 4,
                "button": "secondary",
                "device": "touch",
                "hold_ms": 80,
                "target": "https://a.test/popup",
                "frame": [0, 2],
                "navigates": True,
            },
        ),
        ({"type": "click", "selectors": ["#go"]}, {"do": "click", "on": "#go"}),
        (
            {"type": "doubleClick", "selectors": [["pierce/#go"]], "offsetX": 1, "offsetY": 1},
            {"do": "double_click", "on": "pierce/#go", "offset_x": 1, "offset_y": 1},
        ),
        ({"type": "hover", "selectors": ["xpath///a"]}, {"do": "hover", "on": "xpath///a"}),
        ({"type": "change", "selectors": ["#a"], "value": ""}, {"do": "type", "on": "#a", "text": ""}),
        (
            {"type": "change", "selectors": ["#a"], "value": "C:\\fakepath\\deed.pdf"},
            {"do": "upload", "on": "#a", "file": "deed.pdf"},
        ),
        ({"type": "keyDown", "key": "Enter"}, {"do": "press", "key": "Enter", "how": "down"}),
        ({"type": "keyUp", "key": "Enter"}, {"do": "press", "key": "Enter", "how": "up"}),
        ({"type": "scroll", "y": 300}, {"do": "scroll", "x": 0, "y": 300}),
        ({"type": "scroll", "selectors": ["#a"], "x": 5}, {"do": "scroll", "on": "#a", "x": 5, "y": 0}),
        (
            {"type": "emulateNetworkConditions", "download": 50_000, "upload": 0, "latency": 562.5},
            {"do": "network_conditions", "download": 50_000, "upload": 0, "latency_ms": 562.5},
        ),
        ({"type": "close", "target": "https://a.test/p"}, {"do": "close", "target": "https://a.test/p"}),
        ({"type": "waitForElement", "selectors": ["#a"]}, {"do": "wait_for", "on": "#a"}),
        (
            {
                "type": "waitForElement",
                "selectors": ["#a"],
                "operator": "==",
                "visible": False,
                "properties": {"checked": True},
                "attributes": {"role": "row"},
            },
            {
                "do": "wait_for",
                "on": "#a",
                "state": "hidden",
                "count": 1,
                "compare": "==",
                "properties": {"checked": True},
                "attributes": {"role": "row"},
            },
        ),
        ({"type": "waitForElement", "selectors": ["#a"], "count": 3}, {"do": "wait_for", "on": "#a", "count": 3}),
        (
            {"type": "waitForExpression", "expression": "window.done"},
            {"do": "javascript", "code": "window.done", "until_true": True, "world": "page"},
        ),
        (
            {"type": "customStep", "name": "extract", "parameters": {"field": "owner", "on": "#owner"}},
            {"do": "extract", "field": "owner", "on": "#owner"},
        ),
        (
            {
                "type": "customStep",
                "name": "swath",
                "parameters": {"do": "wait_for", "network_idle": True},
                "timeout": 9,
            },
            {"do": "wait_for", "network_idle": True, "timeout_seconds": 0.009},
        ),
    ],
)
def test_each_type_of_step_becomes_one_of_ours(step: dict[str, Any], ours: dict[str, Any]) -> None:
    assert made_of(step) == ours


def test_all_types_that_chrome_has_are_known() -> None:
    """recordings.md 1.1; the thirteenth of the table's rows, customStep, is read by chrome.py itself."""
    assert set(STEP_TRANSLATORS) == {
        "setViewport",
        "navigate",
        "click",
        "doubleClick",
        "hover",
        "change",
        "keyDown",
        "keyUp",
        "scroll",
        "emulateNetworkConditions",
        "close",
        "waitForElement",
        "waitForExpression",
    }


def test_a_flow_has_its_timeout_its_sites_and_an_id_from_its_title() -> None:
    found = imported(
        GOTO,
        {"type": "click", "selectors": ["#a"], "target": "https://b.test:444/p"},
        {"type": "navigate", "url": "https://A.test/y"},
        title="Größe: Über  1!",
        timeout=8_000,
    ).recording
    assert (found.id, found.name, found.version) == ("groe-uber-1", "Größe: Über 1!", "1")
    assert found.step_seconds == 8
    assert found.sites == ("a.test", "b.test")


def test_a_title_without_a_letter_makes_an_id_all_the_same() -> None:
    assert imported(GOTO, title="登记").recording.id == "recording"


def test_fields_that_are_not_known_are_kept_in_notes_and_told() -> None:
    event = {"type": "navigation", "url": "https://a.test/", "title": "", "after": 3}
    step = {**GOTO, "glow": {"a": [1]}, "assertedEvents": [event]}
    found = imported(step, selectorAttribute="data-id", mood="calm")
    told = [str(remark) for remark in found.remarks]
    assert told == [
        'the field mood is not known, and has no effect: "calm"',
        "selectors were made of the attribute data-id where it was there",
        'step 1 (navigate): the field glow is not known, and has no effect: {"a": [1]}',
        "step 1 (navigate): the field assertedEvents.after is not known, and has no effect: 3",
    ]
    assert found.recording.notes == tuple(told)


def test_a_custom_step_of_others_is_left_out_and_told() -> None:
    found = imported(GOTO, {"type": "customStep", "name": "TimeoutStep", "parameters": {"ms": 5}})
    assert len(found.recording.steps) == 1
    assert "after step 1, customStep: the custom step 'TimeoutStep' is not one of ours" in str(found.remarks[0])
    assert '{"ms": 5}' in str(found.remarks[0])


def test_an_empty_page_that_chrome_began_on_is_left_out() -> None:
    found = imported({"type": "navigate", "url": "chrome://new-tab-page/"}, GOTO)
    assert [step.do for step in found.recording.steps] == ["goto"]
    assert "chrome://new-tab-page/" in str(found.remarks[0])


def test_scripts_and_files_come_with_what_to_do() -> None:
    found = imported(
        {"type": "waitForExpression", "expression": "1"},
        {"type": "change", "selectors": ["#a"], "value": "C:\\fakepath\\deed.pdf"},
    )
    assert "SWATH_ALLOW_JAVASCRIPT=true" in str(found.remarks[0])
    assert "deed.pdf" in str(found.remarks[1])


def test_a_key_that_led_away_may_come_up_unheard() -> None:
    down = {"type": "keyDown", "key": "Enter", "assertedEvents": [{"type": "navigation"}]}
    up = {"type": "keyUp", "key": "Enter"}
    other = {"type": "keyDown", "key": "Tab"}
    steps = imported(
        down, up, other, {"type": "keyUp", "key": "Tab"}, down, {"type": "keyUp", "key": "a"}
    ).recording.steps
    assert [isinstance(step, Press) and step.optional for step in steps] == [False, True, False, False, False, False]


@pytest.mark.parametrize(
    ("useless", "complaint"),
    [
        ("text/Line one\nLine two", "has a line break"),
        ("aria/", "is empty"),
        ("text/" + "x" * 5_000, "has more than 4,096 characters"),
        ("a:::", "is no CSS selector"),
        (["#a"] * 11, "has 11 parts"),
        ("text/{{ input.x | fly }}", "cannot be read"),
    ],
    ids=lambda one: str(one)[:20],
)
def test_an_alternative_that_nobody_can_use_goes_with_a_note_when_others_stay(useless: Any, complaint: str) -> None:
    found = imported(GOTO, {"type": "click", "selectors": [useless, "#ok"]})
    assert found.recording.steps[1].model_dump(mode="json")["on"] == "#ok"
    (told,) = map(str, found.remarks)
    assert told.startswith("step 2 (click): the selector ")
    assert complaint in told
    check_recording(found.recording, "flow", javascript=False)


def test_of_too_many_alternatives_the_first_stay() -> None:
    found = imported(GOTO, {"type": "click", "selectors": [f"#s{number}" for number in range(25)]})
    assert len(found.recording.steps[1].model_dump()["on"]) == 20
    assert "has 25 selectors for one element; the first 20 stay" in str(found.remarks[0])


def test_keys_of_other_keyboards_are_pressed_and_those_of_none_left_out() -> None:
    keys = ["é", "日", "Unidentified", "Process", "Dead", "F13"]
    found = imported(GOTO, *({"type": how, "key": key} for key in keys for how in ("keyDown", "keyUp")))
    assert [step.key for step in found.recording.steps if isinstance(step, Press)] == ["é", "é", "日", "日"]
    assert len(found.remarks) == 8
    assert str(found.remarks[0]) == (
        "after step 5, keyDown: the key Unidentified is none that can be pressed, and is left out"
    )
    check_recording(found.recording, "flow", javascript=False)


@pytest.mark.parametrize(
    "text", ["Dear {{name}}", "{{ user.name | fly }}", '{{ "x" }}', "{{loop.", "{{7*7}}", "{{value.x}} {{ a }}"]
)
def test_braces_that_were_typed_are_braces(text: str) -> None:
    found = imported(GOTO, {"type": "change", "selectors": ["#a"], "value": f"{{{{ input.who }}}} {text}"})
    check_recording(found.recording, "flow", javascript=False)
    made = found.recording.steps[1].model_dump()["text"]
    assert render_template(made, {"input": {"who": "Ann"}}) == f"Ann {text}"
    again = parse_recording(dump_yaml(found.recording), "flow.yaml")
    assert again == found.recording


def test_text_with_braces_can_be_bound() -> None:
    found = imported(GOTO, {"type": "change", "selectors": ["#a"], "value": "Dear {{name}}"})
    assert "taken for text; an input is written {{ input.name }}" in str(found.remarks[0])
    bound = bind(found.recording, {"it": "Dear {{name}}"}).recording
    assert bound.steps[1].model_dump()["text"] == "{{ input.it }}"


def test_references_that_people_wrote_into_the_file_are_declared() -> None:
    found = imported(
        {"type": "change", "selectors": ["#a"], "value": "{{ input.apn | digits }} ${x} {{7*7}}"}
    ).recording
    assert list(found.inputs) == ["apn"]
    check_recording(found, "flow", javascript=False)


CLICK: Final = {"type": "click", "selectors": ["#a"]}


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: is not valid JSON"),
        ('{"title": "a", "steps": [{"type": "nav', "it ends too early: export it again"),
        ('{"title": "a", "title": "b", "steps": []}', "the key 'title' is there twice"),
        ('{"title": "a", "timeout": NaN, "steps": []}', "has NaN, which is no number"),
        ('{"title": "a", "timeout": 1e999, "steps": []}', "has 1e999, which is no number that can be used"),
        (
            '{"title": "a", "timeout": ' + "9" * 5_000 + ', "steps": []}',
            "a number of 5,000 digits, which cannot be used",
        ),
        ('{"title": "\\ud800", "steps": []}', "half a character"),
        ('{"title": ' + "[" * 10_000 + "]" * 10_000 + "}", "is nested too deep"),
        ('{"title": "a", "steps": ' + "[" * 100 + "]" * 100 + "}", "is nested too deep"),
        ("[]", "is no recording that is known here"),
        ('{"swath_recording": 1}', "is a recording of ours already"),
        ("swath_recording: 1\nid: a\n", "is a recording of ours already"),
        ('{"steps": [{"type": "close"}]}', "flow.json: title is missing"),
        ('{"title": 7, "steps": []}', "title is not a text"),
        ('{"title": "a"}', "steps is not a list of at least one step"),
        ('{"title": "a", "steps": []}', "steps is not a list of at least one step"),
        ('{"title": "a", "steps": {}}', "steps is not a list of at least one step"),
        ('{"title": "a", "steps": [' + "7," * 100_000 + "7]}", "has 100,001 steps; at most 5,000 are read"),
        ('{"title": "a", "timeout": 0, "steps": [{"type": "close"}]}', "timeout is 0; it must be 1 to 30000"),
        ('{"title": "a", "steps": [{"type": "customStep", "name": "x"}]}', "none of its steps is one"),
    ],
)
def test_a_document_that_is_no_recording_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        import_recording(text, "flow.json")
    assert str(refused.value).startswith("flow.json: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (7, "step 2: is no step"),
        ({"selectors": ["#a"]}, "step 2: is no step: it has no type"),
        ({"type": "clik", "selectors": ["#a"]}, "step 2: there is no type of step 'clik'; did you mean 'click'?"),
        ({"type": "click"}, "step 2 (click): selectors is missing"),
        ({"type": "click", "selectors": []}, "selectors is not a list with at least one"),
        ({"type": "click", "selectors": [[]]}, "selectors has one that is neither"),
        ({"type": "click", "selectors": [7]}, "selectors has one that is neither"),
        (
            {"type": "click", "selectors": ["x" * 5_000]},
            "step 2 (click): selectors.1.1: has more than 4,096 characters",
        ),
        ({**CLICK, "offsetX": "3"}, "offsetX is not a number"),
        ({**CLICK, "offsetX": True}, "offsetX is not a number"),
        ({**CLICK, "button": "left"}, "button is 'left', not one of primary"),
        ({**CLICK, "deviceType": "foot"}, "deviceType is 'foot'"),
        ({**CLICK, "timeout": 0}, "timeout is 0; it must be 1 to 30000 milliseconds"),
        ({**CLICK, "timeout": -1}, "timeout is -1"),
        ({**CLICK, "timeout": 30_001}, "timeout is 30001"),
        ({**CLICK, "timeout": "1"}, "timeout is not a number"),
        ({**CLICK, "frame": [0.5]}, "frame is not a list of whole numbers"),
        ({**CLICK, "frame": [True]}, "frame is not a list of whole numbers"),
        ({**CLICK, "frame": [-1]}, "frame has a number below 0"),
        ({**CLICK, "frame": "0"}, "frame is not a list"),
        ({**CLICK, "target": 7}, "target is not a text"),
        ({**CLICK, "assertedEvents": [{"type": "alert"}]}, "an event of the type 'alert'; only navigation"),
        ({**CLICK, "assertedEvents": {}}, "assertedEvents is not a list"),
        ({**CLICK, "assertedEvents": ["navigation"]}, "only navigation can be asserted"),
        ({"type": "change", "selectors": ["#a"]}, "value is missing"),
        ({"type": "change", "selectors": ["#a"], "value": 5}, "value is not a text"),
        ({"type": "change", "selectors": ["#a"], "value": "{{ input.a | eval }}"}, "step 2 (change): value: "),
        ({"type": "navigate"}, "url is missing"),
        ({"type": "navigate", "url": ""}, "step 2 (navigate): url: is empty"),
        ({"type": "navigate", "url": "ftp://a.test/"}, "step 2 (navigate): url: 'ftp://a.test/' is no http"),
        ({"type": "click", "selectors": ["a\nb"]}, "step 2 (click): selectors: 'a\\nb' has a line break"),
        ({"type": "hover", "selectors": ["xpath///a[", "a >> b"]}, "step 2 (hover): selectors.1: 'xpath///a['"),
        ({"type": "keyUp", "key": "Entr"}, "step 2 (keyUp): key: there is no key 'Entr'; did you mean 'Enter'?"),
        ({**CLICK, "duration": -1}, "step 2 (click): duration: must be at least 0"),
        ({"type": "keyDown"}, "key is missing"),
        ({"type": "setViewport", **VIEWPORT, "isMobile": 1}, "isMobile is neither true nor false"),
        ({"type": "setViewport", "width": 1, "height": 1}, "deviceScaleFactor is missing"),
        ({"type": "setViewport", **VIEWPORT, "width": 1}, "step 2 (setViewport): width: must be at least 100"),
        ({"type": "waitForElement", "selectors": ["#a"], "operator": ">"}, "operator is '>', not one of >=, ==, <="),
        ({"type": "waitForElement", "selectors": ["#a"], "count": 1.5}, "count is 1.5"),
        ({"type": "waitForExpression"}, "expression is missing"),
        ({"type": "customStep", "parameters": {}}, "name is missing"),
        (
            {"type": "customStep", "name": "extract", "parameters": {"field": "A b", "on": "#a"}},
            "step 2 (customStep): field: must match",
        ),
        ({"type": "customStep", "name": "swath", "parameters": {"do": "fly"}}, "step 2 (customStep): "),
    ],
)
def test_a_step_that_is_wrong_is_named(step: Any, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        imported(GOTO, step)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_step_is_counted_as_in_the_file_whatever_was_left_out_before_it() -> None:
    others = [{"type": "customStep", "name": "theirs"}, {"type": "keyDown", "key": "Unidentified"}]
    with pytest.raises(BadInput, match=r"^flow\.json: step 4 \(keyDown\): key: there is no key 'Entr'"):
        imported(GOTO, *others, {"type": "keyDown", "key": "Entr"})


@pytest.mark.skipif(not PUBLIC, reason="the public recordings are not there")
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_every_public_recording_is_read_step_by_step(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("<test-port>", "8443")
    if path.stem == "puppeteer-replay__replay-fail":
        with pytest.raises(BadInput, match="title is missing"):
            import_recording(text, path.name)
        return
    recording = import_recording(text, path.name).recording
    theirs = json.loads(text)["steps"]
    assert len(recording.steps) == len(theirs)
    for ours, step in zip(recording.steps, theirs, strict=True):
        asserted = bool(step.get("assertedEvents")) and ours.do != "goto"
        assert getattr(ours, "navigates", False) == asserted
        if "selectors" in step:
            assert [list(chain) for chain in getattr(ours, "on")] == step["selectors"]  # noqa: B009 not all have it
    check_recording(recording, path.name, javascript=False)
    assert parse_recording(dump_yaml(recording), "flow.yaml") == recording


LATER: Final = {"type": "click", "selectors": ["#later"], "glow": 1}


@pytest.mark.parametrize(
    "unknown",
    [
        {"type": "waitForText", "selectors": ["#a"], "text": "Ready"},
        {"type": "assertTitle", "value": "Parcels"},
        {"type": "screenshot", "name": "x.png"},
        {"type": "setGeolocation", "latitude": 1.5},
        {"type": "background", "colour": "red"},
        {"type": "waitForSelect", "selectors": ["#a"]},
    ],
)
def test_a_step_of_an_unknown_type_is_left_out_where_nothing_depends_on_it(unknown: dict[str, Any]) -> None:
    found = imported(GOTO, unknown, LATER)
    assert [step.do for step in found.recording.steps] == ["goto", "click"]
    first, second = map(str, found.remarks)
    assert first.startswith(
        f"after step 1, {unknown['type']}: the type of step '{unknown['type']}' is not known, and it"
    )
    assert second.startswith("step 2 (click): the field glow"), "notes count steps as the table does"
    assert found.recording.notes == (first, second)


@pytest.mark.parametrize(
    ("unknown", "complaint"),
    [
        ({"type": "clik"}, "did you mean 'click'?"),
        ({"type": "Navigate"}, "did you mean 'navigate'?"),
        ({"type": "tap", "selectors": ["#a"]}, "it has selectors, so what comes after may depend on it"),
        ({"type": "setField", "value": "x"}, "it has value, so"),
        ({"type": "leave", "assertedEvents": [{"type": "navigation"}]}, "it has assertedEvents, so"),
        ({"type": "waitAndGo", "assertedEvents": [{"type": "navigation"}]}, "it has assertedEvents, so"),
        ({"type": "typeText", "text": "x"}, "it has text, so"),
        ({"type": "attach", "file": "deed.pdf"}, "it has file, so"),
        ({"type": "moveTo", "source": "#a", "destination": "#b"}, "it has source, so"),
        ({"type": "submit"}, "by its name it acts on the page"),
        ({"type": "goBack"}, "by its name it acts on the page"),
        ({"type": "reloadPage"}, "by its name it acts on the page"),
        ({"type": "switchToFrame", "name": "f"}, "by its name it acts on the page"),
        ({"type": "accept_cookies"}, "by its name it acts on the page"),
        ({"type": "pressEnter"}, "by its name it acts on the page"),
        ({"type": "if"}, "there is no type of step 'if'"),
        ({"type": "customStep", "name": "else", "parameters": {}}, "the custom step 'else' parts branches"),
        ({"type": "customStep", "name": "end-if", "parameters": {}}, "the custom step 'end-if' parts branches"),
    ],
)
def test_a_step_of_an_unknown_type_that_others_depend_on_is_refused(unknown: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        imported(GOTO, unknown, LATER)
    assert "step 2" in str(refused.value)
    assert complaint in str(refused.value)
