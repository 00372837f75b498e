"""Windows that a recording goes on in (A3): by address, by being the newest, through the gate, with their opener."""

import asyncio

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from tests.unit.fetch.browser.visited_site import HOST, moved
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A3", "A4"), pytest.mark.asyncio(loop_scope="module")]

MAIN = """<h1>Main</h1><a id=link target=_blank rel=opener href='/pop'>pop</a>
<button id=open onclick="window.open('/pop?id=7')">o</button>
<button id=blank onclick="const w = window.open(''); w.document.write('<h1 id=w>written</h1>')">w</button>
<button id=late onclick="const w = window.open('about:blank'); setTimeout(() => w.location = '/pop?late', 100)">l
</button>
<form method=post action=/pop target=_blank><button id=post>p</button></form>"""
POP = """<h1>Pop</h1><button id=tell onclick="opener.document.querySelector('h1').textContent = 'told'">t</button>
<button id=shut onclick="opener.document.title = 'shut'; window.close()">s</button><a id=on href=/on>on</a>"""


@pytest.fixture
def main(played: Played) -> Played:
    played.shows("/page", MAIN)
    played.shows("/pop", POP)
    played.shows("/on", "<h1>On</h1>")
    return played


GOTO = {"do": "goto", "url": "/page"}


async def test_a_window_by_its_address_with_its_opener_and_through_the_gate(main: Played) -> None:
    await main.play(
        GOTO,
        {"do": "click", "on": "#link"},
        {"do": "click", "on": "#tell", "target": f"{HOST}/pop"},
        {"do": "wait_for", "on": "text/told"},
    )
    assert main.gate.events.count("enter /pop") == 1
    assert main.site.paths() == ["/page", "/pop"]
    asked = next(asked for asked in main.site.asked if asked.path == "/pop")
    assert f"Referer: {HOST}/page" in asked.head
    assert await main.text("h1") == "told"


async def test_the_gate_comes_before_the_first_request_of_a_window(main: Played) -> None:
    main.gate.refusals["/pop"] = Failed(Failure.of(FailureKind.ROBOTS_DENIED, "no"))
    with pytest.raises(Failed) as failed:
        await main.play(GOTO, {"do": "click", "on": "#link"}, {"do": "click", "on": "#tell", "target": "newest"})
    assert failed.value.failure.kind is FailureKind.ROBOTS_DENIED
    assert main.site.paths() == ["/page"]


async def test_what_the_window_goes_to_next_passes_the_gate_too(main: Played) -> None:
    main.site.answers["/pop"] = moved("/on")
    await main.play(GOTO, {"do": "click", "on": "#link"}, {"do": "save_page", "page": "popup", "target": "newest"})
    assert main.gate.events.count("enter /on") == 1
    assert main.browser.pages["popup"].text_of("h1") == "On"
    main.shows("/pop", POP)
    step = {"do": "click", "on": "#on", "target": "newest", "navigates": True}
    await main.play(GOTO, {"do": "click", "on": "#open"}, step, {"do": "save_page", "page": "p", "target": "newest"})
    assert main.browser.pages["p"].text_of("h1") == "On"
    assert main.gate.events.count("enter /on") == 2


async def test_an_address_that_nothing_has_is_the_newest_window(main: Played) -> None:
    await main.play(
        GOTO, {"do": "click", "on": "#open"}, {"do": "click", "on": "#tell", "target": f"{HOST}/other?id=1"}
    )
    assert await main.text("h1") == "told"


@pytest.mark.parametrize("target", ["newest", f"{HOST}/pop"])
async def test_a_window_that_opens_late_is_waited_for(main: Played, target: str) -> None:
    main.shows("/page", "<h1>Main</h1><button id=b onclick=\"setTimeout(() => window.open('/pop'), 1200)\">b</button>")
    read = {"do": "extract", "field": "h", "on": "h1", "target": target}
    await main.play(GOTO, {"do": "click", "on": "#b"}, read)
    assert main.browser.pages["html"].text_of("h1") == "Pop"


@pytest.mark.parametrize(
    ("target", "why"), [("newest", "no window was opened"), (f"{HOST}/pop", "no window or frame is at")]
)
async def test_the_main_window_does_not_stand_in_for_one_that_never_opens(main: Played, target: str, why: str) -> None:
    step = {"do": "save_page", "page": "p", "target": target, "timeout_seconds": 0.6}
    with pytest.raises(Failed, match=why) as failed:
        await main.play(GOTO, {"do": "click", "on": "h1"}, step)
    assert failed.value.failure.kind is FailureKind.LAYOUT_CHANGED
    assert "p" not in main.browser.pages


