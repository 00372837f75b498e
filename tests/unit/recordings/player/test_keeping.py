"""What a play keeps (A1, A4): pages as they stood on the screen, values read from them, pictures and files."""

import time

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.recordings.player.play import play
from tests.support.bounds import HANGING_SECONDS
from tests.unit.fetch.browser.visited_site import html
from tests.unit.recordings.player.playing import Played, recording

pytestmark = [pytest.mark.req("A1", "A4"), pytest.mark.asyncio(loop_scope="module")]

LIVE = """<h1 id=h>Live &amp; well</h1><x-card></x-card><input id=t><input id=old value="given">
<input id=c type=checkbox>
<select id=s><option value=a selected>A<option value=b>B</select>
<textarea id=a></textarea><script>/* <b> */ customElements.define('x-card', class extends HTMLElement { constructor() {
super(); this.attachShadow({mode: 'open'}).innerHTML =
'<style>p > b {}</style><p>in <b>the</b> shadow<slot></slot></p>'; } })</script>"""
FILL = (
    {"do": "type", "on": "#t", "text": 'typed "so"'},
    {"do": "type", "on": "#old", "text": "new"},
    {"do": "check", "on": "#c"},
    {"do": "select", "on": "#s", "option": "b"},
    {"do": "type", "on": "#a", "text": "<long> text"},
)


async def test_a_stored_page_holds_what_was_on_the_screen(played: Played) -> None:
    await played.on(LIVE, *FILL, {"do": "save_page", "page": "p"})
    text = played.browser.pages["p"].text
    inside = "<style>p > b {}</style><p>in <b>the</b> shadow<slot></slot></p>"
    assert f'<x-card><template shadowrootmode="open">{inside}</template></x-card>' in text
    assert '<input id="t" value="typed &quot;so&quot;">' in text
    assert '<input id="old" value="new">' in text
    assert '<input id="c" type="checkbox" checked="">' in text
    assert '<option value="a">A</option><option value="b" selected="">B</option>' in text
    assert "&lt;long&gt; text</textarea>" in text
    assert "<script>/* <b> */" in text
    assert "Live &amp; well" in text


async def test_passwords_are_not_stored(played: Played) -> None:
    played.shows("/in", "<input id=u><input id=secret type=password>")
    fill = [{"do": "type", "on": f"#{name}", "text": "hush " + name, "frame": [0]} for name in ("u", "secret")]
    await played.on("<h1>L</h1><iframe src=/in></iframe>", *fill, {"do": "save_page", "page": "p", "frame": [0]})
    text = played.browser.pages["p"].text
    assert "hush u" in text
    assert "hush secret" not in text


async def test_the_page_itself_is_not_changed_by_it(played: Played) -> None:
    await played.on(LIVE, *FILL, {"do": "save_page", "page": "p"})
    assert await played.browser.evaluate("[t.getAttribute('value'), c.hasAttribute('checked')]") == [None, False]


async def test_authors_get_shadow_roots_too_and_fields_as_the_site_sent_them(played: Played) -> None:
    await played.on(LIVE, *FILL)
    text = (await played.browser.page()).text
    assert "<b>the</b> shadow" in text
    assert '<input id="old" value="given">' in text


async def test_a_value_is_read_from_the_stored_page_and_can_be_named_afterwards(played: Played) -> None:
    body = "<h1>V</h1><p id=p></p><input id=t><script>setTimeout(() => p.textContent = 'A 7', 300)</script>"
    await played.on(
        body,
        {"do": "extract", "field": "number", "on": "#p:not(:empty)", "transform": ["digits"]},
        {"do": "extract", "field": "title", "on": "h1"},
        {"do": "type", "on": "#t", "text": "{{ value.number }}{{ value.title }}"},
        {"do": "extract", "field": "typed", "on": "#t", "kind": "value"},
    )
    assert await played.browser.evaluate("t.value") == "7V"
    assert list(played.browser.pages) == ["html", "html-2"]
    assert played.browser.pages["html"].text_of("#p") == "A 7"


async def test_extracts_that_follow_each_other_share_a_page_that_has_them_all(played: Played) -> None:
    body = """<h1>V</h1><p id=p>early</p><script>setTimeout(() =>
document.body.insertAdjacentHTML('beforeend', '<p id=q>late</p>'), 500)</script>"""
    await played.on(body, {"do": "extract", "field": "p", "on": "#p"}, {"do": "extract", "field": "q", "on": "#q"})
    assert list(played.browser.pages) == ["html"]
    assert played.browser.pages["html"].text_of("#q") == "late"


async def test_what_is_missing_is_a_changed_layout_unless_it_is_optional(played: Played) -> None:
    step = {"do": "extract", "field": "x", "on": "#x", "timeout_seconds": 0.3}
    with pytest.raises(Failed, match=r"step 2 \(extract #x\)") as failed:
        await played.on("<h1>M</h1>", step)
    assert failed.value.failure.kind is FailureKind.LAYOUT_CHANGED
    await played.on("<h1>M</h1>", {**step, "optional": True})


