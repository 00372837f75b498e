"""A3: recordings of any recorder are read by a mapping file, and what does not map is told with its places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from swath.domain.errors import BadInput
from swath.recordings.document import check_recording
from swath.recordings.importers import Imported, import_recording, read_mapping
from swath.recordings.importers.mapping import parse_mapping
from swath.recordings.schema.template import render_template
from tests.docs.pages import ROOT, blocks_of

pytestmark = pytest.mark.req("A3")

DATA: Final = Path(__file__).parent / "data"


def read(document: Any, mapping: str) -> Imported:
    return import_recording(json.dumps(document), "my.json", mapping=parse_mapping(mapping, "map.yaml"))


def steps_of(found: Imported) -> list[dict[str, Any]]:
    return [step.model_dump(mode="json", exclude_defaults=True) for step in found.recording.steps]


def test_an_invented_extension_is_read_and_what_does_not_map_is_told() -> None:
    text = (DATA / "tapedeck.json").read_text(encoding="utf-8")
    found = import_recording(text, "tapedeck.json", mapping=read_mapping(DATA / "tapedeck.yaml"))
    assert found.recording.name == "Owner of a parcel"
    assert found.recording.step_seconds == 8
    assert steps_of(found) == [
        {"do": "goto", "url": "https://county.example/search"},
        {"do": "click", "on": ["#agree", "aria/I agree"]},
        {"do": "type", "on": ["#parcel", "xpath///form//input[1]"], "text": "100-10-002"},
        {"do": "press", "key": "Enter", "navigates": True, "timeout_seconds": 15},
        {"do": "click", "on": ["#hits a", "text/100-10-002"], "navigates": True},
        {"do": "extract", "field": "owner_name", "on": "#owner"},
    ]
    assert [str(remark) for remark in found.remarks] == [
        "read by the mapping of Tapedeck",
        "the field deck.version of the document is not in the mapping",
        "the action 'doodle' is not in the mapping and is left out: 1 step (after 4)",
        "the field pressure of 'tap' is not in the mapping: 2 steps (2, 5)",
    ]
    assert found.recording.notes == tuple(map(str, found.remarks))
    check_recording(found.recording, "tapedeck", javascript=False)


@pytest.mark.req("G1")
@pytest.mark.parametrize("name", ["tapedeck.json", "tapedeck.yaml"])
def test_the_how_to_shows_these_files(name: str) -> None:
    page = (ROOT / "docs/how-to/import-another-recorder.md").read_text(encoding="utf-8")
    (shown,) = [block.text for block in blocks_of(page) if block.mark("file") == name]
    assert shown == (DATA / name).read_text(encoding="utf-8")


SELENIUM: Final = """
swath_mapping: 1
steps: tests.0.commands
title: name
action: command
actions:
  open: {do: goto, fields: {url: target}}
  click:
    do: click
    fields:
      on: {from: ["targets.*.0", target], prefixes: {"id=": "#", "css=": "", "xpath=": "xpath/", "linkText=": "text/"}}
  check: {do: check, fields: {on: {from: target, prefixes: {"id=": "#"}}, checked: {from: value, type: yes_no}}}
  pause: {do: wait_for, fields: {seconds: {from: [value, target], scale: 0.001}}}
  sendKeys: {do: press, fields: {key: {from: value, values: {"${KEY_ENTER}": Enter}, otherwise: Tab}}}
