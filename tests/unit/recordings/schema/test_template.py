"""Property 48: templates are names and filters, never code, and are the same again when they are written down."""

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.recordings.schema import template as filters
from swath.recordings.schema.template import (
    FILTERS,
    FilterCall,
    LiteralText,
    Reference,
    Template,
    apply_filter,
    escape_braces,
    has_references,
    parse_call,
    parse_template,
    render_template,
)

pytestmark = pytest.mark.req("A2", "property 48")

LANGUAGE = Path(filters.__file__).parent

arguments = {str: st.text(st.characters(codec="utf-8"), max_size=10), int: st.integers(-(10**8), 10**8)}


@st.composite
def calls(draw: Any) -> FilterCall:
    name = draw(st.sampled_from(sorted(FILTERS)))
    kinds = FILTERS[name].kinds
    if name == "regex":
        return FilterCall(name, (draw(st.sampled_from(["[0-9]{3}", r"(\d+)-", '"', "}}", "a\\\\b"])),))
    if name == "pad":
        return FilterCall(name, (draw(st.integers(0, 1_000)),))
    count = draw(st.integers(FILTERS[name].least, len(kinds)))
    return FilterCall(name, tuple(draw(arguments[kind]) for kind in kinds[:count]))


references = st.builds(
    Reference,
    st.sampled_from(["input", "value", "loop", "secret"]),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.lists(calls(), max_size=3).map(tuple),
)


braces = st.text(st.sampled_from('{}"\\ a.|input'), max_size=20)
pieces = st.sampled_from(["{{ input.a }}", "{{name}}", '{{ "', '" }}', "{", "{{"])
texts = st.one_of(st.text(max_size=8), braces, pieces)


def _joined(parts: list[Any]) -> tuple[Any, ...]:
    """Texts that meet become one."""
    made: list[Any] = []
    for part in parts:
        if isinstance(part, LiteralText) and made and isinstance(made[-1], LiteralText):
            made[-1] = LiteralText(made[-1].text + part.text)
        elif part != LiteralText(""):
            made.append(part)
    return tuple(made)


@given(st.lists(st.one_of(references, texts.map(LiteralText)), max_size=5))
def test_a_template_is_the_same_after_it_was_written_down(parts: list[Any]) -> None:
    """Whatever its texts are: those that would be read as something else are written in quotes."""
    assert parse_template(str(Template(tuple(parts)))).parts == _joined(parts)


@given(texts)
def test_any_text_can_be_written_so_that_it_stays_as_it_is(text: str) -> None:
    written = escape_braces(text)
    assert not has_references(written)
    assert render_template(written, {}) == text
    assert escape_braces(render_template(written, {})) == written


@pytest.mark.parametrize("text", ["plain", "{{7*7}}", "${x}", "{{", "a {{ b", "{{}}", '"{{"', "}} {{", "{{ 'a' }}"])
def test_what_is_text_anyway_is_written_as_it_is(text: str) -> None:
    assert escape_braces(text) == text


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('Dear {{ "{{name}}" }},', "Dear {{name}},"),
        ('{{ "{{" }}name}}', "{{name}}"),
        ('{{"{{ input.a }}"}}', "{{ input.a }}"),
        (r'{{ "say \"hi\" \\ \d" }}', r'say "hi" \ \d'),
        ('{{ "{{" }}{{ input.a }}}}', "{{1}}"),
        ('{{ "" }}', ""),
        ('{{ "{{ \\"x\\" }}" }}', '{{ "x" }}'),
    ],
)
def test_a_text_in_quotes_stands_for_itself(template: str, expected: str) -> None:
    assert render_template(template, {"input": {"a": "1"}}) == expected
    assert parse_template(str(parse_template(template))) == parse_template(template)


@given(st.one_of(st.text(), braces))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        template = parse_template(text)
    except ValueError:
        return
    assert parse_template(str(template)) == template
    if template.parts == (LiteralText(text),):
        assert str(template) == text


@given(calls())
def test_a_filter_is_the_same_after_it_was_written_down(call: FilterCall) -> None:
    assert parse_call(str(call)) == call


