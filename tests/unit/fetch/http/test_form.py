from urllib.parse import parse_qsl

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.domain.result import Page
from swath.fetch.http.page.form import Form
from swath.fetch.http.page.page import WebPage
from tests.unit.fetch.http.sites import TableTransport, answer, session

pytestmark = pytest.mark.req("K1")

URL = "http://site.example/app/search?old=1"


def stored(html: str, charset: str = "utf-8") -> WebPage:
    return WebPage(Page(name="html", url=URL, status=200, body=html.encode(charset), charset=charset))


def form_of(inner: str, selector: str = "form") -> Form[WebPage]:
    return stored(f"<form id=f>{inner}</form>").form(selector)


def pairs(form: Form[WebPage]) -> list[tuple[str, str]]:
    return form._pairs(None)


async def submitted(
    html: str, fill: dict[str, object] | None = None, button: str | None = None, charset: str = "utf-8"
) -> TableTransport:
    """Submits the first form of a page and tells what was sent."""
    there = {url: answer(url, b"<p>done") for url in ("http://site.example/go", "http://site.example/app/search?old=1")}
    page = answer(URL, html.encode(charset), headers=(("content-type", f"text/html; charset={charset}"),))
    web, transport = session({f"GET {URL}": page, **there})
    form = (await web.get(URL)).form()
    transport.answers |= {f"GET {u}": answer(u) for u in ("http://site.example/go?a=1", "http://site.example/go?a=2")}
    await form.fill(fill).submit(button)
    return transport


@pytest.mark.parametrize(
    ("inner", "sent"),
    [
        ("<input name=a value=1>", [("a", "1")]),
        ("<input name=a>", [("a", "")]),
        ("<input value=1>", []),
        ("<input name=a value=1 disabled>", []),
        ('<input type=hidden name=__VIEWSTATE value="a+/=">', [("__VIEWSTATE", "a+/=")]),
        ("<input type=password name=a value=x><input type=EMAIL name=b value=y>", [("a", "x"), ("b", "y")]),
        ("<input type=checkbox name=a><input type=checkbox name=b checked>", [("b", "on")]),
        (
            "<input type=checkbox name=a value=1 checked><input type=checkbox name=a value=2 checked>",
            [("a", "1"), ("a", "2")],
        ),
        ("<input type=radio name=a value=1><input type=radio name=a value=2 checked>", [("a", "2")]),
        ("<input type=file name=a><input type=reset name=b value=x><input type=button name=c value=y>", []),
        ("<input type=submit name=a value=1><button name=b>x</button>", []),
        ("<textarea name=a>\n  two\nlines </textarea>", [("a", "  two\nlines ")]),
        ("<select name=a><option>1<option>2</select>", [("a", "1")]),
        ("<select name=a><option value=x>1<option value=y selected>2</select>", [("a", "y")]),
        ("<select name=a><option selected>1<option selected>2</select>", [("a", "2")]),
        ("<select name=a><option disabled>1<option>2</select>", [("a", "2")]),
        ("<select name=a><optgroup disabled><option>1</optgroup><option>2</select>", [("a", "2")]),
        ("<select name=a multiple><option selected>1<option>2<option selected>3</select>", [("a", "1"), ("a", "3")]),
        ("<select name=a multiple><option>1</select>", []),
        ("<select name=a></select>", []),
        ("<select name=a size=4><option>1<option>2</select>", []),
        ("<select name=a size=4><option>1<option selected>2</select>", [("a", "2")]),
        ("<fieldset disabled><legend><input name=a value=1></legend><input name=b value=2></fieldset>", [("a", "1")]),
        ("<fieldset><input name=b value=2></fieldset>", [("b", "2")]),
        ("<datalist><input name=a value=1></datalist><input name=b value=2>", [("b", "2")]),
    ],
)
def test_what_is_sent_follows_the_html_standard(inner: str, sent: list[tuple[str, str]]) -> None:
    assert pairs(form_of(inner)) == sent


def test_controls_may_stand_outside_their_form_and_inside_another() -> None:
    page = stored(
        "<input form=f name=a value=1><form id=f><input name=b value=2><input form=g name=c value=3></form>"
        "<form id=g></form><input name=d form=nowhere>"
    )
    assert pairs(page.form("#f")) == [("a", "1"), ("b", "2")]
    assert pairs(page.form("#g")) == [("c", "3")]


