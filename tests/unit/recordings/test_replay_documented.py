"""What the documentation of Chrome's replay library says of its format, and no other test has: in Chrome's own words,
on pages that show the effect. https://github.com/puppeteer/replay/tree/main/docs
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.recordings.document import check_recording
from swath.recordings.importers import import_recording
from swath.recordings.player.play import play
from tests.unit.fetch.browser.visited_site import HOST, VisitedSite, visited_site
from tests.unit.fetch.browser.visiting import launched_browser
from tests.unit.recordings.player.playing import SECONDS, Played, playing

pytestmark = [pytest.mark.req("A1", "A3", "A4")]

# The names that the type `Key` has, beside letters, digits and signs.
_NAMES: Final = (
    "Power Eject Abort Help Backspace Tab Numpad5 NumpadEnter Enter ShiftLeft ShiftRight ControlLeft ControlRight"
    " AltLeft AltRight Pause CapsLock Escape Convert NonConvert Space Numpad9 PageUp Numpad3 PageDown End Numpad1 Home"
    " Numpad7 ArrowLeft Numpad4 Numpad8 ArrowUp ArrowRight Numpad6 Numpad2 ArrowDown Select Open PrintScreen Insert"
    " Numpad0 Delete NumpadDecimal Digit0 Digit9 KeyA KeyZ MetaLeft MetaRight ContextMenu NumpadMultiply NumpadAdd"
    " NumpadSubtract NumpadDivide F1 F12 F13 F24 NumLock ScrollLock AudioVolumeMute AudioVolumeDown AudioVolumeUp"
    " MediaTrackNext MediaTrackPrevious MediaStop MediaPlayPause Semicolon Equal NumpadEqual Comma Minus Period Slash"
    " Backquote BracketLeft Backslash BracketRight Quote AltGraph Props Cancel Clear Shift Control Alt Accept"
    " ModeChange Print Execute Meta Attn CrSel ExSel EraseEof Play ZoomOut SoftLeft SoftRight Camera Call EndCall"
    " VolumeDown VolumeUp"
)
KEYS: Final = [*_NAMES.split(), "\r", "\n", "\0", " ", *"aZ0*+-/;=,.`[\\]')!@#$%^&(:<_>?~{|}\""]
# The driver's keyboard has none of these; a page hardly does anything at them.
_WITHOUT: Final = (
    "Power Eject Abort Help Convert NonConvert Select Open F13 F24 MediaStop Props Cancel Clear Accept ModeChange Print"
    " Execute Attn CrSel ExSel EraseEof Play ZoomOut SoftLeft SoftRight Camera Call EndCall VolumeDown VolumeUp"
)
LEFT_OUT: Final = {*_WITHOUT.split(), "\0"}


def recorded(*steps: dict[str, Any], **flow: Any) -> str:
    """A recording as Chrome exports it."""
    given = [{"type": "navigate", "url": f"{HOST}/page"}, *steps]
    return json.dumps({"title": "Documented", "timeout": SECONDS * 1_000, "steps": given, **flow})


def test_every_key_that_is_documented_is_pressed_or_left_out_with_a_note() -> None:
    left_out = set()
    for key in KEYS:
        found = import_recording(recorded({"type": "keyDown", "key": key}, {"type": "keyUp", "key": key}), "keys")
        check_recording(found.recording, "keys", javascript=False)
        assert len(found.recording.steps) in (1, 3)
        if len(found.recording.steps) == 1:
            left_out.add(key)
            assert len([one for one in found.remarks if "none that can be pressed" in one.text]) == 2
    assert left_out == LEFT_OUT


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def played(launched: ChromiumProcess, site: VisitedSite) -> AsyncIterator[Played]:
    async with playing(launched, site) as played:
        yield played


async def replay(played: Played, body: str, *steps: dict[str, Any], **flow: Any) -> None:
    """Imports it, and plays it on a page that shows this."""
    played.shows("/page", body)
    recording = import_recording(recorded(*steps, **flow), "documented").recording
    await play(recording, {}, played.browser, watch=played.times.append)


async def says(played: Played, script: str) -> Any:
    return await played.browser.evaluate(script)


POINTED: Final = """<meta name=viewport content="width=device-width"><h1>P</h1><button id=b
style="position:absolute;left:40px;top:80px;width:200px;height:60px;border:7px solid;padding:5px">b</button><script>
const seen = []; let at = 0;
for (const type of ['pointerdown', 'mousedown', 'mouseup', 'click', 'dblclick', 'touchstart'])
  b.addEventListener(type, event => { if (type === 'mousedown') at = performance.now();
    seen.push([type, event.pointerType ?? '', type === 'mouseup' ? performance.now() - at : event.detail ?? 0]); });
</script>"""


def of_type(seen: list[list[Any]], kind: str) -> list[Any]:
    return [one[1:] for one in seen if one[0] == kind]


@pytest.mark.asyncio(loop_scope="module")
async def test_device_type_and_duration_of_a_click(played: Played) -> None:
    click = {"type": "click", "selectors": [["#b"]], "offsetX": 5, "offsetY": 5}
    await replay(played, POINTED, {**click, "duration": 300}, {**click, "deviceType": "pen"})
    seen = await says(played, "seen")
    assert of_type(seen, "mouseup")[0][1] >= 299
    assert len(of_type(seen, "click")) == 2
    screen = {"width": 500, "height": 400, "deviceScaleFactor": 1, "isMobile": True, "hasTouch": True}
    viewport = {"type": "setViewport", **screen, "isLandscape": False}
    await replay(played, POINTED, viewport, {**click, "deviceType": "touch"})
    seen = await says(played, "seen")
    assert len(of_type(seen, "touchstart")) == 1
    assert of_type(seen, "click") == [["touch", 1]]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_double_click_is_two_clicks_and_one_double_click(played: Played) -> None:
    await replay(played, POINTED, {"type": "doubleClick", "selectors": ["#b"], "offsetX": 5, "offsetY": 5})
    seen = await says(played, "seen")
    assert [detail for _, detail in of_type(seen, "click")] == [1, 2]
    assert len(of_type(seen, "dblclick")) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_an_expression_may_be_a_promise_and_is_evaluated_in_its_frame(played: Played) -> None:
    played.shows("/inner", "<h1>I</h1><script>setTimeout(() => { window.ready = true }, 300)</script>")
    promise = "new Promise(resolve => setTimeout(() => resolve(window.late = true), 300))"
    await replay(
        played,
        "<h1>E</h1><iframe src=/inner></iframe>",
        {"type": "waitForExpression", "expression": promise},
        {"type": "waitForExpression", "expression": "window.ready", "frame": [0]},
    )
    cdp = await played.browser.inside.windows.main.context.new_cdp_session(played.browser.inside.windows.main)
    told = await cdp.send(
        "Runtime.evaluate", {"expression": "[window.late, window.ready ?? null]", "returnByValue": True}
    )
    assert told["result"]["value"] == [True, None]
    never = {"type": "waitForExpression", "expression": "Promise.resolve(0)", "timeout": 300}
    with pytest.raises(Failed, match="said nothing true"):
        await replay(played, "<h1>E</h1>", never)


@pytest.mark.asyncio(loop_scope="module")
async def test_steps_in_frames_of_frames(played: Played) -> None:
    """`frame` has an index for each level; each step with selectors takes it."""
    played.shows("/middle", "<h1>M</h1><iframe src=/first></iframe><iframe src=/deep></iframe>")
    played.shows("/first", "<h1>First</h1>")
    played.shows(
        "/deep",
        """<h1>D</h1><input id=t><div id=d style="height:50px;overflow:auto"><p style="height:900px">x</div>