@given(calls(), st.text(max_size=50))
def test_filters_give_text_or_say_why_not(call: FilterCall, text: str) -> None:
    try:
        said = apply_filter(call.name, text, call.arguments)
    except ValueError as error:
        said = str(error).removeprefix(f"{call.name}: the value ")
        fits = said != str(error)
    else:
        fits = type(said) is str
    assert fits, said


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("{{ input.a | slice(0, 3) }}", "200-14-030", "200"),
        ('{{ input.a | split("-", 1) }}', "200-14-030", "14"),
        ('{{ input.a | split("-", -1) }}', "200-14-030", "030"),
        ("{{ input.a | digits | slice(-3) }}", "200-14-030A", "030"),
        ('{{ input.a | regex("[0-9]{2}$") }}', "200-14-030", "30"),
        (r'{{ input.a | regex("(\d+)-(\d+)", 2) }}', "200-14-030", "14"),
        ('{{ input.a | replace("-", "}}") }}', "1-2", "1}}2"),
        ('a{{ input.a | pad(5) }}-{{input.a|pad(4, "x")|upper}}b', "12", "a00012-XX12b"),
        ('{{ input.a | trim | default("none") }}', "  ", "none"),
        ("{{ input.a }}{{ input.a | letters | lower }}", "B2", "B2b"),
        ("{{{ input.a }}}", "1", "{1}"),
    ],
)
def test_inputs_are_bound_through_filters(template: str, value: str, expected: str) -> None:
    assert render_template(template, {"input": {"a": value}}) == expected


@pytest.mark.parametrize(
    "text",
    ["{{7*7}}", "${x}", "{{ 7 }}", "{{}}", "{{ 'a'.upper() }}", "{{ f() }}", "{{ a[0] }}", "{% x %}", "{{ a b }}"],
)
def test_what_is_no_reference_stays_text(text: str) -> None:
    assert not has_references(text)
    assert render_template(text, {}) == text


@pytest.mark.parametrize(
    "text",
    [
        "{{ input.__class__.__mro__ }}",
        "{{ input.a.b }}",
        "{{ input.a | __import__ }}",
        '{{ input.a | eval("1") }}',
        "{{ input.a | slice }}",
        '{{ input.a | slice("0") }}',
        "{{ input.a | slice(0, 1, 2) }}",
        '{{ input.a | regex("(a+)+") }}',
        '{{ input.a | regex("(a)", 2) }}',
        '{{ input.a | regex("a }}',
        "{{ input.a }",
        "{{ input.a | }}",
        "{{ input.a | slice(0) + 1 }}",
        "{{ input.a | slice(__import__) }}",
    ],
)
def test_what_looks_like_a_reference_and_is_none_is_refused(text: str) -> None:
    """A brace forgotten would otherwise be typed into the site's form, a million times."""
    with pytest.raises(ValueError, match=r".") as refused:
        parse_template(text)
    assert "unpack" not in str(refused.value)


def test_names_are_looked_up_and_nothing_else() -> None:
    class Trap(dict[str, Any]):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for the attribute {name}")

    for name in ("__class__", "keys", "__init__"):
        with pytest.raises(KeyError):
            render_template("{{ input." + name + " }}", {"input": Trap()})


@pytest.mark.parametrize("text", ["trim }} {{ value | upper", "trim | upper", "", "trim }}", "no_such", "{{ trim }}"])
def test_a_transform_is_one_filter(text: str) -> None:
    with pytest.raises(ValueError, match="filter"):
        parse_call(text)


def test_no_chain_of_filters_fills_the_memory() -> None:
    text = "{{ input.a" + ' | replace("a", "aaaaaaaaaa")' * 40 + " }}"
    with pytest.raises(ValueError, match="more than 1,000,000 characters"):
        render_template(text, {"input": {"a": "a"}})


def test_a_long_text_of_braces_is_read_in_no_time() -> None:
    for text in (
        "{{" * 50_000,
        '{{"' * 30_000,
        '{{ " {{ " ' * 10_000,
        "{{ a" * 20_000,
        '{{ input.a | x("' + "\\" * 50_000,
    ):
        try:
            parse_template(text)
        except ValueError:
            continue


def test_nothing_in_the_language_runs_code() -> None:
    """Neither by name nor by attribute: templates are looked up in mappings, filters in one table."""
    forbidden = {"eval", "exec", "compile", "__import__", "getattr", "format_map", "globals"}
    for file in ("template.py",):
        tree = ast.parse((LANGUAGE / file).read_text(encoding="utf-8"))
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {function.id for function in called if isinstance(function, ast.Name)}
        assert not names & forbidden
        methods = {function.attr for function in called if isinstance(function, ast.Attribute)}
        assert not methods & (forbidden - {"compile"}), "re.compile is the one that is known"