async def test_the_items_input_is_in_the_address_of_a_window(main: Played) -> None:
    target = f"{HOST}/pop?id={{{{ input.id }}}}"
    await main.play(
        GOTO,
        {"do": "click", "on": "#open"},
        {"do": "click", "on": "#link"},
        {"do": "save_page", "page": "p", "target": target},
        given={"id": "7"},
    )
    assert main.browser.pages["p"].url == f"{HOST}/pop?id=7"


@pytest.mark.parametrize("address", ["/pop?id={{ input.id }}", "/other/{{ input.id }}"])
async def test_no_other_window_stands_in_for_that_of_the_item(main: Played, address: str) -> None:
    """It would be another item's record."""
    step = {"do": "save_page", "page": "p", "target": f"{HOST}{address}", "timeout_seconds": 0.6}
    with pytest.raises(Failed, match=r"step 3.*no window or frame is at") as failed:
        await main.play(GOTO, {"do": "click", "on": "#open"}, step, given={"id": "8"})
    assert failed.value.failure.kind is FailureKind.LAYOUT_CHANGED
    assert "p" not in main.browser.pages


async def test_a_condition_on_the_items_window_looks_at_no_other(main: Played) -> None:
    condition = {"on": "#tell", "target": f"{HOST}/pop?id={{{{ input.id }}}}"}
    step = {"do": "if", "condition": condition, "then": [{"do": "stop", "outcome": "failed", "message": "seen"}]}
    await main.play(GOTO, {"do": "click", "on": "#open"}, step, given={"id": "8"})
    with pytest.raises(Failed, match="seen"):
        await main.play(GOTO, {"do": "click", "on": "#open"}, step, given={"id": "7"})


async def test_windows_that_are_written_or_go_on_by_themselves(main: Played) -> None:
    await main.play(GOTO, {"do": "click", "on": "#blank"}, {"do": "wait_for", "on": "#w", "target": "newest"})
    await main.play(GOTO, {"do": "click", "on": "#late"}, {"do": "click", "on": "#tell", "target": "newest"})
    assert await main.text("h1") == "told"
    assert main.gate.events.count("enter /pop?late") == 1


async def test_a_window_that_shuts_itself_has_done_what_it_should(main: Played) -> None:
    await main.play(
        GOTO,
        {"do": "click", "on": "#link"},
        {"do": "click", "on": "#shut", "target": f"{HOST}/pop"},
        {"do": "wait_for", "on": "h1"},
    )
    assert await main.browser.evaluate("document.title") == "shut"
    assert main.outcomes == ["done"] * 4


async def test_close_shuts_a_window_and_the_main_one_goes_on(main: Played) -> None:
    await main.play(
        GOTO, {"do": "click", "on": "#link"}, {"do": "close", "target": f"{HOST}/pop"}, {"do": "click", "on": "h1"}
    )
    assert len(main.browser.raw.context.pages) == 1


async def test_a_window_opened_by_post_is_a_clear_failure(main: Played) -> None:
    with pytest.raises(Failed, match="a window is opened by POST"):
        await main.play(GOTO, {"do": "click", "on": "#post"}, {"do": "click", "on": "#tell", "target": "newest"})
    assert main.site.paths() == ["/page"]


async def test_windows_that_no_step_names_are_shut(main: Played) -> None:
    await main.play(GOTO, {"do": "click", "on": "#link"}, {"do": "wait_for", "seconds": 0.5})
    assert len(main.browser.raw.context.pages) == 1


async def test_a_site_that_lets_in_one_at_a_time_is_not_waited_for_by_ourselves(main: Played) -> None:
    async def never(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    main.shows("/page", MAIN + "<img src=/never.png>")
    main.site.answers["/never.png"] = never
    goto = {**GOTO, "timeout_seconds": 5}
    await main.play(goto, {"do": "click", "on": "#link"}, {"do": "click", "on": "#tell", "target": "newest"})
    assert main.gate.most_open == 1


async def test_a_click_in_a_window_that_moves_the_main_one(main: Played) -> None:
    main.shows("/pop", "<h1>Pop</h1><button id=b onclick=\"opener.location.href = '/on'\">x</button>")
    await main.play(
        GOTO,
        {"do": "click", "on": "#link"},
        {"do": "click", "on": "#b", "target": "newest"},
        {"do": "wait_for", "url": "/on"},
        {"do": "save_page", "page": "main"},
    )
    assert main.browser.pages["main"].text_of("h1") == "On"
    assert main.gate.events.count("enter /on") == 1
