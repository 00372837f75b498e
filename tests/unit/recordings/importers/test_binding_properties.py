"""A3: after binding, what was recorded is nowhere left, and with the recorded value everything is as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.recordings.document import check_recording, dump_json, dump_yaml, parse_recording
from swath.recordings.importers import bind
from swath.recordings.importers.binding.forms import RecordedValue
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.template import render_template

pytestmark = pytest.mark.req("A3")

# What stands around a value shares no letter and no digit with it, so that nothing is left by chance.
AROUND = st.text("qxzQXZ ,:;!", max_size=6)
WORD = st.text("ABCdef", min_size=1, max_size=4)
DIGITS = st.text("0123456789", min_size=1, max_size=4)
MARK = st.sampled_from(["-", " ", ".", "/", "_", "#", "'", "&", "é", "|", '"', "\\", "{", "}"])


@st.composite
def literals(draw: st.DrawFn) -> str:
    """Numbers of parcels and cases, with marks between their pieces: telling enough to be found anywhere."""
    pieces = draw(st.lists(st.one_of(DIGITS, WORD), min_size=2, max_size=4))
    made = pieces[0]
    for piece in pieces[1:]:
        made += draw(MARK) + piece
    return made if RecordedValue("x", made).reach.name == "ANYWHERE" else f"{made}-20014{draw(DIGITS)}"


def variants(literal: str) -> list[str]:
    """How people and sites write one value: as it is, without marks, only its digits if they are many enough to be
    telling, in capitals, in small letters."""
    digits = re.sub(r"[^0-9]", "", literal)
    bare = "".join(character for character in literal if character.isalnum())
    found = [literal, bare, *([digits] if len(digits) >= 6 else [])]
    return list(dict.fromkeys([*found, *map(str.upper, found), *map(str.lower, found)]))


@st.composite
def holding(draw: st.DrawFn, literal: str) -> str:
    """A text that holds the value in one of its forms."""
    form = draw(st.sampled_from(variants(literal)))
    return draw(AROUND) + form + draw(AROUND)


@st.composite
def addresses(draw: st.DrawFn, literal: str) -> str:
    form = draw(st.sampled_from(variants(literal)))
    written = draw(st.sampled_from([quote(form, safe=""), quote_plus(form)]))
    pieces = "".join(f"&q{number}={piece}" for number, piece in enumerate(re.findall(r"[A-Za-z0-9]+", literal)))
    split = draw(st.sampled_from(["", pieces if literal.isascii() and re.fullmatch(r"[\w -./]+", literal) else ""]))
    return f"https://xz.test/{draw(st.sampled_from(['', f'{written}/']))}zz?q={written}{split}"


@st.composite
def selectors(draw: st.DrawFn, literal: str, *, clean: bool) -> list[str]:
    held = draw(holding(literal))
    quotable = not set(held) & set("\"'\\{}")
    data = [f"text/{held}", f'aria/{held}[role="link"]', f"aria/{literal}"]
    if quotable:
        data += [f'a[href="{held}"]', f"xpath///a[@id='{held}']", f'pierce/[title="{held}"]']
    chosen = draw(st.lists(st.sampled_from(data), min_size=0 if clean else 1, max_size=3))
    return [*chosen, *(["#qq > a:nth-child(1)"] if clean or draw(st.booleans()) else [])]


@st.composite
def steps(draw: st.DrawFn, literal: str) -> list[dict[str, Any]]:
    """Steps of all kinds that can hold a value."""
    on = selectors(literal, clean=False)
    text = holding(literal)
    address = addresses(literal)
    one = st.one_of(
        st.builds(lambda url: {"do": "goto", "url": url}, address),
        st.builds(lambda on, text: {"do": "type", "on": on, "text": text}, on, text),
        st.just({"do": "type", "on": "#qq", "text": literal}),
        st.builds(lambda on, text: {"do": "select", "on": on, "option": text}, on, text),
        st.builds(lambda on, target: {"do": "click", "on": on, "target": target}, on, address),
        st.builds(lambda text: {"do": "wait_for", "text": f"q{text}"}, text),
        st.builds(lambda url: {"do": "wait_for", "url": url}, address),
        st.builds(
            lambda text: {"do": "wait_for", "on": "#q", "attributes": {"z": text}, "properties": {"q": text}}, text
        ),
        st.builds(lambda text: {"do": "javascript", "code": f"q == '{text}'", "until_true": True}, text),
        st.builds(
            lambda on: {"do": "extract", "field": "zz", "on": on}, selectors(literal, clean=True).filter(_readable)
        ),
        st.builds(
            lambda on, text: {
                "do": "if",
                "condition": {"on": on, "text": f"q{text}"},
                "then": [{"do": "hover", "on": on}],
            },
            on,
            text,
        ),
    )
    return [{"do": "type", "on": "#zz", "text": literal}, *draw(st.lists(one, min_size=1, max_size=8))]


def _readable(on: list[str]) -> bool:
    return not any(one.startswith("aria/") for one in on)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[str, Recording]:
    literal = draw(literals())
    made = [{**step, "name": f"n{at}"} for at, step in enumerate(draw(steps(literal)))]
    document = {
        "swath_recording": 1,
        "id": "qz",
        "name": draw(holding(literal)),
        "notes": [draw(holding(literal))],
        "steps": made,
        "not_found": [{"text": f"q{draw(holding(literal))}"}],
    }
    return literal, Recording.model_validate_json(json.dumps(document))


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings_in(part)


@settings(max_examples=200)
@given(recordings())
def test_what_was_recorded_is_nowhere_left(made: tuple[str, Recording]) -> None:
    literal, recording = made
    document = json.loads(dump_json(bind(recording, {"it": literal}).recording))
    assert document["inputs"].pop("it") == {"example": literal}
    for text in strings_in(document):
        literal_parts = re.sub(r"\{\{ input\.it.*?\}\}(?!\")", "", text)  # arguments of filters are marks
        for form in variants(literal):
            for written in (form, quote(form, safe=""), quote_plus(form)):
                assert written not in literal_parts, text


@settings(max_examples=200)
@given(recordings())
def test_with_the_recorded_value_all_is_as_it_was(made: tuple[str, Recording]) -> None:
    literal, recording = made
    bound = bind(recording, {"it": literal}).recording
    scope = {"input": {"it": literal}}
    before = {placed.step.name: placed.step for placed in walk(recording) if placed.step.name}
    after = {placed.step.name: placed.step for placed in walk(bound) if placed.step.name}
    for name, step in after.items():
        old = before[name]
        for field in ("url", "text", "option", "target"):
            if (text := getattr(step, field, None)) is not None:
                assert render_template(text, scope) == getattr(old, field)
        for chain in getattr(step, "on", None) or ():
            assert tuple(render_template(part, scope) for part in chain) in getattr(old, "on", ())
        if (attributes := getattr(step, "attributes", None)) is not None:
            assert {key: render_template(text, scope) for key, text in attributes.items()} == getattr(
                old, "attributes", None
            )
    left_out = [before[name].do for name in before.keys() - after.keys()]
    assert set(left_out) <= {"javascript", "type"}


@settings(max_examples=50)
@given(recordings())
def test_a_bound_recording_is_one_that_can_be_written_and_read(made: tuple[str, Recording]) -> None:
    literal, recording = made
    bound = bind(recording, {"it": literal}).recording
    assert parse_recording(dump_yaml(bound), "flow.yaml", javascript=True) == bound
    check_recording(bound, "flow", javascript=True)