ignore: {fields: [id, comment]}
"""


def test_selectors_that_say_their_kind_lists_and_numbers_are_translated() -> None:
    commands = [
        {"id": "1", "comment": "", "command": "open", "target": "https://a.test/", "value": "", "targets": []},
        {
            "command": "click",
            "target": "id=go",
            "targets": [["id=go", "id"], ["linkText=Go", "linkText"], ["button", "x"]],
        },
        {"command": "click", "target": "xpath=//a[1]"},
        {"command": "check", "target": "id=ok", "value": "off"},
        {"command": "pause", "target": "1500"},
        {"command": "sendKeys", "value": "${KEY_ENTER}"},
        {"command": "sendKeys", "value": "${KEY_UP}"},
    ]
    found = read({"name": "Side", "tests": [{"commands": commands}], "plugins": []}, SELENIUM)
    assert steps_of(found) == [
        {"do": "goto", "url": "https://a.test/"},
        {"do": "click", "on": ["#go", "text/Go", "button"]},
        {"do": "click", "on": "xpath///a[1]"},
        {"do": "check", "on": "#ok", "checked": False},
        {"do": "wait_for", "seconds": 1.5},
        {"do": "press", "key": "Enter"},
        {"do": "press", "key": "Tab"},
    ]
    assert [str(remark) for remark in found.remarks] == ["read by the mapping of another recorder"]


def test_one_step_a_line_is_a_format_too() -> None:
    mapping = parse_mapping(
        "swath_mapping: 1\nformat: jsonl\naction: a\nactions: {go: {do: goto, fields: {url: u}}}", "m"
    )
    found = import_recording('{"a": "go", "u": "https://a.test/"}\n\n{"a": "x"}\n', "reel.jsonl", mapping=mapping)
    assert found.recording.id == "reel"
    assert "the action 'x' is not in the mapping and is left out: 1 step (after 1)" in map(str, found.remarks)


def test_a_line_about_the_recorder_itself_is_left_out_and_told() -> None:
    mapping = parse_mapping(
        "swath_mapping: 1\nformat: jsonl\naction: a\nactions: {go: {do: goto, fields: {url: u}}}", "m"
    )
    found = import_recording(
        '{"browser": "chromium"}\n{"a": "go", "u": "https://a.test/"}\n', "r.jsonl", mapping=mapping
    )
    assert [step["do"] for step in steps_of(found)] == ["goto"]
    assert "what has no action at 'a' and is left out: 1 step (before 1)" in map(str, found.remarks)


def test_addresses_without_a_host_belong_to_what_the_document_or_the_mapping_says() -> None:
    mapping = "swath_mapping: 1\nsteps: s\naction: a\nbase_url: {}\nactions: {{go: {{do: goto, fields: {{url: u}}}}}}"
    document = {"url": "https://a.test/x/", "os": {"name": "b"}, "s": [{"a": "go", "u": "/search"}]}
    found = read(document, mapping.format("url"))
    assert (found.recording.base_url, found.recording.sites) == ("https://a.test/x/", ("a.test",))
    assert "the field os.name of the document is not in the mapping" in map(str, found.remarks)
    check_recording(found.recording, "my.json", javascript=False)
    assert read(document, mapping.format('{constant: "https://b.test"}')).recording.sites == ("b.test",)
    for wrong in ("os.name", "os", "none"):
        with pytest.raises(
            BadInput, match=r"^my\.json: (base_url: .* is no address|step 1 \(go\): url: '/search' has no)"
        ):
            read(document, mapping.format(wrong))


MINIMAL: Final = "swath_mapping: 1\naction: a\nactions: {go: {do: goto, fields: {url: u}}}\n"


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"a": "go"}, "has no list of steps at '.'"),
        ([{"b": 1}], "step 1: has no action at 'a'"),
        ([7], "step 1: has no action at 'a'"),
        ([{"a": "go", "u": "https://a.test"}, {"a": "go"}], "step 2 (go): url: is missing"),
        ([{"a": "go", "u": 5}], "step 1 (go): url: must be text"),
        ([{"a": "no"}], "none of its steps is one"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_in_one_line(document: Any, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(document, MINIMAL)
    assert str(refused.value).startswith("my.json: ")
    assert complaint in str(refused.value)


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no mapping"),
        ("a: [", "line 1: "),
        ("swath_mapping: 2\naction: a\nactions: {}", "swath_mapping: must be 1"),
        (MINIMAL + "colour: red", "colour: is not known"),
        ("swath_mapping: 1\naction: a\nactions: {}", "actions: "),
        (MINIMAL.replace("goto", "fly"), "actions.go: there is no step 'fly'; there is goto"),
        (MINIMAL.replace("url: u", "url: u, colour: c"), "goto has no field 'colour'; it has name"),
        (MINIMAL.replace("fields: {url: u}", "fields: {}"), "goto needs the field 'url': say where it comes from"),
        (MINIMAL.replace("url: u", "url: {prefix: x}"), "needs either from, the fields of theirs, or constant"),
        (MINIMAL.replace("url: u", "url: {from: u, constant: v}"), "needs either from"),
        (MINIMAL.replace("url: u", "url: {from: u, scale: big}"), "actions.go.fields.url.0.scale: must be a number"),
        (MINIMAL.replace("url: u", "url: {from: u, type: date}"), "actions.go.fields.url.0.type: must be"),
        (MINIMAL.replace("url: u", "url: a..b"), "actions.go.fields.url.0.from.0: must match"),
        (MINIMAL + "ignore: {actions: [go]}", "the action 'go' is mapped, and ignored as well"),
        (MINIMAL + "each: {colour: c}", "each: no step has a field 'colour'"),
        (MINIMAL + "action: b", "line 4: the key 'action' is there twice"),
        ("swath_mapping: 1\nsteps: !!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_mapping(text, "map.yaml")
    assert str(refused.value).startswith("map.yaml: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mapping_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_mapping(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_mapping(tmp_path / "latin.yaml")


def test_a_line_that_is_wrong_is_named_once() -> None:
    mapping = parse_mapping(
        "swath_mapping: 1\nformat: jsonl\naction: a\nactions: {go: {do: goto, fields: {url: u}}}", "m"
    )
    with pytest.raises(BadInput) as refused:
        import_recording('{"a": "go", "u": "https://a.test/"}\n{bad\n', "reel.jsonl", mapping=mapping)
    assert str(refused.value).startswith("reel.jsonl: line 2: is not valid JSON")


def test_alternatives_and_braces_are_treated_as_chromes_are() -> None:
    mapping = """
