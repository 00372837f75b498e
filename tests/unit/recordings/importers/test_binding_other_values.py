"""A3: a bound recording does for another value what a person would have done; what it cannot follow is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swath.recordings.importers import BoundRecording, bind, suggest
from swath.recordings.schema.template import render_template
from tests.unit.recordings.importers.written import recording, typed

pytestmark = pytest.mark.req("A3")

NAME: Final = st.text("abcdefghij", min_size=3, max_size=7).map(str.title)
VALUE: Final = st.builds(
    lambda head, mark, tail: f"{head}{mark}{tail}",
    st.text("ABCdef", min_size=3, max_size=5),
    st.sampled_from(["/", " ", "&", "'", '"', "\\", "ü", "é ", "+", ",", "#", "?", "%", "="]),
    st.text("0123456789", min_size=4, max_size=6),
)


def opened(query: str) -> dict[str, Any]:
    return {"do": "goto", "url": f"https://xz.test/zz?{query}"}


def played(found: BoundRecording, values: dict[str, str]) -> list[str]:
    """What is typed and opened for an item."""
    scope = {"input": values}
    texts = (getattr(step, "text", None) or getattr(step, "url", "") for step in found.recording.steps)
    return [render_template(str(text), scope) for text in texts]


def is_told(found: BoundRecording, place: str) -> bool:
    return any(remark.place == place for remark in found.remarks)


@settings(max_examples=60)
@given(st.integers(1_000_00, 10**9), st.integers(0, 10**12))
def test_an_amount_of_any_length_loses_its_commas(recorded: int, other: int) -> None:
    def steps(cents: int) -> list[dict[str, Any]]:
        amount = cents / 100
        whole, _, rest = f"{amount:.2f}".partition(".")
        plain = f"{amount:.2f}"
        return [typed(f"{amount:,.2f}"), opened(f"a={plain}"), typed(plain), typed(whole, "#w"), typed(rest, "#c")]

    found = bind(recording(*steps(recorded)), {"it": f"{recorded / 100:,.2f}"})
    wanted = [step.get("text") or step["url"] for step in steps(other)]
    assert played(found, {"it": f"{other / 100:,.2f}"}) == wanted


@settings(max_examples=60)
@given(st.lists(NAME, min_size=4, max_size=4, unique=True), st.booleans(), st.sampled_from([str, str.upper]))
def test_names_and_the_full_name_are_inputs_of_their_own(
    names: list[str], full_too: bool, written: Callable[[str], str]
) -> None:
    def steps(first: str, last: str) -> list[dict[str, Any]]:
        full = f"{first} {last}"
        query = f"f={written(first)}&l={written(last)}"
        made = [typed(first, "#f"), typed(last, "#l"), opened(query)]
        return [*made, *([typed(full, "#full"), opened(f"full={quote_plus(full)}&{query}")] if full_too else [])]

    first, last, other_first, other_last = names
    row = {"first": first, "last": last, "full": f"{first} {last}"}
    made = recording(*steps(first, last))
    proposed = {one.name: one.literal for one in suggest(made, row)}
    assert proposed == (row if full_too else {"first": first, "last": last})
    # The full name is not that of the others together, so that each is seen to come from its own.
    found = bind(made, proposed)
    values = {"first": other_first, "last": other_last, "full": "Xyz Zyx"}
    wanted = [step.get("text") or step["url"] for step in steps(other_first, other_last)]
    if full_too:
        wanted[3] = "Xyz Zyx"
        wanted[4] = wanted[4].replace(quote_plus(f"{other_first} {other_last}"), "Xyz+Zyx")
    assert played(found, values) == wanted


def _in_json(text: str) -> str:
    return json.dumps({"a": text}, ensure_ascii=False, separators=(",", ":"))


WRITINGS: Final[dict[str, Callable[[str], str]]] = {
    "once": lambda text: quote(text, safe=""),
    "as forms do": quote_plus,
    "twice": lambda text: quote(quote(text, safe=""), safe=""),
    "twice, as forms do": lambda text: quote(quote_plus(text), safe=""),
    "in JSON": lambda text: quote(_in_json(text), safe=""),
    "in JSON, as forms do": lambda text: quote_plus(_in_json(text)),
}


@pytest.mark.parametrize("how", WRITINGS)
@settings(max_examples=40)
@given(recorded=VALUE, other=VALUE)
def test_an_address_writes_another_value_as_it_wrote_the_recorded_one(how: str, recorded: str, other: str) -> None:
    write = WRITINGS[how]
    assume(" " in recorded or " " not in other)  # without a space nobody can tell + from %20
    assume("JSON" not in how or not set('"\\') & set(other) or set('"\\') & set(recorded))
    assume("twice" not in how or quote_plus(recorded) != recorded)
    found = bind(recording(typed(recorded), opened(f"q={write(recorded)}&z=1")), {"it": recorded})
    assert played(found, {"it": other}) == [other, f"https://xz.test/zz?q={write(other)}&z=1"]
    assert not is_told(found, "step 2")


@settings(max_examples=60)
@given(recorded=VALUE.filter(lambda text: not set(text) & set("&#%+?")), other=VALUE)
def test_what_stood_in_a_query_as_it_was_cannot_get_out_of_it(recorded: str, other: str) -> None:
    found = bind(recording(typed(recorded), opened(f"q={recorded}&z=1")), {"it": recorded})
    (_, made) = played(found, {"it": other})
    assert parse_qsl(urlsplit(made).query) == [("q", other), ("z", "1")]


@settings(max_examples=40)
@given(VALUE)
def test_an_encoding_that_no_filter_writes_is_told(recorded: str) -> None:
    latin = quote(recorded, safe="", encoding="latin-1")
    found = bind(recording(typed(recorded), opened(f"q={latin}")), {"it": recorded})
    (_, made) = played(found, {"it": "other"})
    assert ("q=other" in made) != is_told(found, "step 2")


@settings(max_examples=60)
@given(NAME, NAME, st.randoms(use_true_random=False), st.booleans())
def test_other_capitals_are_dropped_or_told(one: str, two: str, random: Any, beside: bool) -> None:
    literal = f"{one} {two}"
    written = "".join(random.choice([character.upper(), character.lower()]) for character in literal)
    on = [f"text/{written}", f'a[title="{written}"]', *(["#xz"] if beside else [])]
    found = bind(recording(typed(literal), {"do": "click", "on": on}, typed(f"xz: {written}", "#t")), {"it": literal})
    scope = {"input": {"it": "Qqq Zzz"}}
    click = found.recording.steps[1].model_dump()["on"]
    held = [part for chain in click for part in chain if written in render_template(part, scope)]
    assert not held or (is_told(found, "step 2") and not beside)
    assert (written in played(found, {"it": "Qqq Zzz"})[2]) == is_told(found, "step 3")


@pytest.mark.parametrize(
    "step", [opened("b=1"), {"do": "click", "on": "text/1"}, {"do": "wait_for", "text": "1 of 3"}], ids=str
)
def test_a_short_value_that_may_be_chance_is_told(step: dict[str, Any]) -> None:
    found = bind(recording(typed("1"), step), {"it": "1"})
    assert [remark.place for remark in found.remarks] == ["step 2"]
    assert "so short a value may be there by chance" in str(found.remarks[0])


def test_a_piece_that_is_another_input_is_left_to_it_and_the_rest_is_split() -> None:
    boxes = [typed(text, f"#b{text}") for text in ("200", "14", "030")]
    found = bind(recording(*boxes, opened("b=200&m=14&i=030")), {"apn": "200-14-030", "map": "14"})
    assert played(found, {"apn": "7-8-9", "map": "x"}) == ["7", "x", "9", "https://xz.test/zz?b=7&m=14&i=9"]
