"""Every public recording of Chrome's recorder, imported and replayed in a real Chromium on the page it was made on: by
what it did there. docs/explanation/recordings.md has the table of them, which is checked here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from swath.domain.errors import BadInput, Failed
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.recordings.importers import import_recording
from tests.docs.pages import ROOT, code_in, rows_of, section_of
from tests.unit.fetch.browser.visiting import launched_browser
from tests.unit.recordings.public_pages import DATA, FOLDER, PublicScene, Replayed, public_scene

pytestmark = pytest.mark.req("A1", "A3", "A4")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the public recordings are not here")

PAGE: Final = ROOT / "docs/explanation/recordings.md"
RECORDED: Final = {"width": 1280, "height": 720}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(launched: ChromiumProcess) -> AsyncIterator[PublicScene]:
    async with public_scene(launched) as scene:
        yield scene


class Case(NamedTuple):
    """What a recording does on its page, in words and as a look at it."""

    effect: str
    seen: Callable[[Replayed], Awaitable[None]]


CASES: Final[dict[str, Case]] = {}


def effect(name: str, words: str) -> Callable[[Callable[[Replayed], Awaitable[None]]], None]:
    def keep(look: Callable[[Replayed], Awaitable[None]]) -> None:
        CASES[name] = Case(words, look)

    return keep


def clicked(played: Replayed, *on: str) -> None:
    assert [event.on for event in played.events if event.what == "click"] == list(on)


async def _encyclopaedia(played: Replayed) -> None:
    assert await played.evaluate("document.querySelector('h1').textContent") == "Not the real one"
    assert played.asked[0].endswith("wikipedia.org /")


for _name in ("example-recording", "folder-test_replay", "replay"):
    effect(f"puppeteer-replay__{_name}", "our page under that name is shown")(_encyclopaedia)


async def _opened(played: Replayed) -> None:
    assert played.shown == "recorder.html"
    assert played.asked.count(f"localhost {FOLDER}recorder.html") == 1


for _name in (
    "recorder-shortcuts-should-start-with-keyboard-shortcut-while-on-the-create-page-1",
    "recorder-shortcuts-should-stop-with-keyboard-shortcut-without-recording-it-1",
):
    effect(_name, "the page is opened, in a window of the recorded size")(_opened)


@effect("recorder-should-also-record-network-conditions-1", "two clicks; the page takes 2 s more, a later one 0.6 s")
async def _slow(played: Replayed) -> None:
    clicked(played, "test", "test")
    opening = next(time for time in played.times if time.what.startswith("goto"))
    assert opening.seconds >= 2.0
    took = await played.evaluate(
        "(async () => { const took = []; for (let n = 0; n < 3; n++) { const from = performance.now(); "
        "await fetch('?again'); took.push(performance.now() - from); } return Math.min(...took); })()"
    )
    assert 562 <= took < opening.seconds * 1_000


@effect(
    "recorder-should-break-out-shifts-in-text-controls-1", "1, Shift, then d are typed, and the page's log has 1 and 1d"
)
async def _shifts(played: Replayed) -> None:
    keys = [key for _, _, key in played.happened("keydown")]
    assert keys == ["Tab", "1", "Shift", "d"]
    assert [key for _, _, key in played.happened("keyup")] == keys
    assert await played.evaluate("document.getElementById('log').innerText") == "one:1\none:1d\n"


@effect(
    "recorder-should-capture-a-change-that-causes-navigation-without-blur-or-change-1",
    "Enter leads to the next page, where the key comes up",
)
async def _key_that_navigates(played: Replayed) -> None:
    pages = [f"localhost {FOLDER}{page}" for page in ("programmatic-navigation-on-keydown.html", "input.html")]
    assert [asked for asked in played.asked if asked in pages] == pages
    assert played.shown == "input.html"
    assert played.happened("keyup") == [("body", 0, "Enter")]


@effect("recorder-should-capture-clicks-on-buttons-with-custom-selector-attribute-1", "the button is clicked")
async def _custom_attribute(played: Replayed) -> None:
    clicked(played, "selector-attribute")


@effect("recorder-should-capture-clicks-on-submit-buttons-inside-of-forms-as-click-steps-1", "the form is sent")
async def _form_button(played: Replayed) -> None:
    assert [on for on, _, _ in played.happened("submit")] == ["form1"]
    assert await played.evaluate("document.getElementById('form1-result').textContent") == "From 1 Submitted"


@effect("recorder-should-capture-implicit-form-submissions-1", "Enter sends the form with what was typed")
async def _implicit(played: Replayed) -> None:
    assert played.shown == "form.html?name=test"
    assert f"localhost {FOLDER}form.html?name=test" in played.asked


@effect("recorder-should-capture-keyboard-events-on-non-text-inputs-1", "the colour is set, and the page is told")
async def _colour(played: Replayed) -> None:
    clicked(played, "color")
    assert await played.evaluate("document.getElementById('color').value") == "#333333"
    assert played.happened("change") == [("color", 0, "#333333")]
    assert await played.evaluate("document.getElementById('log').innerText") == "color:#333333\n"


@effect(
    "recorder-should-capture-non-primary-clicks-and-double-clicks-1", "all five buttons are seen, and a double click"
)
async def _buttons(played: Replayed) -> None:
    assert [button for _, _, button in played.happened("mousedown")] == [1, 2, 4, 3, 0, 0]
    assert [button for _, _, button in played.happened("auxclick")] == [1, 2, 4, 3]
    assert played.happened("dblclick") == [("mouse-button", 0, 0)]
    assert played.shown == "recorder.html"


@effect(
    "recorder-should-create-an-aria-selector-even-if-the-element-is-within-a-shadow-root-1",
    "the element in the shadow root is clicked",
)
async def _in_a_shadow(played: Replayed) -> None:
    clicked(played, "inner-span")


@effect("recorder-should-not-capture-synthetic-events-1", "one click; the page makes the other, and logs it")
async def _synthetic(played: Replayed) -> None:
    clicked(played, "synthetic", "synthetic-handler")
    assert [on for on, _, _ in played.happened("mousedown")] == ["synthetic"]
    assert [on for on, _, _ in played.happened("log")] == ["synthetic event handled"]


@effect(
    "recorder-should-record-interactions-with-elements-within-iframes-1", "a button in a frame, and one in its frame"
)
async def _frames(played: Replayed) -> None:
    assert [(on, depth) for on, depth, _ in played.happened("click")] == [("in-iframe", 1), ("inner-iframe", 2)]


@effect("recorder-should-record-oopif-interactions-1", "the frame of the other site goes to its next page")
async def _other_process(played: Replayed) -> None:
    other = f"devtools.oopif.test {FOLDER}"
    assert [asked for asked in played.asked if asked.startswith(other)] == [
        f"{other}iframe1.html",
        f"{other}iframe2.html",
    ]
    _, frame = played.place.page.frames
    assert frame.url == f"https://devtools.oopif.test:{played.site.port}{FOLDER}iframe2.html"
    await played.place.context.new_cdp_session(frame)  # raises unless it has a process of its own
    assert played.shown == "oopif.html"


@effect("recorder-should-work-for-checkbox-elements-1", "the box is ticked")
async def _checkbox(played: Replayed) -> None:
    assert await played.evaluate("document.getElementById('checkbox').checked") is True


@effect("recorder-should-work-for-select-elements-1", "the option is picked, and the page is told")
async def _select(played: Replayed) -> None:
    assert await played.evaluate("document.getElementById('select').value") == "O2"
    assert played.happened("change") == [("select", 0, "O2")]


@effect("recorder-should-work-with-shadow-inputs-1", "the box in the shadow root has the text")
async def _shadow_input(played: Replayed) -> None:
    value = "document.querySelector('custom-input').shadowRoot.querySelector('input').value"
    assert await played.evaluate(value) == "works"


CANNOT: Final = {
    "puppeteer-replay__replay-fail": "refused: it has no title, on purpose",
    "recorder-should-edit-while-recording-1": "has no `navigate`; with one before it, the button is clicked",
}


def files() -> dict[str, Path]:
    return {file.stem: file for file in [*DATA.glob("*.json"), *(DATA / "devtools-e2e").glob("*.json")]}


@needs_data
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", CASES)
async def test_a_public_recording_does_on_its_page_what_was_recorded(scene: PublicScene, name: str) -> None:
    text = files()[name].read_text(encoding="utf-8")
    async with scene.replayed(text, name) as played:
        await CASES[name].seen(played)
        if '"setViewport"' in text:
            assert await played.evaluate("({width: innerWidth, height: innerHeight})") == RECORDED
        assert {time.outcome for time in played.times} == {"done"}


@needs_data
@pytest.mark.req("Z5")
def test_the_one_without_a_title_is_refused_in_one_line() -> None:
    text = files()["puppeteer-replay__replay-fail"].read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r"^replay-fail.json: title is missing[^\n]*$"):
        import_recording(text, "replay-fail.json")


@needs_data
@pytest.mark.asyncio(loop_scope="module")
async def test_the_one_that_opens_nothing_says_so_and_works_when_something_is_opened_before(scene: PublicScene) -> None:
    text = files()["recorder-should-edit-while-recording-1"].read_text(encoding="utf-8")
    (remark,) = import_recording(text, "as recorded").remarks
    assert "opens no page" in remark.text
    with pytest.raises(Failed, match=r"step 2 \(click aria/Test Button\): the page about:blank has no"):
        async with scene.replayed(text, "as recorded"):
            pass
    url = f"https://localhost:<test-port>{FOLDER}recorder.html"
    opened = text.replace('"steps": [', f'"steps": [{{"type": "navigate", "url": "{url}"}},', 1)
    assert opened != text
    async with scene.replayed(opened, "with an address") as played:
        clicked(played, "test")


def test_the_table_of_the_docs_has_what_is_asserted_of_each() -> None:
    table = rows_of(section_of(PAGE.read_text(encoding="utf-8"), "## Public recordings"))
    told = {code_in(cells[0])[0]: tuple(cells[1:]) for cells in table}
    wanted = {name: ("replays", case.effect) for name, case in CASES.items()}
    wanted |= {name: ("cannot", words) for name, words in CANNOT.items()}
    lines = [f"| `{name}` | {' | '.join(words)} |" for name, words in sorted(wanted.items())]
    assert told == wanted, "\n".join(["the table should be", *lines])


@needs_data
def test_none_is_left_out() -> None:
    assert files().keys() == CASES.keys() | CANNOT.keys()