async def test_each_turn_of_a_loop_has_its_page_and_frames_theirs(played: Played) -> None:
    played.shows("/in", "<h2>inner</h2>")
    loop = {"do": "for_each", "values": ["1", "2"], "steps": [{"do": "extract", "field": "h", "on": "h1"}]}
    framed = {"do": "extract", "field": "i", "on": "h2", "frame": [0], "page": "frame"}
    await played.on("<h1>L</h1><iframe src=/in></iframe>", loop, framed)
    assert list(played.browser.pages) == ["html-t1", "html-t2", "frame"]
    assert played.browser.pages["frame"].url.endswith("/in")
    assert played.browser.pages["frame"].text_of("h2") == "inner"


async def test_pictures_and_files(played: Played) -> None:
    played.site.answers["/a.pdf"] = html("%PDF one", kind="application/pdf")
    played.site.answers["/b.pdf"] = html(
        "%PDF two", 'Content-Disposition: attachment; filename="x"', kind="application/pdf"
    )
    await played.on(
        "<h1>F</h1><a id=b href=/b.pdf>b</a>",
        {"do": "screenshot", "file": "{{ input.id }}.png"},
        {"do": "download", "file": "a.pdf", "url": "/a.pdf", "content_type": "application/pdf"},
        {"do": "download", "file": "b.pdf", "on": ["#none", "#b"]},
        given={"id": "9"},
    )
    kept = {one.name: one.page.body for one in played.browser.downloads}
    assert kept["9.png"].startswith(b"\x89PNG")
    assert (kept["a.pdf"], kept["b.pdf"]) == (b"%PDF one", b"%PDF two")
    assert played.times[-1].selector == "#b"
    with pytest.raises(Failed, match="step 1"):
        await played.play({"do": "download", "file": "c", "url": "/a.pdf", "content_type": "text/csv"})


async def test_a_file_in_a_new_window(played: Played) -> None:
    played.site.answers["/b.pdf"] = html("%PDF two", kind="application/pdf")
    await played.on(
        "<h1>F</h1><a id=b href=/b.pdf target=_blank>b</a>", {"do": "download", "file": "b.pdf", "on": "#b"}
    )
    assert {one.name: one.page.body for one in played.browser.downloads}["b.pdf"] == b"%PDF two"
    assert played.gate.events.count("enter /b.pdf") == 1
    assert len(played.browser.raw.context.pages) == 1


async def test_one_picture_of_each_step_when_they_are_wanted(played: Played) -> None:
    played.shows("/page", "<h1>P</h1>")
    steps = recording({"do": "goto", "url": "/page"}, {"do": "hover", "on": "h1"})
    await play(steps, {}, played.browser, pictures=True)
    assert [one.name for one in played.browser.downloads] == ["step-1.png", "step-2.png"]


LATE = """<h1>L</h1><script>setTimeout(() => document.body.insertAdjacentHTML(
'beforeend', '<b id=owner>Doe</b><i class=row>1</i><i class=row>2</i>'), 900)</script>"""


@pytest.mark.req("A4")
async def test_what_need_not_be_there_is_waited_for_too(played: Played) -> None:
    for read, value in (
        ({"do": "extract", "field": "x", "on": "#owner", "optional": True}, "Doe"),
        ({"do": "extract", "field": "x", "on": ".row", "kind": "count"}, "2"),
    ):
        equal = {"value": "{{ value.x }}", "equals": value}
        there = {"do": "if", "condition": equal, "then": [{"do": "click", "on": "h1"}]}
        await played.on(LATE, {"do": "extract", "field": "title", "on": "h1"}, read, there)
        assert "4.then.1" in {one.place for one in played.times}, value


@pytest.mark.req("A4")
async def test_elements_of_a_loop_are_waited_for(played: Played) -> None:
    read = {"do": "extract", "field": "row", "on": ".row"}
    await played.on(LATE, {"do": "for_each", "on": ".row", "collect": "rows", "steps": [read]})
    assert len(played.times) == 3
    await played.on("<h1>N</h1>", {"do": "for_each", "on": ".row", "collect": "rows", "steps": [read]})
    assert played.times[-1].message == "no turn: nothing matches"


@pytest.mark.req("A4")
async def test_what_is_missing_is_waited_for_once_on_a_page(played: Played) -> None:
    maybe = [{"do": "extract", "field": f"f{n}", "on": f"#no{n}", "optional": True} for n in range(60)]
    began = time.monotonic()
    await played.on("<h1>N</h1>", *maybe)
    assert time.monotonic() - began < HANGING_SECONDS, "two seconds for each would be two minutes"
