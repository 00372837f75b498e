import pytest

from swath.demo.county import DemoCountyServer, exists
from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")

PARCEL = "200-14-030"
MISSING = next(number for number in (f"200-15-{item:03d}" for item in range(1000)) if not exists(number))


async def test_a_visit_from_the_front_door_to_the_bill(client: Client) -> None:
    assert (await client.get("/")).location == "/search"
    turned_away = await client.get("/search")
    assert (turned_away.status, turned_away.location) == (302, "/disclaimer?next=/search")
    disclaimer = await client.get(turned_away.location)
    agreed = await client.post("/disclaimer", disclaimer.fields("#disclaimer") | {"btnAgree": "I agree"})
    assert (agreed.status, agreed.location) == (302, "/search")
    assert "HttpOnly" in agreed.headers["set-cookie"]
    await client.agree()
    found = await client.search(PARCEL)
    assert (found.status, found.location) == (302, f"/parcel/{PARCEL}")
    detail = await client.get(found.location)
    assert detail.text_of("h1") == "Parcel detail"
    link = detail.html.css_first("#lnkBill")
    assert link is not None
    bill = await client.get(link.attributes["href"] or "")
    assert (bill.status, bill.headers["content-type"]) == (200, "application/pdf")


async def test_two_visitors_get_different_sessions(county: DemoCountyServer) -> None:
    async with Client(county.base_url) as one, Client(county.base_url) as other:
        await one.agree()
        await other.agree()
        assert one.cookie != other.cookie


async def test_a_session_outlives_a_restart_of_the_site(agreed: Client) -> None:
    async with DemoCountyServer() as restarted, Client(restarted.base_url) as visitor:
        visitor.cookie = agreed.cookie
        assert (await visitor.search(PARCEL)).location == f"/parcel/{PARCEL}"


@pytest.mark.parametrize("path", ["/search", f"/parcel/{PARCEL}", f"/parcel/{PARCEL}/bill.pdf", f"/parcel/{MISSING}"])
@pytest.mark.parametrize("cookie", ["", "made-up", "0" * 64, "ÿ"])
async def test_without_a_genuine_session_every_page_leads_to_the_disclaimer(
    client: Client, path: str, cookie: str
) -> None:
    client.cookie = cookie
    answer = await client.get(path)
    assert (answer.status, answer.location) == (302, f"/disclaimer?next={path}")


async def test_posting_without_a_session_leads_to_the_disclaimer(client: Client) -> None:
    answer = await client.post("/search", {"parcel": PARCEL})
    assert (answer.status, answer.location) == (302, "/disclaimer?next=/search")


async def test_the_disclaimer_leads_on_to_where_the_visitor_wanted_to_go(client: Client) -> None:
    form = (await client.get(f"/disclaimer?next=/parcel/{PARCEL}")).fields("#disclaimer")
    answer = await client.post("/disclaimer", form | {"btnAgree": "I agree"})
    assert answer.location == f"/parcel/{PARCEL}"


@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "/\\evil.example", "https://evil.example/", "evil", "", "/a\r\nSet-Cookie: x=1", "/a b"],
)
async def test_the_disclaimer_leads_to_no_other_host(client: Client, target: str) -> None:
    form = (await client.get("/disclaimer")).fields("#disclaimer")
    answer = await client.post("/disclaimer", form | {"btnAgree": "I agree", "next": target})
    assert answer.location == "/search"


@pytest.mark.parametrize("left_out", ["btnAgree", "terms_version"])
async def test_the_disclaimer_is_shown_again_unless_its_form_is_complete(client: Client, left_out: str) -> None:
    form = (await client.get("/disclaimer")).fields("#disclaimer") | {"btnAgree": "I agree"}
    del form[left_out]
    answer = await client.post("/disclaimer", form)
    assert (answer.status, answer.text_of("h1")) == (200, "Disclaimer")
    assert "set-cookie" not in answer.headers


async def test_the_search_form_looks_like_web_forms(agreed: Client) -> None:
    page = await agreed.get("/search")
    assert list(page.fields("#lookup"))[:5] == [
        *("__EVENTTARGET", "__EVENTARGUMENT", "__VIEWSTATE", "__VIEWSTATEGENERATOR", "__EVENTVALIDATION")
    ]
    form = page.html.css_first("form#lookup")
    assert form is not None
    assert (form.attributes["method"], form.attributes["action"]) == ("post", "/search")
    assert page.html.css_first("#lookup input[name=parcel]") is not None


