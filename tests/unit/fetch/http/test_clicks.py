"""Links, buttons, ASP.NET post-backs and disclaimers, on pages written as county sites write theirs."""

from urllib.parse import parse_qsl

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.domain.result import Page
from swath.fetch.http.page.form import PostBack, read_post_back
from swath.fetch.http.page.page import WebPage
from tests.unit.fetch.http.sites import TableTransport, answer, session

pytestmark = pytest.mark.req("K4")

URL = "http://county.example/Parcel/Summary.aspx"
DETAIL = "http://county.example/Parcel/Details.aspx"

WEB_FORMS = """
<html><body><form method="get" action="/find" id="site-search"><input name="q"><input type="submit" value="Find"></form>
<form method="post" action="./Summary.aspx" id="aspnetForm">
<div class="aspNetHidden">
<input type="hidden" name="__EVENTTARGET" id="__EVENTTARGET" value="" />
<input type="hidden" name="__EVENTARGUMENT" id="__EVENTARGUMENT" value="" />
<input type="hidden" name="__VIEWSTATE" id="__VIEWSTATE" value="/wEPDwUK+w==" />
<input type="hidden" name="__VIEWSTATEGENERATOR" value="CA0B0334" /></div>
<input name="ctl00$cphMain$txtParcelNumBook" type="text" id="txtParcelNumBook" />
<select name="ctl00$cphMain$ddlYear" id="ddlYear"
 onchange="javascript:setTimeout(&#39;__doPostBack(\\&#39;ctl00$cphMain$ddlYear\\&#39;,\\&#39;\\&#39;)&#39;, 0)">
<option selected="selected" value="2025">2025</option><option value="2024">2024</option></select>
<table id="gvTaxYears"><tr><td>
<a id="lnkDetail" href="javascript:__doPostBack(&#39;ctl00$gv&#39;,&#39;Select$0&#39;)">x</a>
</td></tr><tr class="pager"><td>
<a id="page2" href="javascript:__doPostBack('ctl00%24gv','Page%242')">2</a></td></tr></table>
<a id="lnkBill" href="javascript:WebForm_DoPostBackWithOptions(
new WebForm_PostBackOptions(&quot;ctl00$lnkBill&quot;, &quot;&quot;, true, &quot;&quot;,
&quot;Details.aspx&quot;, false, true))">Bill</a>
<input type="submit" name="ctl00$btnGo" value="Go" id="btnGo"
 onclick="javascript:WebForm_DoPostBackWithOptions(new WebForm_PostBackOptions(&quot;ctl00$btnGo&quot;,
 &quot;&quot;, true,
 &quot;v&quot;, &quot;Details.aspx&quot;, false, false))" />
<input type="submit" name="ctl00$btnClear" value="Clear" id="btnClear" />
<input type="button" name="ctl00$btnJs" value="Js" id="btnJs" onclick="javascript:__doPostBack('ctl00$btnJs','')" />
<div id="divGo" onclick="__doPostBack(&quot;ctl00$divGo&quot;, &quot;it\\'s&quot;)">Go</div>
<a id="plain" href="Details.aspx">Details</a><a id="script" href="javascript:window.print()">Print</a>
</form></body></html>
"""

HIDDEN = {"__VIEWSTATE": "/wEPDwUK+w==", "__VIEWSTATEGENERATOR": "CA0B0334"}
FIELDS = HIDDEN | {"ctl00$cphMain$txtParcelNumBook": "", "ctl00$cphMain$ddlYear": "2025"}


async def opened(html: str = WEB_FORMS) -> tuple[WebPage, TableTransport]:
    web, transport = session({f"GET {URL}": answer(URL, html.encode())})
    page = await web.get(URL)
    transport.answers |= {url: answer(url, b"<h1>there</h1>") for url in (URL, DETAIL)}
    return page, transport


def sent(transport: TableTransport) -> tuple[str, str, dict[str, str]]:
    request = transport.requests[-1]
    fields = parse_qsl(request.body.decode(), keep_blank_values=True)
    assert len(dict(fields)) == len(fields)
    return request.method, request.url, dict(fields)


def event(target: str, argument: str = "") -> dict[str, str]:
    return FIELDS | {"__EVENTTARGET": target, "__EVENTARGUMENT": argument}


async def test_a_post_back_carries_its_event_and_every_field() -> None:
    page, transport = await opened()
    there = await page.post_back("ctl00$gv", "Page$3", name="third")
    assert sent(transport) == ("POST", URL, event("ctl00$gv", "Page$3"))
    assert transport.header("referer") == URL
    assert (there.name, there.text_of("h1")) == ("third", "there")


@pytest.mark.parametrize(
    ("selector", "url", "fields"),
    [
        ("#lnkDetail", URL, event("ctl00$gv", "Select$0")),
        ("#page2", URL, event("ctl00$gv", "Page$2")),
        ("#lnkBill", DETAIL, event("ctl00$lnkBill")),
        ("#btnGo", DETAIL, event("") | {"ctl00$btnGo": "Go"}),
        ("#btnClear", URL, event("") | {"ctl00$btnClear": "Clear"}),
        ("#btnJs", URL, event("ctl00$btnJs")),
        ("#divGo", URL, event("ctl00$divGo", "it's")),
        ("#ddlYear", URL, event("ctl00$cphMain$ddlYear")),
    ],
)
async def test_whatever_posts_back_can_be_clicked(selector: str, url: str, fields: dict[str, str]) -> None:
    page, transport = await opened()
    await page.click(selector)
    assert sent(transport) == ("POST", url, fields)


