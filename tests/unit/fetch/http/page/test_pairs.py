import pytest

from swath import Failed, FailureKind, Pairs, parse_html
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("K4")


def pairs(html: str) -> dict[str, str]:
    return dict(parse_html(f"<div id=box>{html}</div>").pairs("#box"))


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<table><tr><th>Owner</th><td>SMITH</td></tr></table>", {"Owner": "SMITH"}),
        ("<TABLE><TR><TD>Owner:</TD><TD>SMITH</TD></TR></TABLE>", {"Owner": "SMITH"}),
        ("<table><tr><td>Owner<td>ELM &amp; OAK<tr><td>Paid<td></table>", {"Owner": "ELM & OAK", "Paid": ""}),
        ("<table><tr><th>Land<td>$1<th>Total<td>$2</table>", {"Land": "$1", "Total": "$2"}),
        ("<table><tr><td>Land:<td>$1<td>Total:<td>$2</table>", {"Land": "$1", "Total": "$2"}),
        ("<table><tr><td><b>Owner:</b><td><a href=/x>SMITH</a></table>", {"Owner": "SMITH"}),
        ("<dl><dt>Owner:</dt><dd>\n SMITH\n</dd><dt>Acres</dt><dd>0.5</dd></dl>", {"Owner": "SMITH", "Acres": "0.5"}),
        ("<dl><dt>Owner<dd>SMITH<dd>JONES</dl>", {"Owner": "SMITH JONES"}),
        ("<dl><dt>Buyer<dt>Owner<dd>SMITH</dl>", {"Buyer": "SMITH", "Owner": "SMITH"}),
        ("<dl><div><dt>Owner</dt><dd>SMITH</dd></div></dl>", {"Owner": "SMITH"}),
        ("<ul><li><span class=label>Year</span>\n <span>&nbsp;2025</span></li></ul>", {"Year": "2025"}),
        ("<label>Owner</label><span>SMITH</span><label>Paid</label><span>$1</span>", {"Owner": "SMITH", "Paid": "$1"}),
        ("<div class='col lbl'>Owner</div><div>SMITH</div>", {"Owner": "SMITH"}),
        ("<p><b>Owner:</b> SMITH<br><strong>Paid</strong>: $1</p>", {"Owner": "SMITH", "Paid": "$1"}),
        ("<p>Owner: SMITH<br>Mail to: 12 N <i>OAK</i> ST</p>", {"Owner": "SMITH", "Mail to": "12 N OAK ST"}),
        ("<li>Owner: <b>SMITH</b></li>", {"Owner": "SMITH"}),
        ("<li>Owner: <b>SMITH</b> Status: <b>Paid</b></li>", {"Owner": "SMITH", "Status": "Paid"}),
        ("<p><b>Owner:</b><br>SMITH<br>Paid: $1</p>", {"Owner": "SMITH", "Paid": "$1"}),
        ("<div><div>Owner:</div><div>SMITH</div></div>", {"Owner": "SMITH"}),
        ("<div><span><b>Owner:</b></span></div><div>SMITH</div>", {"Owner": "SMITH"}),
        ("<p><b>Owner:</b></p>", {"Owner": ""}),
    ],
)
def test_labels_are_found_in_all_the_ways_sites_write_them(html: str, found: dict[str, str]) -> None:
    assert pairs(html) == found


@pytest.mark.parametrize(
    "html",
    [
        "<table><tr><th>Year<th>Tax<tr><td>2025<td>$1</table>",  # a grid: two cells side by side are no pair there
        "<table><thead><tr><th>Year<th>Tax</thead><tr><td>2025<td>$1</table>",
        "<table><tr><th>Land<td>$1<td>$2</table>",
        "<table><tr><td>1<td>2<td>3<td>4</table>",
        "<p>You <b>must</b> pay in time.</p>",
        "<label>Parcel number</label> <input name=parcel value=1>",
        "<label>Tax year</label> <select name=year><option>2025<option>2024</select>",
        "<script>var a = {owner: 1}</script><style>p {color: red}</style>",
        "<p>Open from 8:30 to 5; see http://site.example/hours. That is all.</p>",
        "<span class='label label-success'>Paid</span>",
    ],
)
def test_what_is_no_label_is_not_taken_for_one(html: str) -> None:
    assert pairs(html) == {}


def test_a_table_that_only_places_other_tables_is_no_pair() -> None:
    html = "<table><tr><td><table><tr><td>Owner<td>SMITH</table><td><table><tr><td>Paid<td>$1</table></table>"
    assert pairs(html) == {"Owner": "SMITH", "Paid": "$1"}


@pytest.mark.timeout(HANGING_SECONDS)
@pytest.mark.parametrize(
    "html",
    [
        "<table><tr><th>a<td>" * 5_000,
        "<div class=label>a" * 5_000,
        "<table>" + "<tr><td>a<td>b" * 10_000,
        "<dl>" + "<dt>a" * 10_000,
        "<p>" + "<b>a:</b>" * 10_000,
        "<p>" + "a: <i>b</i>" * 10_000,
        "<label>a</label>" + "<i>b</i>" * 10_000,
    ],
)
def test_a_hostile_page_takes_no_more_than_its_size(html: str) -> None:
    pairs(html)


def test_the_first_value_counts_and_structure_comes_before_prose() -> None:
    html = "<p>Status: see below</p><table><tr><th>Status<td>Paid<tr><th>Status<td>Open</table>"
    assert pairs(html) == {"Status": "Paid"}


def test_several_parts_of_a_page_are_read_together() -> None:
    page = parse_html("<dl class=a><dt>x<dd>1</dl><dl class=b><dt>y<dd>2</dl><dl><dt>z<dd>3</dl>")
    assert page.pairs("dl.a, dl.b") == {"x": "1", "y": "2"}


def test_a_label_that_is_missing_is_a_changed_layout_and_says_what_there_is() -> None:
    found = parse_html("<dl><dt>Owner of record<dd>SMITH</dl>", "http://site.example/p?key=secret").pairs("dl")
    assert found.get("Owner") is None
    with pytest.raises(Failed, match=r"http://site.example/p has no label 'Owner'; it has 'Owner of record'") as raised:
        _ = found["Owner"]
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED
    with pytest.raises(Failed, match="has no #nowhere"):
        parse_html("<p>").pairs("#nowhere")


def test_fields_are_picked_by_the_labels_of_any_layout() -> None:
    labels = {"owner": ("Owner", "Owner of record"), "paid": "Paid"}
    for owner in ("Owner", "Owner of record"):
        assert Pairs([(owner, "SMITH"), ("Paid", "$1")]).fields(labels) == {"owner": "SMITH", "paid": "$1"}
    with pytest.raises(Failed, match="no label 'Owner' or 'Owner of record', 'Paid'; it has 'Tax'") as raised:
        Pairs([("Tax", "$1")]).fields(labels)
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED
