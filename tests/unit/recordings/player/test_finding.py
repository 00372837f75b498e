"""How the player finds elements (A3, A4): every kind of selector, chains, frames, and alternatives that are raced."""

import json
from html import escape
from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A3", "A4"), pytest.mark.asyncio(loop_scope="module")]

SHADOWS = """<h1>S</h1><x-outer></x-outer><script>
class Inner extends HTMLElement { constructor() { super(); this.attachShadow({mode: 'open'}).innerHTML =
  '<button id=b aria-label="Deep one">inside</button><p>deep text</p>';
  this.shadowRoot.querySelector('#b').onclick = () => document.title = 'deep'; } }
class Outer extends HTMLElement { constructor() { super(); this.attachShadow({mode: 'open'}).innerHTML =
  '<section aria-label="Box" role=group><x-inner></x-inner></section>'; } }
customElements.define('x-inner', Inner); customElements.define('x-outer', Outer);
</script>"""
PLAIN = """<h1>P</h1><div class=row><button onclick="document.title='one'">One</button></div>
<div><span>around <b onclick="document.title='bold'">the smallest</b></span></div>
<button aria-label="Named" onclick="document.title='named'"></button>
<a href="#" role=button onclick="document.title='role'">Same</a><h2 onclick="document.title='heading'">Same</h2>"""


async def _title(played: Played) -> str:
    return str(await played.browser.evaluate("document.title"))


KINDS: list[tuple[Any, str]] = [
    (".row button", "one"),
    ("css/.row button", "one"),
    ("xpath///div/button", "one"),
    ("text/the smallest", "bold"),
    ("aria/Named", "named"),
    ('aria/Same[role="heading"]', "heading"),
    ('aria/Same[role="button"]', "role"),
    ('aria/[role="heading"][name="Same"]', "heading"),
    ([".row", "aria/One"], "one"),
]
CHAINS: list[Any] = [
    ["x-outer", "x-inner", "#b"],
    "pierce/#b",
    "text/inside",
    "aria/Deep one",
    ["x-outer", "aria/Deep one"],
    ["aria/Box", "aria/Deep one"],
    ["x-outer", "x-inner", "xpath/.//button"],
    ["x-outer", "pierce/button"],
]


async def test_a_name_leads_to_its_element_however_the_page_changes_meanwhile(played: Played) -> None:
    """Something comes before it every few milliseconds, so that it is never where it was."""
    others = "<button onclick=\"document.title='wrong'\">Other</button>" * 20
    right = "<button onclick=\"document.title='right'\">Target</button>"
    grows = "setInterval(() => l.prepend(document.createElement('i')), 2)"
    await played.on(
        f"<h1>M</h1><div id=l>{others}{right}</div><script>{grows}</script>", {"do": "click", "on": "aria/Target"}
    )
    assert await _title(played) == "right"


async def test_each_kind_of_selector_finds_its_element(played: Played) -> None:
    for selector, title in KINDS:
        await played.on(PLAIN, {"do": "click", "on": [selector]})
        assert (selector, await _title(played)) == (selector, title)


async def test_chains_lead_through_shadow_roots(played: Played) -> None:
    for selector in CHAINS:
        await played.on(SHADOWS, {"do": "click", "on": [selector]})
        assert (selector, await _title(played)) == (selector, "deep")


async def test_css_alone_does_not_enter_shadow_roots(played: Played) -> None:
    with pytest.raises(Failed, match="step 2"):
        await played.on(SHADOWS, {"do": "click", "on": "#b", "timeout_seconds": 0.3})


async def test_the_page_is_left_without_a_mark(played: Played) -> None:
    body = "<h1>M</h1><button aria-label=Go>x</button><p></p>"
    watch = """<script>window.seen = []; new MutationObserver(all => seen.push(...all.map(one => one.type)))
.observe(document, {subtree: true, childList: true, attributes: true})</script>"""
    await played.on(body + watch, {"do": "hover", "on": "aria/Go"}, {"do": "click", "on": ["aria/Go"]})
    assert (
        await played.browser.evaluate("seen.filter(one => one !== 'childList').concat(Object.keys(window.look || {}))")
        == []
    )
    assert await played.browser.evaluate("document.querySelectorAll('button')[0].attributes.length") == 1


async def test_the_first_alternative_that_can_be_acted_upon_wins(played: Played) -> None:
    body = """<h1>A</h1><button id=hidden style="display:none">h</button><button id=late hidden>l</button>
<button id=covered style="position:absolute;top:200px;left:0;width:90px;height:30px">c</button>
<div style="position:absolute;top:190px;left:0;width:200px;height:90px;background:red;z-index:2"></div>
<button id=good style="position:absolute;top:400px" onclick="document.title='good'">g</button>"""
    await played.on(body, {"do": "click", "on": ["#hidden", "#covered", "#good"], "timeout_seconds": 5})
    assert await _title(played) == "good"
    assert played.times[-1].selector == "#good"


async def test_of_several_that_match_the_first_in_sight_is_meant(played: Played) -> None:
    body = "<h1>H</h1><input class=t hidden><input class=t id=seen><input class=t>"
    await played.on(body, {"do": "type", "on": ".t", "text": "x"})
    assert await played.browser.evaluate("[...document.querySelectorAll('.t')].map(one => one.value)") == ["", "x", ""]


async def test_an_alternative_that_comes_late_wins_over_none(played: Played) -> None:
    late = """<h1>L</h1><script>setTimeout(() => document.body.insertAdjacentHTML('beforeend',
'<button id=late onclick="document.title=1">x</button>'), 300)</script>"""
    await played.on(late, {"do": "click", "on": ["#never", "#late"]})
    assert await _title(played) == "1"
    assert played.times[-1].seconds >= 0.2


async def test_what_a_page_does_not_have_is_a_failed_action_and_names_the_step(played: Played) -> None:
    with pytest.raises(Failed) as failed:
        await played.on("<h1>N</h1>", {"do": "click", "on": ["aria/Search", "#no"], "timeout_seconds": 0.3})
    failure = failed.value.failure
    assert failure.kind is FailureKind.ACTION_FAILED
    assert failure.message.startswith(
        "step 2 (click aria/Search): the page http://site.example/page has no aria/Search"
    )


async def test_what_is_there_but_hidden_is_a_failed_action(played: Played) -> None:
    with pytest.raises(Failed, match="is there, but hidden") as failed:
        await played.on("<h1>N</h1><p id=p hidden>x</p>", {"do": "click", "on": "#p", "timeout_seconds": 0.3})
    assert failed.value.failure.kind is FailureKind.ACTION_FAILED


async def test_frames_are_told_by_their_numbers(played: Played) -> None:
    played.shows("/inner", "<h1>I</h1><iframe src='/innermost'></iframe>")
    played.shows("/innermost", "<button aria-label='Press me' onclick=\"this.textContent='done'\">x</button>")
    body = "<h1>F</h1><iframe src='about:blank'></iframe><iframe id=second src='/inner'></iframe>"
    await played.on(body, {"do": "click", "on": ["aria/Press me"], "frame": [1, 0]})
    frames = played.browser.raw.frames
    assert [await frame.inner_text("button") for frame in frames if frame.url.endswith("innermost")] == ["done"]


async def test_frames_in_other_processes_by_number_and_by_address(played: Played) -> None:
    played.site.answers["/other"] = played.site.answers.get("/other") or b""
    played.shows("/other", "<button aria-label=There onclick=\"location.href='/gone'\">x</button>")
    played.shows("/gone", "<button id=g onclick=\"this.textContent='yes'\">x</button>")
    frame = "http://elsewhere.example/other"
    await played.on(
        f"<h1>O</h1><iframe src='{frame}'></iframe>",
        {"do": "click", "on": ["aria/There"], "target": frame, "navigates": True},
        {"do": "click", "on": ["#g"], "frame": [0]},
    )
    assert await played.browser.raw.frames[1].inner_text("#g") == "yes"


async def test_selectors_hold_the_items_input(played: Played) -> None:
    body = "<h1>R</h1><button id=a-7 onclick=\"document.title='seven'\">7</button>"
    await played.on(body, {"do": "click", "on": "#a-{{ input.number }}"}, given={"number": "7"})
    assert await _title(played) == "seven"


async def test_text_is_the_smallest_element_with_it_also_when_it_is_spread(played: Played) -> None:
    body = "<h1>T</h1><div id=d onclick=\"document.title='d'\"><i>Par</i><b>cel</b> 9</div><script>'Parcel 9'</script>"
    await played.on(body, {"do": "click", "on": "text/Parcel 9"})
    assert await _title(played) == "d"


NASTY = (
    """row 9" or "1"="1""",
    "nope'], #all, [z='",
    '[role="paragraph"]',
    'say "hi"',
    """it's "both" \\ of 日""",
    "3",
    "-",
    "x, *",
)
IN_SELECTORS = (
    '[data-n="{{ input.n }}"]',
    "[data-n={{ input.n }}]",
    "#{{ input.n }}",
    "pierce/[data-n='{{ input.n }}']",
    'xpath///button[@data-n="{{ input.n }}"]',
    "xpath///button[.='{{ input.n }}']",
    "aria/{{ input.n }}",
    'aria/{{ input.n }}[role="button"]',
)


async def test_whatever_an_items_value_is_it_names_what_has_it_and_nothing_else(played: Played) -> None:
    """Security point 5: a value of an item adds no condition, no alternative and no role to a selector."""
    row = '<button id="{0}" data-n="{0}" onclick="said(this.dataset.n)">{0}</button>'
    script = """<script>const told = [];
const said = n => { told.push(n); document.body.dataset.told = JSON.stringify(told); }</script>"""
    decoys = f"<!doctype html>{script}<p role=paragraph onclick=\"said('other')\">x</p>{row.format('all')}"
    clicks = [{"do": "click", "on": selector} for selector in IN_SELECTORS]
    for value in NASTY:
        await played.on(decoys + row.format(escape(value)), *clicks, given={"n": value})
        assert await _told(played) == [value] * len(clicks)
    maybe = [{**click, "timeout_seconds": 0.1, "optional": True} for click in clicks]
    for value in NASTY[:3]:
        await played.on(decoys, *maybe, given={"n": value})
        assert await _told(played) == []


async def _told(played: Played) -> list[str]:
    return list(json.loads(await played.browser.evaluate("document.body.dataset.told || '[]'")))


async def test_a_value_that_names_nothing_is_the_items_fault(played: Played) -> None:
    with pytest.raises(Failed, match=r"step 2.*is empty, and names no element") as failed:
        await played.on(PLAIN, {"do": "click", "on": ".row {{ input.n }}"}, given={"n": ""})
    assert failed.value.failure.kind is FailureKind.INVALID_INPUT


async def test_a_failure_in_a_frame_leaves_what_stands_there(played: Played) -> None:
    played.shows("/inner", "<h1>Inner</h1><input id=t>")
    frame = "<h1>Outer</h1><iframe src='http://other.example/inner'></iframe>"
    typed = {"do": "type", "on": "#t", "text": "seen", "frame": [0]}
    missing = {"do": "click", "on": "#gone", "timeout_seconds": 0.3}
    for where in ({"frame": [0]}, {"target": "http://other.example/inner"}):
        played.browser.pages.clear()
        with pytest.raises(Failed, match="action_failed"):
            await played.on(frame, typed, {**missing, **where})
        assert played.browser.refused is not None
        assert b"Outer" in played.browser.refused.body
        kept = played.browser.pages["refused-frame"]
        assert (kept.text_of("h1"), kept.url) == ("Inner", "http://other.example/inner")
        assert b'value="seen"' in kept.page.body
    played.browser.pages.clear()
    with pytest.raises(Failed, match="action_failed"):
        await played.on(frame, missing)
    assert "refused-frame" not in played.browser.pages
