"""What each step does to a page (A1), on pages that show its effect, in a real Chromium."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A1", "A4"), pytest.mark.asyncio(loop_scope="module")]

EVENTS = """<h1>E</h1><div id=box
style="position:absolute;left:50px;top:80px;width:200px;height:100px;border:10px solid"><i>x</i></div>
<pre id=log></pre><script>
const say = text => log.textContent += text + ' ';
let down = 0;
for (const name of ['mousedown', 'click', 'dblclick', 'auxclick', 'contextmenu', 'mouseover', 'touchstart'])
  box.addEventListener(name, event => { if (event.cancelable && name === 'contextmenu') event.preventDefault();
    if (name === 'mousedown') down = performance.now();
    const at = box.getBoundingClientRect();
    say(`${name}:${event.button}:${Math.round(event.clientX - at.left)},${Math.round(event.clientY - at.top)}`);
    if (name === 'click') say('held:' + (performance.now() - down > 180)); });
</script>"""


async def _log(played: Played) -> str:
    return str(await played.browser.evaluate("document.getElementById('log').textContent"))


async def _value(played: Played, script: str) -> Any:
    return await played.browser.evaluate(script)


async def test_clicks_have_a_button_a_place_and_a_time(played: Played) -> None:
    await played.on(EVENTS, {"do": "click", "on": "#box", "offset_x": 15, "offset_y": 20, "hold_ms": 200})
    assert "mousedown:0:15,20" in await _log(played)
    assert "click:0:15,20 held:true" in await _log(played)
    await played.play({"do": "click", "on": "#box", "button": "secondary"})
    assert "contextmenu:2:110,60" in await _log(played)
    await played.play({"do": "click", "on": "#box", "button": "auxiliary"})
    assert "auxclick:1" in await _log(played)
    await played.play({"do": "double_click", "on": "#box"})
    assert "dblclick:0" in await _log(played)


async def test_the_buttons_at_the_side_of_a_mouse(played: Played) -> None:
    played.shows("/two", "<h1>Two</h1>")
    await played.on(EVENTS, {"do": "goto", "url": "/two"}, {"do": "click", "on": "h1", "button": "back"})
    await played.play({"do": "wait_for", "on": "#box"})
    assert await played.text("h1") == "E"


async def test_offsets_outside_of_the_element_are_ignored(played: Played) -> None:
    await played.on(EVENTS, {"do": "click", "on": "#box", "offset_x": 500, "offset_y": 2})
    assert "click:0:110,60" in await _log(played)


async def test_hover(played: Played) -> None:
    await played.on(EVENTS, {"do": "hover", "on": "#box"})
    assert "mouseover" in await _log(played)
    assert "mousedown" not in await _log(played)


async def test_a_touch_where_there_is_no_screen_to_touch_is_a_click(played: Played) -> None:
    await played.on(EVENTS, {"do": "click", "on": "#box", "device": "touch"})
    assert "click:0" in await _log(played)


BOX = """<h1>B</h1><input id=t value="12"><pre id=log></pre><script>
for (const name of ['keydown', 'input', 'change']) t.addEventListener(name,
  event => log.textContent += name + ':' + (event.key || t.value) + ' ');</script>"""


async def test_text_is_typed_key_by_key_and_goes_on_where_it_began(played: Played) -> None:
    typed = [("1234", "keydown:3 input:123 keydown:4 input:1234"), ("7", "keydown:7 input:7"), ("12", "input:12")]
    for text, keys in typed:
        await played.on(BOX, {"do": "type", "on": "#t", "text": "{{ input.text }}"}, given={"text": text})
        assert keys in await _log(played)
        assert await _value(played, "t.value") == text
        assert ("keydown:1" in await _log(played)) is (text == "12")


async def test_long_texts_are_put_in_at_once(played: Played) -> None:
    await played.on(BOX, {"do": "type", "on": "#t", "text": "x" * 150})
    assert await _value(played, "t.value") == "x" * 150
    assert "keydown" not in await _log(played)
    assert "change" in await _log(played)


FIELDS = [
    ("<input type=date id=f>", "2026-11-16", "f.value", "2026-11-16"),
    ("<input type=color id=f>", "#ff0000", "f.value", "#ff0000"),
    ("<input type=range id=f min=0 max=100>", "42", "f.value", "42"),
    ("<div id=f contenteditable>old</div>", "new", "f.innerText", "new"),
    ("<textarea id=f>old</textarea>", "two", "f.value", "two"),
    ("<input type=checkbox id=f>", "true", "f.checked", True),
    ("<input type=checkbox id=f checked>", "off", "f.checked", False),
    ("<select id=f><option value=a>A<option value=b>Bee</select>", "b", "f.value", "b"),
    ("<select id=f><option value=a>A<option value=b>Bee</select>", "Bee", "f.value", "b"),
    ("<select id=f><option value=a selected>A<option value=''></select>", "", "f.selectedIndex", 1),
]


async def test_type_gives_every_field_its_value(played: Played) -> None:
    told = "<script>f.addEventListener('input', () => document.title += 'i')</script>"
    for field, text, read, value in FIELDS:
        await played.on(f"<h1>F</h1>{field}{told}", {"do": "type", "on": "#f", "text": text})
        assert (field, await _value(played, read)) == (field, value)
        assert "i" in await _value(played, "document.title")


async def test_a_field_that_takes_no_such_text_says_so(played: Played) -> None:
    with pytest.raises(Failed, match=r"step 2 \(type #f\): the field takes no 'tomorrow'") as failed:
        await played.on("<h1>D</h1><input type=date id=f>", {"do": "type", "on": "#f", "text": "tomorrow"})
    assert failed.value.failure.kind is FailureKind.ACTION_FAILED


LATE_LIST = """<h1>L</h1><select id=s><option>wait</select><script>setTimeout(() =>
s.innerHTML = '<option value=1>One<option value=2>Two', 400)</script>"""


async def test_a_list_is_waited_for_until_the_page_has_filled_it(played: Played) -> None:
    await played.on(LATE_LIST, {"do": "select", "on": "#s", "option": "Two"})
    assert await _value(played, "s.value") == "2"
    with pytest.raises(Failed, match="has no option 'Three'"):
        await played.play({"do": "select", "on": "#s", "option": "Three", "timeout_seconds": 0.3})


async def test_boxes_are_ticked_and_cleared(played: Played) -> None:
    body = "<h1>C</h1><input type=checkbox id=a><input type=checkbox id=b checked><input type=checkbox id=c checked>"
    await played.on(
        body, {"do": "check", "on": "#a"}, {"do": "check", "on": "#b", "checked": False}, {"do": "check", "on": "#c"}
    )
    assert await _value(played, "[a.checked, b.checked, c.checked]") == [True, False, True]


async def test_keys_pressed_and_held(played: Played) -> None:
    await played.on(
        "<h1>K</h1><input id=t autofocus>",
        {"do": "click", "on": "#t"},
        {"do": "press", "key": "a"},
        {"do": "press", "key": "Shift", "how": "down"},
        {"do": "press", "key": "b"},
        {"do": "press", "key": "Shift", "how": "up"},
        {"do": "press", "key": "c"},
    )
    assert await _value(played, "t.value") == "aBc"


async def test_enter_sends_a_form_and_its_page_is_waited_for(played: Played) -> None:
    played.shows("/sent", "<h1>Sent</h1>")
    await played.on(
        "<h1>K</h1><form action=/sent><input id=t name=q></form>",
        {"do": "type", "on": "#t", "text": "x"},
        {"do": "press", "key": "Enter", "navigates": True},
    )
    assert await played.text("h1") == "Sent"
    assert played.gate.events.count("enter /sent?q=x") == 1


async def test_files_are_uploaded_by_their_plain_names(played: Played, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("hello")
    (tmp_path / "secret").write_text("no")
    (files / "link").symlink_to(tmp_path / "secret")
    body = """<h1>U</h1><input type=file id=f hidden><button id=b onclick="f.click()">choose</button><script>