swath_mapping: 1
action: a
actions:
  say: {do: type, fields: {on: {from: "on.*"}, text: t}}
"""
    found = read([{"a": "say", "on": ["aria/", "#ok"], "t": "Dear {{name}}"}], mapping)
    assert steps_of(found)[0]["on"] == "#ok"
    assert render_template(steps_of(found)[0]["text"], {}) == "Dear {{name}}"
    assert ["taken for text" in str(one) or "is dropped" in str(one) for one in found.remarks].count(True) == 2


REEL = """
swath_mapping: 1
name: Reel
steps: steps
action: kind
actions:
  open: {do: goto, fields: {url: url}}
"""


def test_scripts_passwords_and_uploads_get_the_notes_that_chromes_get() -> None:
    mapping = (
        REEL
        + """\
  run: {do: javascript, fields: {code: code}}
  fill: {do: type, fields: {on: css, text: value}}
  attach: {do: upload, fields: {on: css, file: value}}
"""
    )
    steps = [
        {"kind": "open", "url": "https://a.test/"},
        {"kind": "run", "code": "1"},
        {"kind": "fill", "css": "input[type=password]", "value": "s3cret"},
        {"kind": "attach", "css": "#file", "value": "deed.pdf"},
    ]
    found = read({"steps": steps}, mapping)
    script, password, file = map(str, found.remarks[1:])
    assert script == "step 2 (run): is a script, which runs only where the operator has set SWATH_ALLOW_JAVASCRIPT=true"
    assert password.startswith("step 3 (fill): types a password, which stands in the recording")
    assert file == "step 4 (attach): put the file deed.pdf into the folder files beside the recording"
    assert found.recording.notes[1:] == (script, password, file)


@pytest.mark.parametrize(("heading", "name"), [("1st owner", "n_1st_owner"), ("Model dump", "n_model_dump")])
def test_a_field_gets_a_name_that_a_record_can_have(heading: str, name: str) -> None:
    mapping = (
        REEL
        + """\
  read: {do: extract, fields: {on: css, field: {from: as, type: field_name}}}
"""
    )
    steps = [{"kind": "open", "url": "https://a.test/"}, {"kind": "read", "css": "#a", "as": heading}]
    found = read({"steps": steps}, mapping)
    assert steps_of(found)[1]["field"] == name
    check_recording(found.recording, "my", javascript=False)


def test_names_and_ids_with_dots_are_selectors() -> None:
    """In quotes of CSS and XPath what the recorder wrote is data, whatever it is."""
    prefixes = '{"id=": "#", "name=": "[name=\\"{}\\"]", "title=": "xpath///*[@title=\\"{}\\"]", "sel=": "#"}'
    mapping = REEL + f"  tap: {{do: click, fields: {{on: {{from: at, prefixes: {prefixes}}}}}}}\n"
    written = ["id=form.parcel:no", "id=7", "id=plain", "name=a.b", 'name=say "so"', 'title=5" pipe', "sel=form > a.b"]
    steps = [{"kind": "open", "url": "https://a.test/"}, *({"kind": "tap", "at": one} for one in written)]
    found = read({"steps": steps}, mapping)
    assert [step["on"] for step in steps_of(found)[1:]] == [
        r"#form\.parcel\:no",
        r"#\37 ",
        "#plain",
        '[name="a.b"]',
        r'[name="say \"so\""]',
        "xpath///*[@title='5\" pipe']",
        "#form > a.b",
    ]
    check_recording(found.recording, "my", javascript=False)


CASES: Final = (
    REEL
    + """\
  set:
    - {when: {type: [checkbox, radio]}, do: check, fields: {on: css, checked: {from: value, type: yes_no}}}
    - when: {enter: true}
      steps:
        - {do: type, fields: {on: css, text: value}}
        - {do: press, fields: {key: {constant: Enter}}}
    - {when: {type: text}, do: type, fields: {on: css, text: value}}
