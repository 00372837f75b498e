"""What the public recordings lack, as Chrome would write it, on the pages its replay library is tested on: windows,
hovering, scrolling, waiting for elements, lists of selectors of which the first are wrong.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.fetch.browser.chromium.launch import ChromiumProcess
from tests.unit.fetch.browser.visiting import launched_browser
from tests.unit.recordings.public_pages import DATA, REPLAY_FOLDER, PublicScene, public_scene

pytestmark = [
    pytest.mark.req("A1", "A3", "A4"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not DATA.is_dir(), reason="the pages are not here"),
]

SITE: Final = f"https://localhost:<test-port>{REPLAY_FOLDER}"
OFFSETS: Final = {"offsetX": 5, "offsetY": 5}
OPEN_POPUP: Final = {"type": "click", "selectors": [["aria/Open Popup"], ["#popup"]], **OFFSETS}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(launched: ChromiumProcess) -> AsyncIterator[PublicScene]:
    async with public_scene(launched) as scene:
        yield scene


def recorded(page: str, *steps: dict[str, Any]) -> str:
    """A recording as Chrome exports it."""
    return json.dumps({"title": "Ours", "steps": [{"type": "navigate", "url": SITE + page}, *steps]})


def click(*selectors: str | list[str], **more: Any) -> dict[str, Any]:
    return {"type": "click", "selectors": [one if isinstance(one, list) else [one] for one in selectors], **more}


async def test_hover(scene: PublicScene) -> None:
    text = recorded("main.html", {"type": "hover", "selectors": [["#hover-button"]]})
    async with scene.replayed(text, "hover") as played:
        assert await played.evaluate("document.getElementById('hover-button').textContent") == "Hovered"


async def test_a_window_by_its_address_and_back_to_the_main_one(scene: PublicScene) -> None:
    popup = {"target": f"{SITE}popup.html"}
    text = recorded(
        "main.html", OPEN_POPUP, click("aria/Button in Popup", **OFFSETS, **popup), click("#test", target="main")
    )
    async with scene.replayed(text, "window") as played:
        assert f"localhost {REPLAY_FOLDER}popup.html" in played.asked
        assert [on for on, _, _ in played.happened("click")] == ["popup", "test"]
        assert [time.selector for time in played.times[1:]] == ["aria/Open Popup", "aria/Button in Popup", "#test"]


async def test_a_window_whose_address_is_that_of_another_day_is_the_newest(scene: PublicScene) -> None:
    text = recorded("main.html", OPEN_POPUP, click("text/Button in Popup", target=f"{SITE}popup.html?day=1"))
    async with scene.replayed(text, "newest") as played:
        assert played.times[-1].selector == "text/Button in Popup"


async def test_close(scene: PublicScene) -> None:
    """After it there is no window to click in any more."""
    popup = {"target": f"{SITE}popup.html"}
    shut = [OPEN_POPUP, click("button", **popup), {"type": "close", **popup}]
    async with scene.replayed(recorded("main.html", *shut, click("#test")), "close") as played:
        assert [on for on, _, _ in played.happened("click")] == ["popup", "test"]
    gone = click("text/Button in Popup", timeout=500, **popup)
    with pytest.raises(Failed, match=r"step 5 \(click text/Button in Popup\)"):
        async with scene.replayed(recorded("main.html", *shut, gone), "closed"):
            pass


async def test_scrolling_the_window_and_an_element(scene: PublicScene) -> None:
    text = recorded(
        "scroll.html",
        {"type": "scroll", "x": 20, "y": 40},
        {"type": "scroll", "x": 0, "y": 30, "selectors": [["#overflow"]]},
    )
    async with scene.replayed(text, "scroll") as played:
        assert await played.evaluate("[scrollX, scrollY, document.getElementById('overflow').scrollTop]") == [
            20,
            40,
            30,
        ]


async def test_what_comes_late_and_far_down_is_scrolled_to(scene: PublicScene) -> None:
    async with scene.replayed(recorded("scroll-into-view.html", click("button", **OFFSETS)), "into view") as played:
        assert await played.evaluate("document.querySelector('button').innerText") == "clicked"


COUNTED: Final = [["custom-element", "button"]]


@pytest.mark.parametrize(
    ("clicks", "wanted"),
    [
        (1, {"count": 2}),
        (2, {"count": 3, "operator": "=="}),
        (0, {"count": 1, "operator": "<="}),
        (0, {"attributes": {"class": "unknown"}, "properties": {"id": "test"}, "visible": True}),
    ],
)
async def test_elements_are_waited_for(scene: PublicScene, clicks: int, wanted: dict[str, Any]) -> None:
    steps = [click(["custom-element", "#test"])] * clicks
    text = recorded("shadow-dynamic.html", *steps, {"type": "waitForElement", "selectors": COUNTED, **wanted})
    async with scene.replayed(text, "wait") as played:
        assert await played.evaluate("document.querySelectorAll('custom-element').length") >= min(clicks, 1) + 1
        assert played.times[-1].outcome == "done"


@pytest.mark.parametrize(
    "wanted",
    [
        {"count": 2},
        {"count": 0, "operator": "=="},
        {"count": 0, "operator": "<="},
        {"attributes": {"class": "other"}},
        {"properties": {"id": "other"}},
        {"visible": False},
    ],
)
async def test_what_is_not_so_is_not_taken_for_it(scene: PublicScene, wanted: dict[str, Any]) -> None:
    step = {"type": "waitForElement", "selectors": COUNTED, "timeout": 400, **wanted}
    with pytest.raises(Failed, match=r"action_failed: step 2 \(wait for custom-element > button\)"):
        async with scene.replayed(recorded("shadow-dynamic.html", step), "wait"):
            pass


async def test_more_than_are_counted_are_enough_unless_something_else_is_said(scene: PublicScene) -> None:
    """As Chrome's runner has it, and not as its schema says."""
    wait = {"type": "waitForElement", "selectors": COUNTED}
    steps = [*[click(["custom-element", "#test"])] * 2, {**wait, "count": 3, "operator": "=="}, {**wait, "count": 2}]
    async with scene.replayed(recorded("shadow-dynamic.html", *steps), "wait") as played:
        assert [time.outcome for time in played.times] == ["done"] * 5


