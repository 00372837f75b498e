"""Faces are drawn, not invented: in range, of one region, never twice the same in a row, and of the real browser."""

import re
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.fetch.browser.fingerprint.apply import context_options
from swath.fetch.browser.fingerprint.profile import SCREENS, Engine, Profile, brands_of, next_profile
from swath.fetch.browser.fingerprint.regions import Region, countries, region_of

ENGINE = Engine(version="150.0.7871.100", system="Linux", headless=False)
HEADLESS = Engine(version="150.0.7871.100", system="Linux", headless=True)

engines = st.builds(
    Engine,
    version=st.integers(120, 400).map(lambda major: f"{major}.0.7871.100"),
    system=st.sampled_from(["Linux", "macOS", "Windows"]),
    headless=st.booleans(),
)
regions = st.sampled_from([region for code in sorted(countries()) if (region := region_of(code)) is not None])
draws = st.integers(0, 2**64).map(Random)


@pytest.mark.req("B2", "property 14")
@given(engines, st.none() | regions, draws)
def test_fingerprint_values_stay_in_their_ranges_and_lists(engine: Engine, region: Region | None, draw: Random) -> None:
    profile = next_profile(None, engine, region, draw)
    assert 1280 <= profile.viewport.width <= 1920
    assert 720 <= profile.viewport.height <= 1080
    assert profile.screen in SCREENS
    assert profile.viewport.width < profile.screen.width
    assert profile.viewport.height < profile.screen.height
    assert profile.scale in {1.0, 1.25, 1.5}
    major = engine.version.split(".")[0]
    assert f" Chrome/{major}.0.0.0 Safari" in profile.user_agent
    assert ("Chromium", engine.version) in profile.hints.full_versions
    assert profile.hints.platform == engine.system
    assert "Headless" not in profile.user_agent


@pytest.mark.req("B2", "property 15")
@given(regions, draws, st.booleans())
def test_time_zone_language_and_location_agree_with_the_region(region: Region, draw: Random, mobile: bool) -> None:
    options = context_options(next_profile(None, ENGINE, region, draw, mobile=mobile))
    assert options["timezone_id"] == region.timezone
    asked = options.get("locale", "en-US,en").split(",")
    assert tuple(asked) == region.languages[: len(asked)]
    assert abs(options["geolocation"]["latitude"] - region.latitude) < 0.1
    assert abs(options["geolocation"]["longitude"] - region.longitude) < 0.1
    assert "permissions" not in options


@pytest.mark.req("B2", "property 16")
@given(engines, st.lists(st.tuples(st.none() | regions, st.booleans()), min_size=2, max_size=20), draws)
def test_consecutive_fingerprints_differ(
    engine: Engine, wishes: list[tuple[Region | None, bool]], draw: Random
) -> None:
    previous: Profile | None = None
    for region, mobile in wishes:
        profile = next_profile(previous, engine, region, draw, mobile=mobile)
        assert previous is None or profile.viewport != previous.viewport
        previous = profile


@pytest.mark.req("B2")
def test_the_same_draw_gives_the_same_face() -> None:
    assert next_profile(None, ENGINE, None, Random(7)) == next_profile(None, ENGINE, None, Random(7))


@pytest.mark.req("B2")
def test_without_a_region_nothing_is_invented() -> None:
    options = context_options(next_profile(None, ENGINE, None, Random(1)))
    assert not options.keys() & {"locale", "timezone_id", "geolocation", "user_agent"}


@pytest.mark.req("B2")
def test_the_user_agent_is_said_only_where_the_browser_would_say_headless() -> None:
    assert "user_agent" not in context_options(next_profile(None, ENGINE, None, Random(1)))
    said = context_options(next_profile(None, HEADLESS, None, Random(1)))["user_agent"]
    assert said == (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"
    )


@pytest.mark.req("B2")
def test_brands_are_those_of_the_binary() -> None:
    short, full = brands_of("150.0.7871.100", "Chromium")
    assert short == (("Not;A=Brand", "8"), ("Chromium", "150"))
    assert full == (("Not;A=Brand", "8.0.0.0"), ("Chromium", "150.0.7871.100"))
    assert {name for name, _ in brands_of("143.0.7499.40", "Google Chrome")[0]} == {
        "Chromium",
        "Google Chrome",
        "Not A(Brand",
    }


@pytest.mark.req("B2")
def test_a_telephone_is_one_in_all_its_values() -> None:
    profile = next_profile(None, ENGINE, None, Random(3), mobile=True)
    options = context_options(profile)
    assert (options["is_mobile"], options["has_touch"]) == (True, True)
    assert "Android" in options["user_agent"]
    assert " Mobile " in options["user_agent"]
    assert options["viewport"]["width"] < 500 <= options["viewport"]["height"] < options["screen"]["height"]
    assert (profile.hints.platform, profile.hints.mobile) == ("Android", True)


@pytest.mark.req("B2", "property 15")
@pytest.mark.parametrize(
    ("country", "state", "zone", "language", "latitude"),
    [
        ("us", None, "America/New_York", "en-US", 40.7),
        ("US", "az", "America/Phoenix", "en-US", 33.4),
        ("us", "ZZ", "America/New_York", "en-US", 40.7),
        ("de", None, "Europe/Berlin", "de-DE", 52.5),
        ("gb", "en", "Europe/London", "en-GB", 51.5),
        ("ru", None, "Europe/Moscow", "ru-RU", 55.8),
        ("br", None, "America/Sao_Paulo", "pt-BR", -23.5),
        ("ca", None, "America/Toronto", "en-CA", 43.7),
        ("au", None, "Australia/Sydney", "en-AU", -33.9),
        ("jp", None, "Asia/Tokyo", "ja-JP", 35.7),
    ],
)
def test_regions_are_where_most_people_live(
    country: str, state: str | None, zone: str, language: str, latitude: float
) -> None:
    region = region_of(country, state)
    assert region is not None
    assert (region.timezone, region.languages[0]) == (zone, language)
    assert region.latitude == pytest.approx(latitude, abs=0.2)


@pytest.mark.req("B2", "property 15")
def test_every_country_and_state_is_known_and_only_the_us_speaks_american_english() -> None:
    assert len(countries()) >= 247
    for country in countries():
        region = region_of(country)
        assert region is not None
        assert ZoneInfo(region.timezone).key == region.timezone
        assert re.fullmatch(rf"[a-z]{{2,3}}-{country}", region.languages[0])
        assert ("en-US" in region.languages) == (country == "US")
    states = {region_of("us", f"{a}{b}") for a in "ACDFGHIKLMNOPRSTUVW" for b in "ACDEHIJKLMNORSTVXYZ"}
    assert len({region.state for region in states if region is not None and region.state}) == 51


@pytest.mark.req("B2")
@pytest.mark.parametrize("code", ["eu", "", "zz", "usa"])
def test_what_is_no_country_has_no_region(code: str) -> None:
    assert region_of(code) is None
