import re

import pytest

from swath.demo.county import exists, parcel
from swath.demo.county.parcel_pages import document
from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")

NUMBERS = [number for number in (f"{book:03d}-07-{book:03d}" for book in range(200)) if exists(number)]


def index_of(pdf: bytes) -> list[bytes]:
    """Return the lines of the cross-reference table, found as a reader finds it: from the end of the file."""
    found = re.search(rb"startxref\n(\d+)\n%%EOF\n\Z", pdf)
    assert found is not None
    table = pdf[int(found[1]) :]
    assert table.startswith(b"xref\n0 8\n")
    return [table[9 + 20 * line : 29 + 20 * line] for line in range(8)]


@pytest.mark.parametrize("number", NUMBERS[:50])
def test_every_offset_of_the_index_points_at_its_object(number: str) -> None:
    pdf = document(parcel(number))
    assert pdf.startswith(b"%PDF-1.4\n")
    free, *objects = index_of(pdf)
    assert free == b"0000000000 65535 f \n"
    for object_number, line in enumerate(objects, start=1):
        assert re.fullmatch(rb"\d{10} 00000 n \n", line)
        assert pdf[int(line[:10]) :].startswith(b"%d 0 obj\n" % object_number)


def test_the_length_of_the_drawing_is_right() -> None:
    pdf = document(parcel(NUMBERS[0]))
    found = re.search(rb"/Length (\d+) >>\nstream\n(.*?)\nendstream", pdf, re.DOTALL)
    assert found is not None
    assert int(found[1]) == len(found[2])


def test_the_trailer_names_the_catalogue_and_the_size() -> None:
    trailer = document(parcel(NUMBERS[0])).rpartition(b"trailer\n")[2]
    assert b"/Size 8 /Root 1 0 R /Info 7 0 R" in trailer


@pytest.mark.parametrize("number", NUMBERS)
def test_the_bill_says_what_the_parcel_owes(number: str) -> None:
    truth = parcel(number)
    texts = [
        re.sub(rb"\\(.)", rb"\1", text).decode("cp1252")
        for text in re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", document(truth))
    ]
    for expected in (truth.parcel_id, truth.owner, f"${truth.total_due:,}", f"${truth.balance_due:,}", truth.status):
        assert expected in texts


def test_the_bill_is_the_same_every_time_and_different_for_every_parcel() -> None:
    assert document(parcel(NUMBERS[0])) == document(parcel(NUMBERS[0]))
    assert len({document(parcel(number)) for number in NUMBERS}) == len(NUMBERS)


async def test_the_bill_is_served_under_its_name(agreed: Client) -> None:
    answer = await agreed.get(f"/parcel/{NUMBERS[0]}/bill.pdf")
    assert answer.body == document(parcel(NUMBERS[0]))
    assert answer.headers["content-disposition"] == f'inline; filename="bill-{NUMBERS[0]}.pdf"'