async def test_the_first_selectors_may_be_wrong(scene: PublicScene) -> None:
    text = recorded("main.html", click("aria/Gone", "#gone", "xpath///*[@id='gone']", "pierce/#inner-span"))
    async with scene.replayed(text, "alternatives") as played:
        assert [on for on, _, _ in played.happened("click")] == ["inner-span"]
        assert played.times[-1].selector == "pierce/#inner-span"


async def test_a_drawing_and_what_hangs_out_of_a_parent_without_size_are_clicked(scene: PublicScene) -> None:
    async with scene.replayed(recorded("svg.html", click("svg > path", offsetX=150, offsetY=150)), "svg") as played:
        assert [on for on, _, _ in played.happened("click")] == ["path"]
    async with scene.replayed(recorded("invisible-parent.html", click("aria/test")), "parent") as played:
        assert [on for on, _, _ in played.happened("click")] == ["button"]


async def test_a_frame_that_moves_to_another_site(scene: PublicScene) -> None:
    leave = click("aria/To iframe 2", frame=[0], assertedEvents=[{"type": "navigation", "url": "", "title": ""}])
    back = click("text/To iframe 1", target=f"https://oopifdomain:<test-port>{REPLAY_FOLDER}iframe2.html")
    async with scene.replayed(recorded("local-to-oopif.html", leave, back), "frame") as played:
        asked = [one for one in played.asked if one.startswith("oopifdomain ")]
        assert asked[0] == f"oopifdomain {REPLAY_FOLDER}iframe2.html"
        assert played.times[-1].selector == "text/To iframe 1"