def test_filled_fields_take_the_place_of_their_controls() -> None:
    form = form_of(
        "<input type=hidden name=h value=0><input name=a><input type=checkbox name=c value=yes>"
        "<input type=radio name=r value=1 checked><input type=radio name=r value=2>"
        "<select name=s multiple><option>x<option>y<option>z</select><input name=z value=9>"
    )
    form.fill({"a": 7}, c=True, r="2", s=["x", "z"])
    assert pairs(form) == [("h", "0"), ("a", "7"), ("c", "yes"), ("r", "2"), ("s", "x"), ("s", "z"), ("z", "9")]
    assert form.fields == {"h": "0", "a": "7", "c": "yes", "r": "2", "s": "z", "z": "9"}
    assert pairs(form.fill(c=False, a=None)) == [("h", "0"), ("r", "2"), ("s", "x"), ("s", "z"), ("z", "9")]


def test_odd_names_are_filled_by_a_dict() -> None:
    assert pairs(form_of("<input name='ctl00$main$txt'>").fill({"ctl00$main$txt": "x"})) == [("ctl00$main$txt", "x")]


@pytest.mark.req("K4")
def test_fields_are_filled_by_id_where_the_name_is_nobody_elses() -> None:
    form = form_of(
        "<input name='ctl00$main$txtBook' id=txtBook><input type=radio name=r id=r1 value=1>"
        "<input type=radio name=r id=r2 value=2><input name=txtMap id=x><input name=y id=txtMap>"
    )
    assert pairs(form.fill(txtBook="200", txtMap="14")) == [("ctl00$main$txtBook", "200"), ("txtMap", "14"), ("y", "")]
    with pytest.raises(Failed, match="no field 'r1'"):
        form.fill(r1="1")


@pytest.mark.req("K4")
def test_a_choice_is_made_by_its_value_or_by_what_a_person_reads() -> None:
    html = "<select name=y><option value=1>Tax  year 2025<option value=2>1<option value='Tax year 2025'>x</select>"
    assert pairs(form_of(html).fill(y="1")) == [("y", "1")]
    assert pairs(form_of(html).fill(y="x")) == [("y", "Tax year 2025")]
    assert pairs(form_of(html).fill(y="Tax year 2025")) == [("y", "Tax year 2025")]
    assert pairs(form_of("<select name=y><option value=1>Tax  year 2025</select>").fill(y="Tax year 2025")) == [
        ("y", "1")
    ]


@pytest.mark.req("K4")
def test_a_form_between_the_rows_of_a_table_keeps_its_fields() -> None:
    """Parsers leave such a form empty; browsers send the fields that follow it."""
    page = stored(
        "<input name=z><table><form id=f action=/one method=post><input type=hidden name=h value=1>"
        "<tr><td><input name=a>"
        "<td><select name=s><option>x</select></tr><tr><td><input type=submit name=go value=Go></tr></form></table>"
        "<table><tr><form id=g><td><input name=b></td></form></tr>"
        "<tr><form id=e><td><input name=c></form></table><input name=y>"
    )
    assert pairs(page.form("#f")) == [("h", "1"), ("a", ""), ("s", "x")]
    assert [button.name for button in page.form("#f")._buttons] == ["go"]
    assert (pairs(page.form("#g")), pairs(page.form("#e"))) == ([("b", "")], [("c", "")])
    assert pairs(stored("<form id=f></form><input name=a>").form("#f")) == []


@pytest.mark.req("K4")
async def test_a_form_that_is_sent_nowhere_is_a_changed_layout() -> None:
    with pytest.raises(Failed, match="sent to no web address") as raised:
        await submitted("<form action='javascript:send()'><input name=a></form>")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_an_unknown_field_is_a_changed_layout_and_says_what_there_is() -> None:
    with pytest.raises(Failed, match=r"no field 'parcel'.*'apn', 'year'") as raised:
        form_of("<input name=apn><input name=year>").fill(parcel="1")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_a_choice_that_is_not_offered_is_refused() -> None:
    with pytest.raises(Failed, match=r"offers no '1999' for 'year'.*'2025', '2026'"):
        form_of("<select name=year><option>2025<option>2026</select>").fill(year=1999)


def test_an_unknown_button_is_refused() -> None:
    with pytest.raises(Failed, match=r"no button 'Search'.*'btnGo'"):
        stored("<form><input type=submit name=btnGo></form>").form()._button("Search")


def test_a_missing_form_is_a_changed_layout() -> None:
    with pytest.raises(Failed) as raised:
        stored("<div id=lookup></div>").form("#lookup")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


