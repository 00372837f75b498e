import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath import Failed, FailureKind, parse_html

pytestmark = pytest.mark.req("K4")

HISTORY = """
<table id="gvTaxYears"><thead><tr><th>Year</th><th>Tax</th><th>Paid</th></tr></thead>
<tbody><tr><td>2025</td><td>$10.00</td><td>$5.00</td></tr><tr><td>2024</td><td>$9.00</td></tr></tbody>
<tfoot><tr><td>Total</td><td>$19.00</td><td>$5.00</td></tr></tfoot></table>
"""


def test_rows_come_by_the_names_of_their_columns_and_missing_cells_are_empty() -> None:
    assert parse_html(HISTORY).table("#gvTaxYears") == [
        {"Year": "2025", "Tax": "$10.00", "Paid": "$5.00"},
        {"Year": "2024", "Tax": "$9.00", "Paid": ""},
        {"Year": "Total", "Tax": "$19.00", "Paid": "$5.00"},
    ]


@pytest.mark.parametrize(
    ("inner", "rows"),
    [
        # Headings: th without thead, plain cells, upper case, none but th
        ("<tr><th>A<th>B<tr><td>1<td>2", [{"A": "1", "B": "2"}]),
        ("<TR><TD>A</TD><TD>B</TD></TR><TR><TD>1</TD><TD>2</TD></TR>", [{"A": "1", "B": "2"}]),
        ("<tr><th>A<th>B", []),
        ("", []),
        # A heading of its own for each row is a cell like the others
        ("<tr><th>Part<th>B<tr><th>Land<td>2", [{"Part": "Land", "B": "2"}]),
        # Columns without a name, with the same name, and more than the heading has
        ("<tr><th>A<th><tr><td>1<td>2", [{"A": "1", "column 2": "2"}]),
        ("<tr><th>A<th>A<th>A 2<tr><td>1<td>2<td>3", [{"A": "1", "A 2": "2", "A 2 2": "3"}]),
        ("<tr><th>A<tr><td>1<td>2", [{"A": "1", "column 2": "2"}]),
        # Spans
        ("<tr><th>A<th colspan=2>B<tr><td>1<td>2<td>3", [{"A": "1", "B": "2", "B 2": "3"}]),
        (
            "<tr><th rowspan=2>A<th colspan=2>B<tr><th>x<th>y<tr><td>1<td>2<td>3",
            [{"A": "1", "B x": "2", "B y": "3"}],
        ),
        (
            "<tr><th>A<th>B<tr><td rowspan=2>1<td>2<tr><td>3<tr><td>4<td>5",
            [{"A": "1", "B": "2"}, {"A": "1", "B": "3"}, {"A": "4", "B": "5"}],
        ),
        ("<tr><th>A<th>B<tr><td>1<td rowspan=2>2<tr><td>3", [{"A": "1", "B": "2"}, {"A": "3", "B": "2"}]),
        ("<tr><th>A<th>B<tr><td rowspan=0>1<td>2<tr><td>3", [{"A": "1", "B": "2"}, {"A": "1", "B": "3"}]),
        ("<tr><th>A<th>B<th>C<tr><td colspan=2>1<td>3", [{"A": "1", "B": "1", "C": "3"}]),
        ("<tr><th>A<th>B<tr><td colspan=two rowspan=-1>1<td>2", [{"A": "1", "B": "2"}]),
        # No cell hangs from one group of rows into the next
        (
            "<tbody><tr><th>A<th>B<tr><td rowspan=9>1<td>2</tbody><tbody><tr><td>3<td>4</tbody>",
            [{"A": "1", "B": "2"}, {"A": "3", "B": "4"}],
        ),
        # Titles, remarks, page numbers and empty rows are no rows
        ("<tr><td colspan=2>Payments<tr><th>A<th>B<tr><td>1<td>2", [{"A": "1", "B": "2"}]),
        ("<tr><th>A<th>B<tr><td colspan=2>No activity records", []),
        ("<tr><th>A<th>B<tr><td>1<td>2<tr><td>&nbsp;<td><tr>", [{"A": "1", "B": "2"}]),
        (
            "<tr><th>A<th>B<tr><td>1<td>2<tr><td colspan=2><table><tr><td>1<td>2<td>3</table>",
            [{"A": "1", "B": "2"}],
        ),
        ("<tr><th>A<tr><td>1<tr><td>2", [{"A": "1"}, {"A": "2"}]),
        # Tables inside tables, and a caption
        ("<caption>Taxes</caption><tr><th>A<th>B<tr><td>1<td><table><tr><td>x<td>y</table>", [{"A": "1", "B": "x y"}]),
    ],
)
def test_odd_tables_are_read_as_a_person_reads_them(inner: str, rows: list[dict[str, str]]) -> None:
    assert parse_html(f"<table>{inner}</table>").table() == rows


def test_columns_may_be_named_by_the_author() -> None:
    plain = parse_html("<table><tr><td>2025<td>$1<tr><td>2024<td>$2</table>")
    assert plain.table(header=["year", "tax"]) == [{"year": "2025", "tax": "$1"}, {"year": "2024", "tax": "$2"}]
    assert parse_html(HISTORY).table(header=["year"])[0] == {"year": "2025", "column 2": "$10.00", "column 3": "$5.00"}


def test_the_selector_may_name_what_holds_the_table() -> None:
    page = parse_html(f"<div id=box><h2>History</h2>{HISTORY}</div><p id=none></p>")
    assert len(page.table("#box")) == 3
    for missing in ("#none", "#nowhere"):
        with pytest.raises(Failed, match=missing) as raised:
            page.table(missing)
        assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_a_small_page_cannot_ask_for_a_huge_table() -> None:
    page = parse_html("<table><tr><th>A<th>B" + "<tr><td colspan=1000 rowspan=60000>1<td>2" * 2000 + "</table>")
    with pytest.raises(Failed, match="500,000 cells") as raised:
        page.table()
    assert raised.value.failure.kind == FailureKind.TOO_LARGE


WORD = st.text("abc123 $.,", min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.lists(st.tuples(WORD, WORD, WORD), max_size=5))
def test_whatever_stands_in_the_cells_comes_back(rows: list[tuple[str, str, str]]) -> None:
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    page = parse_html(f"<table><thead><tr><th>x</th><th>y</th><th>z</th></tr></thead><tbody>{body}</tbody></table>")
    expected = [dict(zip("xyz", (" ".join(cell.split()) for cell in row), strict=True)) for row in rows]
    assert page.table() == expected
