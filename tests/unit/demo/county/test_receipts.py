from datetime import date

import pytest

from swath.demo.county.pages import receipts_since
from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")


async def test_a_table_over_several_pages_ends_with_one_that_has_no_next(client: Client) -> None:
    wanted = receipts_since(date(2025, 3, 14))
    found, path = [], "/receipts?since=2025-03-14"
    while path:
        answer = await client.get(path)
        rows = [[cell.text() for cell in row.css("td")] for row in answer.html.css("#receipts tr")[1:]]
        found += [tuple(row) for row in rows]
        link = answer.html.css_first("#next")
        path = "" if link is None else link.attributes["href"] or ""
    assert found == wanted
    assert len(found) % 10, "the last page is not full"
    assert answer.text_of("#page") == "3"


async def test_without_a_day_there_is_the_form_alone(client: Client) -> None:
    answer = await client.get("/receipts")
    assert answer.html.css_first("#since") is not None
    assert answer.html.css_first("#receipts") is None


@pytest.mark.parametrize("query", ["since=yesterday", "since=2025-03-14&page=x"])
async def test_what_is_no_day_or_page_is_refused(client: Client, query: str) -> None:
    assert (await client.get(f"/receipts?{query}")).status == 400