async def test_a_form_on_a_stored_page_cannot_be_submitted() -> None:
    with pytest.raises(Failed, match="stored page") as raised:
        await form_of("<input name=a>").submit()
    assert raised.value.failure.kind == FailureKind.INTERNAL


@pytest.mark.parametrize(
    ("buttons", "pressed", "sent"),
    [
        ("<input type=submit name=go value=Go><input type=submit name=no value=No>", None, [("go", "Go")]),
        ("<input type=submit name=go value=Go><input type=submit name=no value=No>", "no", [("no", "No")]),
        ("<input type=submit name=go value=Go><input type=submit name=no value=No>", "No", [("no", "No")]),
        ("<input type=submit name=go id=btnGo value=Go>", "btnGo", [("go", "Go")]),
        ("<button name=b value=1>Look <i>up</i></button>", "Look up", [("b", "1")]),
        ("<button name=b>Look</button>", None, [("b", "")]),
        ("<button type=button name=x>Js</button><button name=b value=1></button>", None, [("b", "1")]),
        ("<input type=submit name=go>", None, [("go", "Submit")]),
        ("<input type=submit value=Go>", None, []),
        ("<input type=submit name=a disabled><input type=submit name=b value=1>", None, [("b", "1")]),
        ("<input type=image name=map>", None, [("map.x", "0"), ("map.y", "0")]),
        ("", None, []),
    ],
)
async def test_only_the_pressed_button_is_sent(buttons: str, pressed: str | None, sent: list[tuple[str, str]]) -> None:
    html = f"<form method=post action=/go><input name=a value=1>{buttons}</form>"
    transport = await submitted(html, button=pressed)
    assert parse_qsl(transport.requests[-1].body.decode(), keep_blank_values=True) == [("a", "1"), *sent]


async def test_a_post_carries_its_fields_type_and_referer() -> None:
    transport = await submitted(
        "<form method=POST action=/go><input name=a value='x &amp; y'><textarea name=t>1\n2</textarea></form>"
    )
    request = transport.requests[-1]
    assert (request.method, request.url) == ("POST", "http://site.example/go")
    assert request.body == b"a=x+%26+y&t=1%0D%0A2"
    assert transport.header("content-type") == "application/x-www-form-urlencoded"
    assert transport.header("referer") == URL


async def test_a_form_without_action_posts_to_its_own_page() -> None:
    transport = await submitted("<form method=post><input name=a value=1></form>")
    assert transport.requests[-1].url == URL


async def test_a_get_form_replaces_the_query() -> None:
    transport = await submitted("<form action='/go?x=1'><input name=a></form>", {"a": 2})
    assert (transport.requests[-1].method, transport.requests[-1].url) == ("GET", "http://site.example/go?a=2")
    assert transport.requests[-1].body == b""


async def test_a_button_may_send_the_form_elsewhere() -> None:
    transport = await submitted(
        "<form action=/x><input name=a value=1><button formmethod=post formaction=/go>x</button></form>"
    )
    assert (transport.requests[-1].method, transport.requests[-1].url) == ("POST", "http://site.example/go")


async def test_the_base_of_the_page_counts_for_the_action() -> None:
    transport = await submitted("<base href='http://site.example/'><form method=post action=go>Go</form>")
    assert transport.requests[-1].url == "http://site.example/go"


async def test_fields_are_sent_in_the_charset_of_the_page() -> None:
    html = "<form method=post action=/go><input name=a value='caf\xe9 \u20ac'></form>"
    assert (await submitted(html, charset="cp1252")).requests[-1].body == b"a=caf%E9+%80"
    assert (await submitted(html)).requests[-1].body == b"a=caf%C3%A9+%E2%82%AC"
    assert (await submitted(html, {"a": "\u0416"}, charset="cp1252")).requests[-1].body == b"a=%26%231046%3B"


async def test_multipart_forms_are_sent_as_such() -> None:
    transport = await submitted(
        "<form method=post action=/go enctype='multipart/form-data'><input name='a\"b' value='1\n2'></form>"
    )
    content_type = transport.header("content-type") or ""
    boundary = content_type.removeprefix("multipart/form-data; boundary=")
    assert transport.requests[-1].body == (
        f'--{boundary}\r\nContent-Disposition: form-data; name="a%22b"\r\n\r\n1\r\n2\r\n--{boundary}--\r\n'.encode()
    )
