"""The reference of the action language says what the models say, and its examples are recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from pydantic_core import PydanticUndefined

from swath.fetch.sites.strict_yaml import parse_yaml
from swath.recordings.document import dump_json, parse_recording, read_recording, recording_schema
from swath.recordings.schema.models import Condition, PageStep, Rule, Step
from swath.recordings.schema.recording import InputField, Recording, Recovery
from swath.recordings.schema.selectors import MOST_ALTERNATIVES, MOST_SELECTOR_CHARS
from swath.recordings.schema.template import FILTERS
from swath.recordings.validation.check import DEEPEST_STEPS, MOST_STEPS
from swath.recordings.validation.problems import ACTIONS
from tests.docs.pages import ROOT, blocks_of, code_in, rows_of, section_of

if TYPE_CHECKING:
    from pydantic import BaseModel

pytestmark = pytest.mark.req("A1", "G1")

PAGE = (ROOT / "docs/reference/recording-language.md").read_text(encoding="utf-8")
SCHEMA = ROOT / "docs/reference/recording.schema.json"


def written(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)


def field_of(name: str, field: Any) -> str:
    """As the page writes it: in bold when it must be there, else with its default if that is something."""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return f"**`{name}`**"
    return f"`{name}`" if default in (None, (), {}, "", False) else f"`{name}: {written(default)}`"


def own_fields(model: type[BaseModel]) -> list[str]:
    common = PageStep if issubclass(model, PageStep) else Step
    named = {
        field.alias or name: field for name, field in model.model_fields.items() if name not in common.model_fields
    }
    if "columns" in named:
        named["optional"] = Rule.model_fields["optional"]  # of an extraction it is about the value
    first = sorted(named.items(), key=lambda one: not one[1].is_required())
    return [field_of(name, field) for name, field in first if name != "do"]


def action_row(do: str, model: type[BaseModel]) -> str:
    about = " ".join((model.__doc__ or "").split())
    mark = "" if issubclass(model, PageStep) else " ¹"
    return f"| `{do}`{mark} | {', '.join(own_fields(model))} | {about} |".replace("|  |", "| |")


def test_every_action_is_told_with_its_fields() -> None:
    table = "\n".join(action_row(do, model) for do, model in ACTIONS.items())
    assert table in PAGE, f"the table should be:\n{table}"


def test_every_filter_is_told() -> None:
    rows = []
    for name, known in FILTERS.items():
        kinds = ["number" if kind is int else "text" for kind in known.kinds]
        kinds = [kind if at < known.least else f"[{kind}]" for at, kind in enumerate(kinds)]
        rows.append(f"| `{name}` | {', '.join(kinds)} | {known.about} |".replace("|  |", "| |"))
    table = "\n".join(rows)
    assert table in PAGE, f"the table should be:\n{table}"


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("## The document", Recording),
        ("### inputs", InputField),
        ("### recover", Recovery),
        ("## What steps have in common", PageStep),
        ("## Conditions", Condition),
        ("## Rules of extraction", Rule),
    ],
)
def test_every_field_is_told_with_its_default(heading: str, model: type[BaseModel]) -> None:
    rows = rows_of(section_of(PAGE, heading).strip().partition("\n### ")[0])
    told = {code_in(cells[0])[0]: cells[1] for cells in rows}
    expected = {}
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        must = default is PydanticUndefined
        expected[field.alias or name] = (
            "must be there" if must else "" if default in (None, (), {}, "") else f"`{written(default)}`"
        )
    assert told == expected


def test_the_limits_are_told() -> None:
    limits = section_of(PAGE, "## Limits")
    for number in (MOST_STEPS, DEEPEST_STEPS, MOST_ALTERNATIVES, f"{MOST_SELECTOR_CHARS:,}", "1 MiB"):
        assert f" {number} " in limits


def test_the_schema_is_current() -> None:
    """`swath recording schema > docs/reference/recording.schema.json` writes it."""
    assert SCHEMA.read_text(encoding="utf-8") == json.dumps(recording_schema(), indent=2, ensure_ascii=False) + "\n"


def recordings_of_the_project() -> list[Path]:
    found = [*(ROOT / "src").rglob("*.yaml"), *(ROOT / "src").rglob("*.json"), *(ROOT / "docs").rglob("*.yaml")]
    return [path for path in found if "swath_recording" in path.read_text(encoding="utf-8") and path != SCHEMA]


def test_recordings_of_the_project_fit_the_schema() -> None:
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text(encoding="utf-8")))
    examples = [block.text for block in blocks_of(PAGE) if "swath_recording" in block.text]
    assert examples
    for text in examples:
        recording = parse_recording(text, "example.yaml")
        validator.validate(parse_yaml(text))
        validator.validate(json.loads(dump_json(recording)))
    for path in recordings_of_the_project():
        validator.validate(parse_yaml(path.read_text(encoding="utf-8")))
        read_recording(path)


@pytest.mark.parametrize(
    "content",
    [
        {"swath_recording": 1, "id": "a"},
        {"swath_recording": True, "id": "a", "steps": [{"do": "back"}]},
        {"swath_recording": 1, "id": "a", "steps": []},
        {"swath_recording": 1, "id": "a", "steps": [{"do": "clik"}]},
        {"swath_recording": 1, "id": "a", "steps": [{"do": "click", "on": []}]},
        {"swath_recording": 1, "id": "a", "steps": [{"do": "click", "on": [["a"] * 11]}]},
        {"swath_recording": 1, "id": "a", "steps": [{"do": "click", "on": "a", "more": 1}]},
        {"swath_recording": 1, "id": "a", "steps": [{"do": "try", "steps": [{"do": "back", "retries": 11}]}]},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(content: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(recording_schema(), content)
    with pytest.raises(Exception, match=r"a\.json: "):
        parse_recording(json.dumps(content), "a.json")