async def test_filled_fields_go_along_with_an_event() -> None:
    page, transport = await opened()
    form = page.form("#aspnetForm").fill(txtParcelNumBook="200", ddlYear="2024")
    await form.post_back("ctl00$cphMain$ddlYear")
    chosen = {"ctl00$cphMain$txtParcelNumBook": "200", "ctl00$cphMain$ddlYear": "2024"}
    assert sent(transport) == ("POST", URL, event("ctl00$cphMain$ddlYear") | chosen)


async def test_a_page_without_the_fields_of_an_event_gets_them() -> None:
    page, transport = await opened("<form method=post><input name=a value=1></form>")
    await page.post_back("x")
    assert sent(transport)[2] == {"__EVENTTARGET": "x", "__EVENTARGUMENT": "", "a": "1"}


async def test_a_link_is_followed_with_its_page_as_referer() -> None:
    page, transport = await opened()
    assert (await page.click("#plain", name="detail")).name == "detail"
    assert sent(transport) == ("GET", DETAIL, {})
    assert transport.header("referer") == URL


async def test_a_button_belongs_to_its_form_even_between_the_rows_of_a_table() -> None:
    page, transport = await opened(
        "<form></form><table><form method=post action=Details.aspx><tr><td>"
        "<input type=submit id=go name=go></form></table>"
    )
    await page.click("#go")
    assert sent(transport) == ("POST", DETAIL, {"go": "Submit"})


@pytest.mark.parametrize("selector", ["#script", "#txtParcelNumBook", "#gvTaxYears", "#nowhere"])
async def test_what_only_a_browser_can_do_is_a_changed_layout(selector: str) -> None:
    page, transport = await opened()
    with pytest.raises(Failed, match=selector) as raised:
        await page.click(selector)
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED
    assert len(transport.requests) == 1


async def test_a_page_without_forms_cannot_post_back() -> None:
    page, _ = await opened("<p>Parcel")
    with pytest.raises(Failed, match="no form to post back") as raised:
        await page.post_back("x")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


@pytest.mark.parametrize("selector", ["#plain", "#lnkDetail", "#btnClear"])
async def test_nothing_on_a_stored_page_can_be_clicked(selector: str) -> None:
    page = WebPage(Page(name="html", url=URL, status=200, body=WEB_FORMS.encode()))
    with pytest.raises(Failed, match="stored page") as raised:
        await page.click(selector)
    assert raised.value.failure.kind == FailureKind.INTERNAL


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("__doPostBack('a','b')", PostBack("a", "b")),
        ('javascript:__doPostBack( "a" , "" )', PostBack("a")),
        (r"return x() && __doPostBack('a\x24b','\u0041\\')", PostBack("a$b", "A\\")),
        ("__doPostBack(a, b)", None),
        ("__doPostBack('a')", None),
        ("somePostBack('a','b')", None),
        ("", None),
    ],
)
def test_post_backs_are_read_from_scripts(script: str, found: PostBack | None) -> None:
    body = f'<div onclick="{script.replace(chr(34), "&quot;")}">'
    page = WebPage(Page(name="html", url=URL, status=200, body=body.encode()))
    assert read_post_back(page.select_one("div")) == found


# -- disclaimers -------------------------------------------------------------------------------------------------------

DISCLAIMER = """<h1>Disclaimer</h1><div id=terms><form id=disclaimer method=post action=Details.aspx>
<input type=hidden name=next value=/search><input type=checkbox name=read value=yes>
<input type=submit name=btnDecline value="I do not"><input type=submit name=btnAgree value="I agree"></form></div>"""


@pytest.mark.parametrize("selector", ["#disclaimer", "#terms"])
async def test_a_disclaimer_is_accepted_by_its_button(selector: str) -> None:
    page, transport = await opened(DISCLAIMER)
    behind = await page.accept(selector, "btnAgree", fill={"read": True})
    assert sent(transport) == ("POST", DETAIL, {"next": "/search", "read": "yes", "btnAgree": "I agree"})
    assert behind.text_of("h1") == "there"


@pytest.mark.parametrize(
    "consent", ["<a id=agree href=Details.aspx>Agree</a>", "<button id=agree form=f>Agree</button>"]
)
async def test_a_link_or_button_is_consent_too(consent: str) -> None:
    page, transport = await opened(f"{consent}<form id=f method=post action=Details.aspx></form>")
    assert (await page.accept("#agree")).text_of("h1") == "there"
    assert transport.requests[-1].url == DETAIL


async def test_a_page_without_disclaimer_is_itself() -> None:
    page, transport = await opened("<h1>Parcel</h1>")
    assert await page.accept("#disclaimer", "btnAgree") is page
    assert len(transport.requests) == 1


async def test_a_disclaimer_that_comes_back_is_no_page() -> None:
    page, transport = await opened(DISCLAIMER)
    transport.answers[DETAIL] = answer(DETAIL, DISCLAIMER.encode())
    with pytest.raises(Failed, match="asks for #disclaimer again") as raised:
        await page.accept("#disclaimer", "btnAgree")
    assert raised.value.failure.kind == FailureKind.NAVIGATION