f.onchange = async () => document.title = f.files[0].name + ':' + await f.files[0].text()</script>"""
    await played.on(body, {"do": "upload", "on": "#f", "file": "a.txt"}, files=files)
    await played.browser.wait_for_function("() => document.title === 'a.txt:hello'")
    await played.on(body, {"do": "upload", "on": "#b", "file": "a.txt"}, files=files)
    await played.browser.wait_for_function("() => document.title === 'a.txt:hello'")
    for name in ("../secret", "/etc/passwd", "link", "..", "none"):
        with pytest.raises(Failed) as failed:
            await played.play({"do": "upload", "on": "#f", "file": name}, files=files)
        assert failed.value.failure.kind is FailureKind.INVALID_INPUT
    with pytest.raises(Failed, match="no folder"):
        await played.play({"do": "upload", "on": "#f", "file": "a.txt"})


async def test_scrolling(played: Played) -> None:
    body = """<h1>S</h1><div id=d style="height:100px;overflow:auto"><p style="height:900px">x</div>
<p style="height:3000px"></p><b id=far>far</b><script>let n = 0; onscroll = () => { if (n < 3 && innerHeight + scrollY >
document.documentElement.scrollHeight - 50) { n++; far.insertAdjacentHTML('beforebegin', '<p style="height:500px">') } }
</script>"""
    await played.on(body, {"do": "scroll", "y": 120}, {"do": "scroll", "on": "#d", "y": 70})
    assert await _value(played, "[scrollY, d.scrollTop]") == [120, 70]
    await played.play({"do": "scroll", "on": "#far"})
    assert await _value(played, "scrollY") > 2000
    await played.play({"do": "scroll"})
    assert await _value(played, "n") == 3


async def test_back_forward_and_reload(played: Played) -> None:
    played.shows("/two", "<h1>Two</h1>")
    await played.on("<h1>One</h1>", {"do": "goto", "url": "/two"}, {"do": "back"})
    assert await played.text("h1") == "One"
    await played.play({"do": "forward"})
    assert await played.text("h1") == "Two"
    played.shows("/two", "<h1>Two again</h1>")
    await played.play({"do": "reload"})
    assert await played.text("h1") == "Two again"
    with pytest.raises(Failed, match="there is no page after this one") as failed:
        await played.play({"do": "forward"})
    assert failed.value.failure.kind is FailureKind.NAVIGATION


async def test_the_viewport_and_the_network_are_as_recorded(played: Played) -> None:
    screen = {"do": "set_viewport", "width": 412, "height": 700, "scale": 2.5, "mobile": True, "touch": True}
    await played.on("<meta name=viewport content='width=device-width'><h1>V</h1>", screen)
    assert await _value(
        played, "[innerWidth, devicePixelRatio, 'ontouchstart' in window || navigator.maxTouchPoints > 0]"
    ) == [
        412,
        2.5,
        True,
    ]
    await played.play({"do": "set_viewport", "width": 900, "height": 500})
    assert await _value(played, "innerWidth") == 900
    off = {"do": "network_conditions", "download": 0, "upload": 0, "latency_ms": 0}
    await played.play(off)
    assert await _value(played, "fetch('/page').then(() => 'came', () => 'none')") == "none"
    slow = {"do": "network_conditions", "download": 1e6, "upload": 1e6, "latency_ms": 400}
    await played.play(slow)
    took = "(async () => { const at = performance.now(); await fetch('/page?1'); return performance.now() - at })()"
    assert await _value(played, took) >= 350
    await played.play({"do": "network_conditions", "download": -1, "upload": -1, "latency_ms": 0})
    again = [await _value(played, took.replace("?1", f"?{n}")) for n in range(2, 10)]
    assert min(again) < 350


async def test_navigations_are_waited_for_from_the_moment_of_the_action(played: Played) -> None:
    played.shows("/next", "<h1>Next</h1>")
    body = "<h1>N</h1><button id=b onclick=\"setTimeout(() => location.href = '/next', 700)\">go</button>"
    await played.on(body, {"do": "click", "on": "#b", "navigates": True})
    assert await played.text("h1") == "Next"
    pushed = "<h1>N</h1><button id=b onclick=\"history.pushState({}, '', '/pushed')\">go</button>"
    await played.on(pushed, {"do": "click", "on": "#b", "navigates": True})
    assert played.browser.url.endswith("/pushed")
    with pytest.raises(Failed, match=r"none came in 0\.4 s") as failed:
        await played.on(
            "<h1>N</h1><b id=b>x</b>", {"do": "click", "on": "#b", "navigates": True, "timeout_seconds": 0.4}
        )
    assert failed.value.failure.kind is FailureKind.NAVIGATION


async def test_time_at_the_gate_is_not_the_steps(played: Played) -> None:
    played.shows("/next", "<h1>Next</h1>")
    played.shows("/page", "<h1>N</h1><a id=a href=/next>go</a>")
    await played.play({"do": "goto", "url": "/page"})
    played.gate.hold_seconds = 4.0
    await played.play({"do": "click", "on": "#a", "navigates": True, "timeout_seconds": 3})
    assert await played.text("h1") == "Next"


async def test_what_is_waited_for_on_a_page_that_waits_at_the_gate_has_its_time_afterwards(played: Played) -> None:
    later = "setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<b id=b>x</b>'), 300)"
    played.shows("/next", f"<h1>Next</h1><script>{later}</script>")
    played.shows("/page", "<h1>N</h1><script>setTimeout(() => location.href = '/next', 200)</script>")
    await played.play({"do": "goto", "url": "/page"})
    played.gate.hold_seconds = 4.0
    await played.play({"do": "click", "on": "#b", "timeout_seconds": 3})
    assert played.times[-1].outcome == "done"


async def test_dialogs_are_answered_as_the_recording_says(played: Played) -> None:
    body = "<h1>D</h1><button id=b onclick=\"document.title = confirm('Sure?')\">b</button>"
    await played.on(body, {"do": "click", "on": "#b"})
    assert await _value(played, "document.title") == "true"
    await played.on(body, {"do": "click", "on": "#b"}, dialogs="dismiss")
    assert await _value(played, "document.title") == "false"


async def test_scripts_run_in_a_world_of_their_own_or_in_the_pages(played: Played) -> None:
    body = "<h1>J</h1><p id=p>0</p><script>window.secret = 1; setInterval(() => p.textContent++, 50)</script>"
    await played.on(
        body,
        {"do": "javascript", "code": "document.title = String(window.secret)"},
        {"do": "javascript", "code": "Number(document.getElementById('p').textContent) > 4", "until_true": True},
    )
    assert await _value(played, "document.title") == "undefined"
    await played.play({"do": "javascript", "code": "document.title = String(window.secret)", "world": "page"})
    assert await _value(played, "document.title") == "1"
    assert int(await played.text("#p")) > 4
    with pytest.raises(Failed, match="said nothing true"):
        await played.play({"do": "javascript", "code": "0", "until_true": True, "timeout_seconds": 0.3})
    with pytest.raises(Failed) as failed:
        await played.play({"do": "javascript", "code": "nothing.there"})
    assert failed.value.failure.kind is FailureKind.ACTION_FAILED


async def test_a_script_that_never_ends_costs_bounded_time(played: Played) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(Failed):
            await played.on("<h1>J</h1>", {"do": "javascript", "code": "for (;;) {}", "timeout_seconds": 0.5})


async def test_addresses_with_fragments_and_those_that_are_none(played: Played) -> None:
    await played.on("<h1>X</h1>", {"do": "goto", "url": "/page#/deep"})
    assert await _value(played, "location.hash") == "#/deep"
    for url in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "view-source:http://site.example/"):
        with pytest.raises(Failed):
            await played.play({"do": "goto", "url": url})
