import pytest

from swath import extract_text, parse_html, select_one
from swath.fetch.http.page.parsing.text_and_links import lines_in, text_in

pytestmark = pytest.mark.req("K4")


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("<p id=x>one</p>", ["one"]),
        ("<p id=x></p>", []),
        ("<p id=x> \n&nbsp; </p>", []),
        ("<div id=x>ELM &amp; OAK&nbsp;LLC</div>", ["ELM & OAK LLC"]),
        ("<div id=x>O<b>'Br</b>ien</div>", ["O'Brien"]),
        ("<div id=x>SMITH JANE<br>12 N OAK ST<BR/>MESA AZ</div>", ["SMITH JANE", "12 N OAK ST", "MESA AZ"]),
        ("<div id=x><div>a</div><div>b<p>c</p></div>d</div>", ["a", "b", "c", "d"]),
        ("<TABLE ID=x><TR><TD>a<TD>b</TABLE>", ["a", "b"]),
        ("<div id=x>a<script>var b = 1</script><style>p{}</style><noscript>no</noscript>c</div>", ["ac"]),
        ("<div id=x>a<!-- b -->c</div>", ["ac"]),
        ("<ul id=x><li>a<li>b</ul>", ["a", "b"]),
    ],
)
def test_text_breaks_where_the_page_does_and_nowhere_else(html: str, lines: list[str]) -> None:
    page = parse_html(f"<body>before{html}after</body>")
    assert page.lines_of("#x") == lines
    assert page.text_of("#x", "") == " ".join(lines)


def test_a_page_may_nest_deeper_than_python_can_call() -> None:
    page = parse_html("<div id=x>" + "<span>" * 20_000 + "deep")
    assert page.text_of("#x") == "deep"


def test_a_text_node_is_read_like_an_element() -> None:
    node = select_one(parse_html("<p> a  b </p>"), "p").first_child
    assert node is not None
    assert (text_in(node), lines_in(node)) == ("a b", ["a b"])


def test_text_of_a_page_is_that_of_its_body() -> None:
    page = parse_html("<title>Treasurer</title><p>one</p><p>two</p>")
    assert extract_text(page) == "one two"
    assert extract_text(page, "title") == "Treasurer"
    assert extract_text(page, "#none") is None
    assert extract_text(page, "#none", default="-") == "-"
    assert extract_text(select_one(page, "body"), "p") == "one"
    assert page.lines_of("#none") == []
