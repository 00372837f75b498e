"""Recordings that Hypothesis makes: every action, with every field that can be written, nested and in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from swath.recordings.schema.recording import Recording
from swath.recordings.schema.template import parse_template

__all__ = ["MAKERS", "recordings"]

Fields = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

characters = st.characters(codec="utf-8", exclude_characters="\0")
shown = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"))


def _parses(text: str) -> bool:
    try:
        return not parse_template(text).references
    except ValueError:
        return False


plain = st.text(characters, max_size=30).filter(_parses)
words = st.text(shown, min_size=1, max_size=20).filter(lambda text: bool(text.strip()) and _parses(text))
texts = st.one_of(
    plain,
    st.builds(
        "{}{{{{ input.parcel{} }}}}{}".format, plain, st.sampled_from(["", " | digits", ' | split("-", 0)']), plain
    ).filter(lambda text: len(parse_template(text).references) == 1),
    st.sampled_from(
        ["no", "on", "22:00", "1e3", "~", "0x10", "- a", "# b", "{{7*7}}", "${x}", "a: b", " a ", "é\n\tb"]
    ),
)
css = st.sampled_from(["#go", "a[href='x']", "td:nth-child(2)", "p.a > b", '[data-id="{{ input.parcel }}"]'])
stored = st.sampled_from(["#go", "text/Owner", "xpath///td[2]", "pierce/#a"])
part = st.one_of(css, words.map("aria/{}".format), words.map("text/{}".format), st.just("xpath///a[@id='x']"))
seconds = st.floats(min_value=0.001, max_value=600, allow_nan=False)
pixels = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
names = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=5,
)


def chains(of: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.one_of(of, st.lists(st.one_of(of, st.lists(of, min_size=1, max_size=3)), min_size=1, max_size=4))


def some(draw: Draw, **fields: st.SearchStrategy[Any]) -> Fields:
    """Some of the fields."""
    return {name: draw(strategy) for name, strategy in fields.items() if draw(st.booleans())}


def _acting(draw: Draw) -> Fields:
    return some(
        draw,
        name=plain,
        timeout_seconds=seconds,
        target=st.sampled_from(["main", "newest", "https://b.example/{{ input.parcel }}"]),
        frame=st.lists(st.integers(0, 9), max_size=3),
        navigates=st.booleans(),
        retries=st.integers(0, 10),
        optional=st.booleans(),
    )


def _condition(draw: Draw) -> Fields:
    made = {"text": draw(words)} if draw(st.booleans()) else {"on": draw(chains(part))}
    return {**made, **some(draw, state=st.sampled_from(["visible", "hidden"]), **{"not": st.booleans()})}


def _pressed(draw: Draw, at: str) -> Fields:
    more = some(
        draw,
        button=st.sampled_from(["primary", "secondary"]),
        device=st.just("touch"),
        offset_x=pixels,
        offset_y=pixels,
        hold_ms=st.floats(0, 60_000),
    )
    return {"on": draw(chains(part)), **more, **_acting(draw)}


def _wait_for(draw: Draw, at: str) -> Fields:
    one = draw(
        st.one_of(
            st.fixed_dictionaries(
                {"on": chains(part)}, optional={"count": st.integers(0, 9), "compare": st.just("==")}
            ),
            st.fixed_dictionaries({"on": chains(part), "properties": st.dictionaries(plain, anything, max_size=3)}),
            st.fixed_dictionaries({"text": words}),
            st.fixed_dictionaries({"url": st.just("*/done?x={{ input.parcel }}")}),
            st.just({"network_idle": True}),
            st.fixed_dictionaries({"seconds": seconds}),
        )
    )
    return {**one, **_acting(draw)}


def _rule(draw: Draw) -> Fields:
    made = draw(
        st.sampled_from(
            [
                {},
                {"type": "money"},
                {"kind": "attribute", "attribute": "href"},
                {"kind": "list", "fields": {"a": {"on": "td", "transform": ["trim", 'regex("[0-9]{2}")']}}},
                {"kind": "table", "columns": {"year": "Tax Year"}},
                {"kind": "count"},
            ]
        )
    )
    return {"on": draw(chains(stored)), **made, **some(draw, optional=st.booleans())}


def _branch(draw: Draw, at: str, deep: int) -> list[Fields]:
    count = draw(st.integers(1, 2))
    return [_step(draw, f"{at}x{number}", deep + 1) for number in range(count)]


MAKERS: dict[str, Callable[[Draw, str], Fields]] = {
    "goto": lambda draw, _: {
        "url": draw(st.sampled_from(["https://a.example/x?q={{ input.parcel }}", "/b"])),
        **some(draw, retries=st.integers(0, 3), optional=st.booleans()),
    },
    "back": lambda draw, _: _acting(draw),
    "forward": lambda draw, _: _acting(draw),
    "reload": lambda draw, _: _acting(draw),
    "click": _pressed,
    "double_click": _pressed,
    "hover": lambda draw, _: {"on": draw(chains(part)), **_acting(draw)},
    "type": lambda draw, _: {"on": draw(chains(part)), "text": draw(texts), **_acting(draw)},
    "press": lambda draw, _: {
        "key": draw(st.sampled_from(["Enter", "a", "+", " "])),
        **some(draw, how=st.sampled_from(["down", "up"])),
    },
    "select": lambda draw, _: {"on": draw(chains(part)), "option": draw(texts)},
    "check": lambda draw, _: {"on": draw(chains(part)), **some(draw, checked=st.booleans())},
    "upload": lambda draw, _: {"on": draw(chains(part)), "file": "deed-{{ input.parcel }}.pdf"},
    "scroll": lambda draw, _: some(draw, on=chains(part), x=pixels, y=pixels),
    "wait_for": _wait_for,
    "extract": lambda draw, at: {"field": f"f{at}", **_rule(draw), **some(draw, page=st.just(f"p{at}"))},
    "screenshot": lambda draw, at: {"file": f"s{at}-{{{{ loop.index }}}}.png" if "L" in at else f"s{at}.png"},
    "save_page": lambda _, at: {"page": f"saved{at}"},
    "download": lambda draw, at: {
        "file": f"d{at}-{{{{ loop.index }}}}.pdf" if "L" in at else f"d{at}.pdf",
        **draw(st.one_of(st.fixed_dictionaries({"on": chains(part)}), st.just({"url": "https://a.example/f"}))),
        **some(draw, content_type=st.just("application/pdf")),
    },
    "set_viewport": lambda draw, _: {"width": 800, "height": 600, **some(draw, scale=st.floats(0.5, 3))},
    "network_conditions": lambda draw, _: {"download": draw(st.floats(0, 1e9)), "upload": 0, "latency_ms": 5},
    "close": lambda draw, _: _acting(draw),
    "javascript": lambda draw, _: {
        "code": draw(st.text(characters, min_size=1)),
        **some(draw, until_true=st.booleans()),
    },
    "stop": lambda draw, _: some(draw, outcome=st.sampled_from(["not_found", "failed"]), message=texts),
    "if": lambda draw, at: {
        "condition": _condition(draw),
        "then": _branch(draw, f"{at}t", at.count("x")),
        **({"else": _branch(draw, f"{at}e", at.count("x"))} if draw(st.booleans()) else {}),
    },
    "for_each": lambda draw, at: {
        **draw(
            st.one_of(st.fixed_dictionaries({"on": chains(part)}), st.just({"values": ["a", "{{ input.parcel }}"]}))
        ),
        "steps": [{"do": "extract", "field": "in_loop", "on": "a"}, *_branch(draw, f"{at}L", at.count("x"))],
        "collect": f"c{at.lower()}",
        **some(draw, most=st.integers(1, 1_000)),
    },
    "repeat_until": lambda draw, at: {
        "condition": _condition(draw),
        "steps": [{"do": "extract", "field": "in_loop", "on": "a"}, *_branch(draw, f"{at}L", at.count("x"))],
        "collect": f"c{at.lower()}",
    },
    "try": lambda draw, at: {"steps": _branch(draw, f"{at}s", at.count("x")), "else": _branch(draw, f"{at}o", 1)},
}
_NESTING = ("if", "for_each", "repeat_until", "try")


def _step(draw: Draw, at: str, deep: int) -> Fields:
    actions = [action for action in MAKERS if deep < 3 or action not in _NESTING]
    do = draw(st.sampled_from(actions))
    made = MAKERS[do](draw, at)
    if do == "extract":
        made["field"] = made["field"].lower()
    return {"do": do, **made}


@st.composite
def recordings(draw: Draw) -> Recording:
    """Whole ones, which the checks let pass when JavaScript is allowed."""
    count = draw(st.integers(1, 4))
    inputs = {"parcel": some(draw, pattern=st.just("[0-9]{3}-.*"), example=plain, required=st.booleans())}
    content = {
        "swath_recording": 1,
        "id": "made",
        "base_url": "https://a.example/",
        "inputs": inputs,
        "steps": [_step(draw, f"{number}", 0) for number in range(count)],
        **some(
            draw,
            name=plain,
            version=st.just("1.0"),
            description=plain,
            sites=st.just(["a.example"]),
            step_seconds=seconds,
            dialogs=st.just("dismiss"),
            keep_session=st.booleans(),
            block=st.just(["font"]),
            notes=st.lists(plain, max_size=3),
            not_found=st.just([{"text": "No {{ input.parcel }}"}]),
            recover=st.just([{"when": {"on": "#survey"}, "steps": [{"do": "click", "on": "aria/Close"}]}]),
        ),
    }
    return Recording.model_validate_json(_json(content), by_alias=True, by_name=False)


def _json(content: Fields) -> str:
    import json

    return json.dumps(content)
