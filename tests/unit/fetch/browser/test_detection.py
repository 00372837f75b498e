"""What a page can find out about our browsers, seen by a detection page of our own in a real Chromium.

In windows on a screen that nobody looks at, nothing but what docs/decisions/0018 names; headless somewhat more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from patchright.async_api import Browser, BrowserContext

from harness.fakes.detection_page.facts import Facts, Realm, Window
from harness.fakes.detection_page.judge import PROBES, judge, tells
from harness.fakes.detection_page.site import DetectionSite
from swath.fetch.browser.chromium.display import Display, DisplayAddress, find_display_program
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import ChromiumProcess, launch
from swath.fetch.browser.fingerprint.apply import apply_profile, context_options
from swath.fetch.browser.fingerprint.profile import Engine, Profile, engine_here, next_profile
from swath.fetch.browser.fingerprint.regions import countries, region_of
from tests.unit.fetch.browser.launching import launching, refusing_port, windows_may_load

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_A_PLACE = ("window", "popup", "frame", "elsewhere", "worker")


class Faces:
    """Browsers with windows and without, started when first needed, and the page that looks at them."""

    def __init__(self, site: DetectionSite, data: Path, deny_port: int) -> None:
        self.site = site
        self._options = launching(data, deny_port)
        self._launched: dict[bool, ChromiumProcess] = {}
        self._display: Display | None = None
        self._visits = 0

    async def browser(self, *, headless: bool) -> Browser:
        if headless not in self._launched:
            name = None if headless else await self._screen()
            with windows_may_load():  # as those are let that somebody wants
                self._launched[headless] = await launch(msgspec.structs.replace(self._options, display=name))
        return self._launched[headless].browser

    async def engine(self, *, headless: bool) -> Engine:
        return engine_here((await self.browser(headless=headless)).version, headless=headless)

    async def context(self, profile: Profile | None, *, headless: bool) -> BrowserContext:
        browser = await self.browser(headless=headless)
        options = {} if profile is None else context_options(profile)
        return await browser.new_context(proxy={"server": f"http://127.0.0.1:{self.site.port}"}, **options)

    async def look(
        self, profile: Profile | None, *, headless: bool, before: Callable[[BrowserContext], Any] | None = None
    ) -> Facts:
        """One visit in a context of its own; without a profile, as the driver makes it."""
        self._visits += 1
        visit = f"visit{self._visits}"
        context = await self.context(profile, headless=headless)
        try:
            page = await context.new_page()
            if profile is not None:
                await apply_profile(context, profile)
            if before is not None:
                await before(context)
            await page.goto(self.site.address(visit))
            await page.click("#start")
            return await self.site.report(visit)
        finally:
            await context.close()

    async def _screen(self) -> DisplayAddress:
        if self._display is None:
            program = find_display_program()
            assert program is not None, "install Xvfb (`apt-get install xvfb`): browsers get windows by it"
            self._display = Display(program, find().sandbox.leash)
        return await self._display.screen()

    async def close(self) -> None:
        for launched in self._launched.values():
            await launched.close()
        if self._display is not None:
            await self._display.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faces(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Faces]:
    with refusing_port() as port:
        async with DetectionSite() as site:
            made = Faces(site, tmp_path_factory.mktemp("data"), port)
            try:
                yield made
            finally:
                await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(faces: Faces) -> Facts:
    """A window without a region."""
    return await faces.look(next_profile(None, await faces.engine(headless=False), None, Random(1)), headless=False)


@pytest.mark.req("B2")
async def test_a_browser_with_windows_shows_no_tell_at_all(faces: Faces, plain: Facts) -> None:
    assert tells(plain) == {}
    engine = await faces.engine(headless=False)
    arizona = next_profile(None, engine, region_of("us", "az"), Random(2))
    seen = await faces.look(arizona, headless=False)
    assert tells(seen) == {}
    assert {realm.timezone for realm in seen.realms.values()} == {"America/Phoenix"}


@pytest.mark.req("B2")
async def test_the_profile_knows_what_the_browser_says_by_itself(faces: Faces, plain: Facts) -> None:
    profile = next_profile(None, await faces.engine(headless=False), None, Random(1))
    window = plain.realms["window"]
    assert profile.natural
    assert window.user_agent == profile.user_agent
    assert window.brands == list(profile.hints.brands)
    assert window.high is not None
    assert window.high.full_versions == list(profile.hints.full_versions)
    assert window.high.architecture == profile.hints.architecture
    assert window.high.platform_version == profile.hints.platform_version
    assert (plain.window.inner.width, plain.window.inner.height) == (profile.viewport.width, profile.viewport.height)
    assert (plain.window.screen.width, plain.window.screen.height) == (profile.screen.width, profile.screen.height)


@pytest.mark.req("B2", "property 15")
@pytest.mark.parametrize(("country", "zone"), [("de", "Europe/Berlin"), ("gb", "Europe/London")])
async def test_a_region_is_shown_by_all_but_workers(faces: Faces, country: str, zone: str) -> None:
    profile = next_profile(None, await faces.engine(headless=False), region_of(country), Random(3))
    seen = await faces.look(profile, headless=False)
    left = tells(seen)
    assert left.keys() <= {"languages"}
    gaps = ("shared: ", "first request of service: ", "worker: ")
    assert all(reason.startswith(gaps) for reason in left.get("languages", []))
    for place in OF_A_PLACE:
        assert seen.realms[place].timezone == zone
        if place != "worker":  # which the driver may let go before it is told; docs/status.md says so
            assert tuple(seen.realms[place].languages) == profile.languages


@pytest.mark.req("B2", "property 15")
async def test_headless_shows_what_it_is_only_where_the_decision_says(faces: Faces) -> None:
    profile = next_profile(None, await faces.engine(headless=True), region_of("de"), Random(4))
    left = tells(await faces.look(profile, headless=True))
    assert left.keys() <= {"headless", "user agent", "client hints", "languages", "WebGL", "screen"}
    for probe in ("headless", "user agent", "client hints", "languages"):
        for reason in left.get(probe, []):
            assert reason.startswith(("shared: ", "service: ", "first request of service: ", "worker: "))


@pytest.mark.req("B3")
async def test_a_telephone_is_emulated_in_all_but_shared_and_service_workers(faces: Faces) -> None:
    profile = next_profile(None, await faces.engine(headless=False), region_of("us"), Random(5), mobile=True)
    seen = await faces.look(profile, headless=False)
    assert seen.window.touch_points > 0
    for reasons in tells(seen).values():
        assert all(reason.startswith(("shared: ", "service: ", "first request of service: ")) for reason in reasons)
    window = seen.realms["window"]
    assert (window.mobile, window.hint_platform) == (True, "Android")
    assert window.high is not None
    assert window.high.architecture == profile.hints.architecture
    assert window.high.platform_version == profile.hints.platform_version


@pytest.mark.req("B2", "property 16")
async def test_two_contexts_at_once_have_faces_of_their_own(faces: Faces) -> None:
    engine = await faces.engine(headless=True)
    first = next_profile(None, engine, region_of("de"), Random(6))
    second = next_profile(first, engine, region_of("jp"), Random(7))
    seen = await asyncio.gather(faces.look(first, headless=True), faces.look(second, headless=True))
    for profile, facts in zip((first, second), seen, strict=True):
        assert {facts.realms[place].timezone for place in OF_A_PLACE} == {profile.timezone}
        told = [tuple(facts.realms[place].languages) for place in OF_A_PLACE if place != "worker"]
        assert set(told) == {profile.languages}
        assert facts.window.inner.width == profile.viewport.width
        assert facts.arrivals["popup"]["accept-language"].split(";")[0] == ",".join(profile.languages or ())


@pytest.mark.req("B2")
async def test_the_drivers_own_way_is_found_out(faces: Faces) -> None:
    async def listen_to_the_console(context: BrowserContext) -> None:
        session = await context.new_cdp_session(context.pages[0])
        await session.send("Runtime.enable")

    found = tells(await faces.look(None, headless=True, before=listen_to_the_console))
    assert {"headless", "screen", "console", "WebGL"} <= found.keys()


@pytest.mark.req("B2")
async def test_scripts_that_hide_something_are_found_out(faces: Faces) -> None:
    async def hide(context: BrowserContext) -> None:
        await context.add_init_script(
            "Object.defineProperty(navigator, 'webdriver', {get: () => false}); window.chrome.runtime = {};"
        )

    found = tells(await faces.look(None, headless=True, before=hide))
    assert {"webdriver", "chrome object"} <= found.keys()


@pytest.mark.req("B2", "property 15")
async def test_chromium_knows_every_time_zone_and_language_of_the_regions(faces: Faces) -> None:
    regions = [region for code in countries() if (region := region_of(code)) is not None]
    states = [region for code in ("in", "ky", "mi", "hi", "id", "ak") if (region := region_of("us", code)) is not None]
    context = await faces.context(None, headless=True)
    page = await context.new_page()
    unknown = await page.evaluate(
        """([zones, tags]) => [
            ...zones.filter((timeZone) => { try { Intl.DateTimeFormat("en", { timeZone }) } catch { return true } }),
            ...tags.filter((tag) => { try { Intl.getCanonicalLocales(tag) } catch { return true } }),
        ]""",
        [[r.timezone for r in (*regions, *states)], [tag for r in regions for tag in r.languages]],
    )
    await context.close()
    assert unknown == []


def _in_window(**changes: object) -> Callable[[Facts], Facts]:
    def change(facts: Facts) -> Facts:
        window: Window = msgspec.structs.replace(facts.window, **changes)
        return msgspec.structs.replace(facts, window=window)

    return change


def _in_place(name: str, **changes: object) -> Callable[[Facts], Facts]:
    def change(facts: Facts) -> Facts:
        realm: Realm = msgspec.structs.replace(facts.realms[name], **changes)
        return msgspec.structs.replace(facts, realms={**facts.realms, name: realm})

    return change


def _in_request(name: str, header: str, value: str) -> Callable[[Facts], Facts]:
    def change(facts: Facts) -> Facts:
        return msgspec.structs.replace(
            facts, arrivals={**facts.arrivals, name: {**facts.arrivals[name], header: value}}
        )

    return change


@pytest.mark.req("B2")
@pytest.mark.parametrize(
    ("probe", "change"),
    [
        ("places", _in_place("popup", error="no answer")),
        ("webdriver", _in_place("frame", webdriver=True)),
        ("headless", _in_request("service", "user-agent", "HeadlessChrome/150.0.0.0")),
        ("user agent", _in_place("worker", user_agent="Mozilla/5.0 (X11; Linux x86_64) Chrome/149.0.0.0")),
        ("client hints", _in_place("shared", brands=[("Chromium", "149")])),
        ("client hints in headers", _in_request("popup", "sec-ch-ua-platform", '"Windows"')),
        ("platform", _in_place("elsewhere", hint_platform="Windows")),
        ("time zone", _in_place("window", offsets=[-60, -120])),
        ("languages", _in_request("window", "accept-language", "en-GB,en;q=0.9")),
        ("plugins", _in_window(plugins=[])),
        ("permissions", _in_window(notifications={"query": "prompt", "property": "denied"})),
        ("WebGL", _in_window(graphics={"vendor": "Brian Paul", "renderer": "Mesa OffScreen"})),
        ("screen", _in_window(scrollbar=0)),
        ("pointer", _in_window(hover=False)),
        ("console", _in_window(runtime=msgspec.convert({"names": 3, "steps": 5, "tableMs": 900.0}, Any))),
        ("chrome object", _in_window(chrome="undefined")),
        ("traces", _in_window(traces=["__playwright"])),
    ],
)
async def test_every_probe_can_fail(plain: Facts, probe: str, change: Callable[[Facts], Facts]) -> None:
    changed = msgspec.convert(msgspec.to_builtins(change(plain)), Facts)
    assert probe in tells(changed)


async def test_every_probe_reports(plain: Facts) -> None:
    assert [finding.probe for finding in judge(plain)] == list(PROBES)
    assert msgspec.json.encode(judge(plain))