@pytest.mark.parametrize("field", ["__VIEWSTATE", "__VIEWSTATEGENERATOR", "__EVENTVALIDATION"])
@pytest.mark.parametrize("value", ["", "dGFtcGVyZWQ=", "ÿ"])
async def test_a_tampered_view_state_is_refused(agreed: Client, field: str, value: str) -> None:
    answer = await agreed.search(PARCEL, **{field: value})
    assert answer.status == 500
    assert b"Validation of viewstate MAC failed" in answer.body


async def test_a_view_state_of_another_session_is_refused(county: DemoCountyServer, agreed: Client) -> None:
    async with Client(county.base_url) as other:
        await other.agree()
        form = (await other.get("/search")).fields("#lookup")
    answer = await agreed.post("/search", form | {"parcel": PARCEL, "ctl00$cphMain$btnSearch": "Search"})
    assert b"Validation of viewstate MAC failed" in answer.body


async def test_a_post_without_view_state_is_refused(agreed: Client) -> None:
    assert (await agreed.post("/search", {"parcel": PARCEL})).status == 500


async def test_a_year_that_was_not_offered_is_refused(agreed: Client) -> None:
    answer = await agreed.search(PARCEL, **{"ctl00$cphMain$ddlYear": "1999"})
    assert answer.status == 500
    assert b"Invalid postback" in answer.body


async def test_nothing_is_searched_unless_the_button_was_pressed(agreed: Client) -> None:
    form = (await agreed.get("/search")).fields("#lookup") | {"parcel": PARCEL}
    unpressed = await agreed.post("/search", form)
    assert (unpressed.status, unpressed.text_of("h1")) == (200, "Parcel search")
    by_script = await agreed.post("/search", form | {"__EVENTTARGET": "ctl00$cphMain$btnSearch"})
    assert by_script.location == f"/parcel/{PARCEL}"


async def test_a_number_without_a_parcel_says_that_no_records_were_found(agreed: Client) -> None:
    for answer in (await agreed.search(MISSING), await agreed.get(f"/parcel/{MISSING}")):
        assert answer.status == 200
        assert "No records found" in answer.text_of("#divError")
    assert (await agreed.get(f"/parcel/{MISSING}/bill.pdf")).status == 404


async def test_the_page_that_says_no_has_a_form_that_works(agreed: Client) -> None:
    form = (await agreed.search(MISSING)).fields("#lookup")
    answer = await agreed.post("/search", form | {"parcel": PARCEL, "ctl00$cphMain$btnSearch": "Search"})
    assert answer.location == f"/parcel/{PARCEL}"


@pytest.mark.parametrize("text", ["", "20014030", "200-14-030A", "<script>", "x" * 5000])
async def test_a_number_of_the_wrong_form_is_called_that(agreed: Client, text: str) -> None:
    answer = await agreed.search(text)
    assert answer.status == 200
    assert "123-45-678" in answer.text_of("#divFormat")
    assert answer.html.css_first("#divError") is None
    assert b"<script><" not in answer.body


async def test_blanks_around_a_number_are_forgiven(agreed: Client) -> None:
    assert (await agreed.search(f"  {PARCEL} ")).location == f"/parcel/{PARCEL}"


@pytest.mark.parametrize(
    "path", ["/nothing", "/parcel/", "/parcel/200-14-03", "/parcel/200-14-030/x", "/search/", "/_site"]
)
async def test_an_unknown_path_is_not_found(agreed: Client, path: str) -> None:
    assert (await agreed.get(path)).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"), [("POST", f"/parcel/{PARCEL}", "GET"), ("PUT", "/echo", "GET, POST")]
)
async def test_a_method_that_a_page_does_not_have_is_refused(
    agreed: Client, method: str, path: str, allowed: str
) -> None:
    answer = await agreed.ask(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)


async def test_head_answers_like_get_without_the_body(agreed: Client) -> None:
    full = await agreed.get(f"/parcel/{PARCEL}")
    head = await agreed.ask("HEAD", f"/parcel/{PARCEL}")
    assert (head.status, head.headers) == (200, full.headers)
    assert (await agreed.get("/search")).status == 200
