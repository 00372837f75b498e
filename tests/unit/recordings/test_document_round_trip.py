"""Property 48: what is written is read as the same recording, in YAML and in JSON, and templates likewise."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.recordings.document import dump_json, dump_yaml, parse_recording, recording_schema
from swath.recordings.schema.recording import Recording
from swath.recordings.validation.problems import ACTIONS
from tests.unit.recordings.made_recordings import MAKERS, recordings

pytestmark = pytest.mark.req("A1", "property 48")

VALIDATOR = jsonschema_rs.validator_for(recording_schema())


def test_every_action_is_made() -> None:
    assert MAKERS.keys() == ACTIONS.keys()


@settings(max_examples=150)
@given(recordings())
def test_what_is_written_is_read_as_the_same(recording: Recording) -> None:
    assert parse_recording(dump_yaml(recording), "made.yaml", javascript=True) == recording
    assert parse_recording(dump_json(recording), "made.json", javascript=True) == recording


@settings(max_examples=50)
@given(recordings())
def test_both_forms_say_the_same_and_fit_the_schema(recording: Recording) -> None:
    content = json.loads(dump_json(recording))
    VALIDATOR.validate(content)
    assert json.loads(dump_json(parse_recording(dump_yaml(recording), "a.yaml", javascript=True))) == content


def test_defaults_are_left_out_and_the_action_comes_first() -> None:
    text = """
swath_recording: 1
id: a
steps:
- {on: "#go", retries: 0, timeout_seconds: 2.0, navigates: true, do: click, target: main}
- {on: [[css/a, css/b]], do: hover}
- {on: [a, b], do: hover}
- {do: if, then: [{do: back}], condition: {not: true, text: Hello}}
"""
    assert (
        dump_yaml(parse_recording(text, "a.yaml"))
        == """\
swath_recording: 1
id: a
steps:
- do: click
  on: '#go'
  timeout_seconds: 2
  navigates: true
- do: hover
  on:
  - - css/a
    - css/b
- do: hover
  on:
  - a
  - b
- do: if
  condition:
    text: Hello
    not: true
  then:
  - do: back
"""
    )


@given(st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.booleans() | st.none(), max_size=5))
def test_no_document_breaks_the_reader(content: dict[str, Any]) -> None:
    """Whatever is in it: one line, and no other exception."""
    from swath.domain.errors import BadInput

    with pytest.raises(BadInput) as refused:
        parse_recording(json.dumps(content), "a.json")
    assert "\n" not in str(refused.value)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    from swath.domain.errors import BadInput

    for name in ("a.yaml", "a.json", "a"):
        with pytest.raises(BadInput) as refused:
            parse_recording(text, name)
        assert "\n" not in str(refused.value)