"""
)


def test_one_action_is_another_step_by_its_value_or_several() -> None:
    steps = [
        {"kind": "open", "url": "https://a.test/"},
        {"kind": "set", "type": "radio", "css": "#a", "value": "on"},
        {"kind": "set", "type": "colour", "css": "#c", "value": "red"},
        {"kind": "set", "type": "text", "css": "#b", "value": "x", "enter": True, "glow": 1},
        {"kind": "set", "type": "text", "css": "input[type=password]", "value": "y", "enter": False},
    ]
    found = read({"steps": steps}, CASES)
    assert steps_of(found)[1:] == [
        {"do": "check", "on": "#a"},
        {"do": "type", "on": "#b", "text": "x"},
        {"do": "press", "key": "Enter"},
        {"do": "type", "on": "input[type=password]", "text": "y"},
    ]
    told = list(map(str, found.remarks[1:]))
    assert told[:2] == [
        "no case of the action 'set' fits, and it is left out: 1 step (after 2)",
        "the field glow of 'set' is not in the mapping: 1 step (3 to 4)",
    ]
    assert told[2].startswith("step 5 (set): types a password")


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("{when: {a: 1}}", "actions.set: needs either do, with fields, or steps"),
        ("{do: goto, fields: {url: u}, steps: [{do: back}]}", "actions.set: needs either do, with fields, or steps"),
        ("[{do: back}, {do: fly}]", "actions.set.1: there is no step 'fly'"),
        ("{steps: [{do: goto}]}", "actions.set.steps.0: goto needs the field 'url'"),
        ("[]", "actions.set: "),
    ],
)
def test_a_wrong_case_is_refused_with_its_place(case: str, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_mapping(f"{REEL}  set: {case}\n", "map.yaml")
    assert complaint in str(refused.value)


TAP: Final = REEL + "  tap: {do: click, fields: {on: css}}\n"


def taps(*kinds: str) -> list[dict[str, str]]:
    """Each tap has a number of its own."""
    steps = [{"kind": kind, "css": f"#n{number}"} for number, kind in enumerate(kinds, 1)]
    return [{"kind": "open", "url": "https://a.test/"}, *steps]


@pytest.mark.parametrize("more", ["", "ignore: {actions: [if, else, end]}\n"])
def test_of_a_condition_neither_branch_is_done(more: str) -> None:
    kinds = ["tap", "if", "tap", "times", "tap", "end", "else", "tap", "end", "tap"]
    found = read({"steps": taps(*kinds)}, TAP + more)
    assert [step["on"] for step in steps_of(found)[1:]] == ["#n1", "#n10"]
    (told,) = [str(one) for one in found.remarks if "condition" in str(one)]
    assert told.startswith(
        "after step 2, if: a condition cannot be carried over, and all of it is left out: 8 steps (if,"
    )


@pytest.mark.parametrize(
    "kinds",
    [
        ["switch", "case", "tap", "case", "tap", "endSwitch"],
        ["try", "tap", "catch", "tap", "endTry"],
        ["if_v2", "tap", "elseif_v2", "tap", "else", "tap", "endif"],
        ["if", "gotoLabel", "end"],
        ["ifElementExists", "tap", "else_visible", "tap", "endIfElementExists"],
        ["if", "whileShown", "tap", "end", "tap", "end"],
        ["unless visible", "endDrag", "tap", "end"],
    ],
)
def test_other_words_for_branches_take_them_along_too(kinds: list[str]) -> None:
    found = read({"steps": taps(*kinds, "tap")}, TAP)
    assert [step["on"] for step in steps_of(found)[1:]] == [f"#n{len(kinds) + 1}"]
    assert any("a condition cannot be carried over" in str(one) for one in found.remarks)


@pytest.mark.parametrize("kind", ["ifElementExists", "if_visible", "IF VISIBLE"])
def test_a_guard_without_an_end_is_refused_whatever_it_is_called(kind: str) -> None:
    with pytest.raises(BadInput, match="has no end"):
        read({"steps": taps(kind, "tap")}, TAP)


def test_conditions_may_have_other_names() -> None:
    branches = "branches: {begin: [wenn], else: [sonst], end: [fertig]}\n"
    found = read({"steps": taps("wenn", "tap", "sonst", "tap", "fertig", "tap")}, TAP + branches)
    assert [step["on"] for step in steps_of(found)[1:]] == ["#n6"]


@pytest.mark.parametrize(
    ("kinds", "complaint"),
    [
        (["tap", "else", "tap", "end"], "step 3 (else): has no condition before it"),
        (["if", "tap", "else", "tap"], "step 2 (if): is a condition that cannot be carried over, and has no end"),
        (["gotoIf", "tap", "label", "tap"], "step 2 (gotoIf): jumps over steps, which cannot be carried over"),
        (["tap", "gotoLabel", "tap", "label"], "step 3 (gotoLabel): jumps over steps"),
    ],
)
def test_branches_that_cannot_be_told_are_refused(kinds: list[str], complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        read({"steps": taps(*kinds)}, TAP)
    assert complaint in str(refused.value)
