"""What Puppeteer's replay does with a recording, and the player must do too (A3, A4): a recorded place that is not on
the element, the size of a popup, the answer to a prompt."""

from typing import Any

import pytest

from tests.unit.fetch.browser.visited_site import HOST
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A3", "A4"), pytest.mark.asyncio(loop_scope="module")]

# A ring: the middle of its box is empty, and so is the recorded place.
RING = """<h1>R</h1><svg width=200 height=200 onclick="document.title += event.target.id || 'svg'">
<path id=ring fill=none stroke=black stroke-width=8 d="M 100 20 A 80 80 0 1 1 99 20 Z"></svg>"""


async def test_a_place_beside_a_path_is_a_click_on_the_path(played: Played) -> None:
    await played.on(RING, {"do": "click", "on": "#ring", "offset_x": 82, "offset_y": 82, "timeout_seconds": 5})
    assert await played.browser.evaluate("document.title") == "ring"
    await played.on(RING, {"do": "click", "on": "#ring", "timeout_seconds": 5})
    assert await played.browser.evaluate("document.title") == "ring"


async def test_a_place_beside_the_lines_of_a_link_is_a_click_on_the_link(played: Played) -> None:
    """The box around a link that is broken over two lines holds words that are not its own."""
    body = """<h1>L</h1><p style="width:200px;font:16px monospace">one two three
<a id=far href="#there">four five six</a> seven eight nine</p>"""
    await played.on(body, {"do": "click", "on": "#far", "offset_x": 2, "offset_y": 2, "timeout_seconds": 5})
    assert await played.browser.evaluate("location.hash") == "#there"


async def test_a_place_under_something_else_is_a_click_where_the_element_shows(played: Played) -> None:
    body = """<h1>C</h1><button id=b style="position:absolute;left:0;top:80px;width:300px;height:40px"
onclick="document.title += 'b'">b</button>
<div onclick="document.title += 'd'" style="position:absolute;left:0;top:60px;width:180px;height:90px"></div>"""
    await played.on(body, {"do": "click", "on": "#b", "offset_x": 150, "offset_y": 20, "timeout_seconds": 5})
    assert await played.browser.evaluate("document.title") == "b"


async def test_a_link_in_a_frame_of_another_site(played: Played) -> None:
    link = "<a id=a href='#in'>three four five</a>"
    played.shows("/inner", f"<p style='width:150px;font:16px monospace'>one two {link}</p>")
    frame = '<iframe style="border:9px solid" src="http://other.example/inner"></iframe>'
    body = f'<h1>F</h1><p style="height:300px"></p>{frame}'
    step = {"do": "click", "on": "#a", "offset_x": 1, "offset_y": 1, "target": "http://other.example/inner"}
    await played.on(body, {**step, "timeout_seconds": 5})
    assert await played.browser.frame("iframe").text("#a")
    assert any(frame.url.endswith("#in") for frame in played.browser.inside.windows.main.frames)


async def test_the_viewport_of_a_popup_is_the_popups(played: Played) -> None:
    played.shows("/pop", "<h1>Pop</h1>")
    body = "<h1>Main</h1><button id=open onclick=\"window.open('/pop')\">o</button>"
    size = {"do": "set_viewport", "width": 640, "height": 480, "target": f"{HOST}/pop"}
    read = {"do": "save_page", "page": "p", "target": "newest"}
    before = await _size_after(played, body, [])
    assert await _size_after(played, body, [{"do": "click", "on": "#open"}, size, read]) == before
    assert played.browser.pages["p"].url == f"{HOST}/pop"
    (popup,) = [page for page in played.browser.inside.windows.main.context.pages if page.url.endswith("/pop")]
    assert await popup.evaluate("[innerWidth, innerHeight]") == [640, 480]


async def _size_after(played: Played, body: str, steps: list[dict[str, Any]]) -> Any:
    await played.on(body, *steps)
    return await played.browser.evaluate("[innerWidth, innerHeight]")


async def test_a_prompt_is_answered_with_what_the_page_proposes(played: Played) -> None:
    script = "document.title = JSON.stringify([prompt('Which year?', '2026'), prompt('Why?'), confirm('Sure?')])"
    await played.on(f'<h1>P</h1><button id=b onclick="{script}">ask</button>', {"do": "click", "on": "#b"})
    assert await played.browser.evaluate("document.title") == '["2026","",true]'
    await played.play({"do": "click", "on": "#b"}, dialogs="dismiss")
    assert await played.browser.evaluate("document.title") == "[null,null,false]"
