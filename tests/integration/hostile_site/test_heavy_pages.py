"""Pages that a parser would choke on are refused, ordinary large ones are not, and nothing is hidden from the check."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.domain.result import Page
from swath.fetch.http.page.page import WebPage
from swath.fetch.http.page.parsing import parse_cost
from swath.fetch.http.page.parsing.parse_cost import Nesting, parse_refusal
from tests.support.bounds import RUNAWAY_CPU_SECONDS

pytestmark = pytest.mark.req("Z6", "H3")

TABLE = b"<table>" + b"<tr><td>1<td>2" * 20_000


def numbered(pattern: bytes, times: int) -> bytes:
    return b"".join(pattern.replace(b"#", b"%d" % number) for number in range(times))


@pytest.mark.parametrize(
    "html",
    [
        b"<div>" * 100_000,
        b"<DIV>" * 100_000,
        b"<ul><li>" * 50_000,
        b"<dd><li>" * 50_000,
        b"<div><!--</div>-->" * 50_000,
        b"<div a='</div>'>" * 50_000,
        b"<div><!x </div>" * 50_000,
        b"<span><div></span></div>" * 50_000,
        b"<dl><object></dl>" * 50_000,
        b"<svg><style>" + b"<div>" * 50_000,
        b"<svg><desc>" + b"<path/>" * 50_000 + b"<div></div>" * 50_000,
        b"<select>" + b"<option>x</option>" * 30_000,
        b"<div " + numbered(b" a#", 100_000) + b">",
        b"<div x='<' " + numbered(b"a#='<'", 100_000) + b">",
        numbered(b"<p><font a#></p>", 2_000),
        numbered(b"<p><font a#><!--</font>--></p>", 2_000),
        b"<p>" * 1_100_000,
    ],
)
def test_what_takes_quadratic_time_or_memory_is_refused_at_once(html: bytes) -> None:
    began = time.process_time()
    page = WebPage(Page(name="html", url="http://a.example/x", status=200, body=html))
    with pytest.raises(Failed) as raised:
        page.css("h1")
    assert raised.value.failure.kind is FailureKind.TOO_LARGE
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


def test_a_page_in_another_charset_is_looked_at_as_it_is_parsed() -> None:
    body = ("<div>" * 100_000).encode("utf-16")
    page = WebPage(Page(name="html", url="http://a.example/", status=200, body=body, charset="utf-16"))
    with pytest.raises(Failed, match="too_large"):
        page.css("h1")


@pytest.mark.parametrize(
    "html",
    [
        TABLE,
        TABLE.replace(b"<td>2", b"<td><font color=red>2"),
        b"<p>x" * 40_000,
        b"<div><span>x</div>" * 20_000,
        b"<dl><dt>a<dd>b<dt>c<dd>d</dl>" * 8_000,
        (b"<div>" * 20 + b"x" + b"</div>" * 20) * 1_000,
        b"<div><i class='icon'></i> <a href='x'>y</a></div>" * 8_000,
        b"<select><option>x</option><option>y</option></select>" * 8_000,
        b"<select>" + b"<option>x</option>" * 8_000 + b"</select>",
        b"<svg viewbox='0 0 1 1'><g><path d='M0 0'/><circle r='1'/></g></svg>" * 8_000,
        b"<script>" + b"if (1 < 2) x = '<div>';\n" * 20_000 + b"</script>" + b"<p>x</p>" * 2_000,
        b"<div data='" + b'{"a": 1, "b": 2} ' * 20_000 + b"'>x</div>",
        b"<!-- " + b"<div> </p> " * 20_000 + b"-->" + b"<p>x</p>" * 2_000,
        b"<p>" + b"a b c / " * 100_000 + b"</p>",
    ],
)
def test_ordinary_large_pages_are_parsed(html: bytes) -> None:
    assert parse_refusal(html) is None


def test_an_ordinary_page_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_cost, "_is_light", None)  # calling either would raise
    monkeypatch.setattr(parse_cost, "_weighed", None)
    assert parse_refusal(b"<div><p>x</p></div>" * 250) is None


# -- the check against the parser --------------------------------------------------------------------------------------

NAMES = re.findall(
    r"\w+",
    """div span p b i font li ul dd dt dl table tr td th tbody caption select option button object svg path g desc a
    nobr foreignobject math mi h1 form template textarea style br section x title script noscript marquee applet col""",
)
TAGS = st.one_of(
    st.sampled_from(NAMES).map("<{}>".format),
    st.sampled_from(NAMES).map("<{} #>".format),
    st.sampled_from(NAMES).map("</{}>".format),
    st.sampled_from(NAMES).map("<{}/>".format),
    st.sampled_from(["x", " ", "<!--</div>-->", "<!--><p>-->", "<![CDATA[></td>]]>", "<!x </div>", "</ </b>"]),
)


class Watched(Nesting):
    """Remembers how deep it ever was, and how many elements it knew of."""

    deepest = 0
    elements = 0

    def open(self, name: bytes, rest: bytes) -> None:
        super().open(name, rest)
        Watched.deepest = max(Watched.deepest, self.depth)
        Watched.elements += 1

    def doubt(self, tags: int, formats: int) -> None:
        super().doubt(tags, formats)
        Watched.deepest = max(Watched.deepest, self.depth)
        Watched.elements += tags + self.copies


def parsed(html: bytes) -> tuple[int, int]:
    """How deep the parser's tree is, and how many nodes it has."""
    deepest = nodes = 0
    waiting = [(LexborHTMLParser(html).root, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest, nodes = max(deepest, depth), nodes + 1
        child = node.child if node is not None else None
        while child is not None:
            waiting.append((child, depth + 1))
            child = child.next
    return deepest, nodes


@settings(max_examples=800, deadline=None, derandomize=True)
@given(st.lists(TAGS, max_size=6), st.lists(TAGS, min_size=1, max_size=8))
def test_whatever_is_repeated_the_check_sees_at_least_what_the_parser_makes(first: list[str], again: list[str]) -> None:
    unit = "".join(again)
    html = ("".join(first) + "".join(unit.replace("#", f"a{number}") for number in range(40))).encode()
    Watched.deepest = Watched.elements = 0
    made: list[Watched] = []

    def nesting() -> Watched:
        made.append(Watched())
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse_cost, "Nesting", nesting)
        parse_cost._weighed(html.lower())
    deepest, nodes = parsed(html)
    # A table has parts that nobody wrote, so there are a few more than were named; what matters is that it stays so.
    assert deepest <= 4 * Watched.deepest + 25
    assert nodes <= 4 * (Watched.elements + made[0].copies) + 500