<i id=h onmouseover="document.title = 'hovered'">h</i><p style="height:2000px">""",
    )
    there = {"frame": [0, 1]}
    await replay(
        played,
        "<h1>O</h1><iframe src=/middle width=600 height=400></iframe>",
        {"type": "waitForElement", "selectors": ["#t"], "count": 1, "operator": "==", **there},
        {"type": "change", "selectors": ["#t"], "value": "typed", **there},
        {"type": "hover", "selectors": ["#h"], **there},
        {"type": "scroll", "selectors": ["#d"], "y": 33, **there},
        {"type": "scroll", "y": 44, **there},
    )
    deep = next(one for one in played.browser.inside.windows.main.frames if one.url.endswith("/deep"))
    found = "[t.value, document.title, d.scrollTop, scrollY]"
    assert await deep.evaluate(found) == ["typed", "hovered", 33, 44]


FIELDS: Final = """<h1>C</h1><input id=prefilled value=abc><input id=partly value=abc><textarea id=area>old</textarea>
<input id=day type=date><input id=range type=range><input id=box type=checkbox><p id=e contenteditable>old</p>
<select id=s><option value=1>One<option value=2>Two</select><pre id=log></pre><script>
for (const one of document.querySelectorAll('input, textarea, select'))
  one.addEventListener('change', () => log.textContent += one.id + ' ');</script>"""


@pytest.mark.asyncio(loop_scope="module")
async def test_change_sets_each_kind_of_field(played: Played) -> None:
    values = {
        "prefilled": "cba",
        "partly": "abcdef",
        "area": "new\nlines",
        "day": "2026-03-31",
        "range": "70",
        "s": "2",
        "e": "new",
    }
    steps = [{"type": "change", "selectors": [f"#{name}"], "value": value} for name, value in values.items()]
    await replay(played, FIELDS, *steps, {"type": "click", "selectors": ["#box"]})
    got = "Object.fromEntries([...document.querySelectorAll('[id]')].map(one => [one.id, one.value ?? one.innerText]))"
    found = await says(played, got)
    assert {name: found[name] for name in values} == values
    assert set(str(found["log"]).split()) >= {"prefilled", "partly", "area", "day", "range", "s", "box"}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_asserted_navigation_is_one_whatever_its_address_and_title(played: Played) -> None:
    played.shows("/next", "<title>Today</title><h1>Next</h1>")
    event = {"type": "navigation", "url": "https://another.day/", "title": "Yesterday"}
    body = "<h1>N</h1><a id=a href=/next>go</a><button id=b>stay</button>"
    await replay(played, body, {"type": "click", "selectors": ["#a"], "assertedEvents": [event, event]})
    assert await played.text("h1") == "Next"
    stay = {"type": "click", "selectors": ["#b"], "assertedEvents": [event], "timeout": 400}
    with pytest.raises(Failed) as failed:
        await replay(played, body, stay)
    assert failed.value.failure.kind is FailureKind.NAVIGATION


@pytest.mark.asyncio(loop_scope="module")
async def test_a_keys_step_goes_to_what_has_the_focus_and_a_held_one_changes_the_next(played: Played) -> None:
    keys = [
        ("keyDown", "Shift"),
        ("keyDown", "KeyB"),
        ("keyUp", "KeyB"),
        ("keyUp", "Shift"),
        ("keyDown", "NumpadEqual"),
    ]
    pressed = [{"type": how, "key": key, "target": "main"} for how, key in keys]
    await replay(played, "<h1>K</h1><input id=t>", {"type": "click", "selectors": ["#t"]}, *pressed)
    assert await says(played, "t.value") == "B="


@pytest.mark.asyncio(loop_scope="module")
async def test_the_timeout_of_a_step_goes_before_that_of_the_flow(played: Played) -> None:
    late = "<h1>L</h1><script>setTimeout(() => document.body.append(document.createElement('hr')), 1500)</script>"
    wait = {"type": "waitForElement", "selectors": ["hr"]}
    with pytest.raises(Failed, match=r"after 0\.5 s"):
        await replay(played, late, wait, timeout=500)
    await replay(played, late, {**wait, "timeout": 30_000}, timeout=500)
    assert played.times[-1].outcome == "done"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_network_without_any_rate_is_none(played: Played) -> None:
    off = {"type": "emulateNetworkConditions", "download": 0, "upload": 0, "latency": 0}
    await replay(played, "<h1>N</h1>", off)
    assert await says(played, "fetch('/page').then(() => 'came', () => 'none')") == "none"
