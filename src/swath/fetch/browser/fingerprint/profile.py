"""The fingerprint of one browser context: window, screen, time zone, languages, position, user agent, client hints.

Pure. It never claims to be another browser than the real one (docs/decisions/0018). Chromium makes the client hints
itself; they are computed here so that tests can compare them.
"""

from __future__ import annotations

import platform
from random import Random
from typing import Final, Literal

import msgspec

from swath.fetch.browser.fingerprint.regions import Region

__all__ = ["ClientHints", "Engine", "Profile", "Size", "brands_of", "engine_here", "next_profile"]

# By Chromium's own rule: a name that means nothing, made from the version, so that sites do not rely on the list.
_FILLERS: Final = (" ", "(", ":", "-", ".", "/", ")", ";", "=", "?", "_")
_FILLER_VERSIONS: Final = ("8", "99", "24")
_ORDERS: Final = {
    2: ((0, 1), (1, 0)),
    3: ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)),
}

Brands = tuple[tuple[str, str], ...]


class ClientHints(msgspec.Struct, frozen=True, kw_only=True):
    """`brands` and `full_versions` are pairs of name and version, in the browser's order."""

    brands: Brands
    full_versions: Brands
    platform: str
    platform_version: str
    architecture: str
    bitness: str = "64"
    model: str = ""
    mobile: bool = False


def brands_of(version: str, brand: str) -> tuple[Brands, Brands]:
    """With main versions, and with full ones. `brand` is what the binary is: Chromium, or Google Chrome."""
    major = int(version.partition(".")[0])
    first, second = _FILLERS[major % len(_FILLERS)], _FILLERS[(major + 1) % len(_FILLERS)]
    filler, filler_version = f"Not{first}A{second}Brand", _FILLER_VERSIONS[major % len(_FILLER_VERSIONS)]
    names = ("Chromium",) if brand == "Chromium" else ("Chromium", brand)
    short = _ordered(((filler, filler_version), *((name, str(major)) for name in names)), major)
    full = _ordered(((filler, f"{filler_version}.0.0.0"), *((name, version) for name in names)), major)
    return short, full


def _ordered(brands: Brands, major: int) -> Brands:
    places = _ORDERS[len(brands)][major % len(_ORDERS[len(brands)])]
    return tuple(brand for _, brand in sorted(zip(places, brands, strict=True)))


System = Literal["Linux", "macOS", "Windows"]

# What stands in the user agent; it is the same on every machine of a kind, since Chromium says no more than this.
_TOKENS: Final[dict[System, str]] = {
    "Linux": "X11; Linux x86_64",
    "macOS": "Macintosh; Intel Mac OS X 10_15_7",
    "Windows": "Windows NT 10.0; Win64; x64",
}
_ANDROID: Final = "Linux; Android 10; K"
# Where the driver has to say the user agent, it reads the rest of the hints from it: processor and system's version.
_READ_FROM_TOKENS: Final[dict[System, tuple[str, str]]] = {
    "Linux": ("x86", ""),
    "macOS": ("x86", "10_15_7"),
    "Windows": ("x86", "10.0"),
}


class Size(msgspec.Struct, frozen=True):
    """In CSS pixels."""

    width: int
    height: int


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The browser that really runs, and the machine under it. `languages` are those it was started with."""

    version: str
    system: System
    architecture: Literal["x86", "arm"] = "x86"
    platform_version: str = ""
    brand: Literal["Chromium", "Google Chrome"] = "Chromium"
    headless: bool = True
    languages: tuple[str, ...] = ("en-US", "en")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """`natural`: the browser says user agent and hints by itself. None: the machine's own, nothing is invented."""

    user_agent: str
    hints: ClientHints
    natural: bool
    viewport: Size
    screen: Size
    scale: float
    dark: bool
    mobile: bool = False
    languages: tuple[str, ...] | None = None
    timezone: str | None = None
    position: tuple[float, float] | None = None


# A window has 8 pixels of frame and 85 of tabs and address bar around its viewport, and fits on its screen.
VIEWPORTS: Final = tuple(
    Size(*size)
    for size in (
        (1280, 720), (1280, 800), (1280, 900), (1360, 768), (1366, 768), (1400, 780), (1432, 775), (1440, 800),
        (1440, 900), (1528, 739), (1536, 864), (1592, 775), (1600, 900), (1672, 925), (1680, 945), (1760, 960),
        (1912, 955), (1920, 1080),
    )
)  # fmt: skip
SCREENS: Final = tuple(
    Size(*size)
    for size in ((1440, 900), (1536, 864), (1600, 900), (1680, 1050), (1920, 1080), (1920, 1200), (2560, 1440))
)
SCALES: Final = {Size(1536, 864): (1.25,), Size(1920, 1200): (1.0, 1.25), Size(2560, 1440): (1.0, 1.5)}
_FRAME: Final = Size(8, 85)
_DARK_SHARE: Final = 0.2

# Telephones: viewport, screen, scale.
PHONES: Final = (
    (Size(360, 668), Size(360, 780), 3.0),
    (Size(384, 716), Size(384, 832), 2.8125),
    (Size(393, 742), Size(393, 852), 2.75),
    (Size(412, 785), Size(412, 915), 2.625),
)


def engine_here(version: str, *, headless: bool, brand: Literal["Chromium", "Google Chrome"] = "Chromium") -> Engine:
    """A browser on this machine; `version` is what it says of itself, as 150.0.7871.100."""
    systems: dict[str, System] = {"Darwin": "macOS", "Windows": "Windows"}
    arm = platform.machine().lower() in {"arm64", "aarch64"}
    return Engine(
        version=version,
        system=systems.get(platform.system(), "Linux"),
        architecture="arm" if arm else "x86",
        platform_version=platform.mac_ver()[0],  # empty elsewhere, and Chromium says none on Linux
        brand=brand,
        headless=headless,
    )


def next_profile(
    previous: Profile | None, engine: Engine, region: Region | None, draw: Random, *, mobile: bool = False
) -> Profile:
    """Differs from the previous one in its window at least; that is what people's browsers differ in."""
    profile = _phone(previous, engine, draw) if mobile else _desktop(previous, engine, draw)
    return profile if region is None else _in_region(profile, engine, region, draw)


def _desktop(previous: Profile | None, engine: Engine, draw: Random) -> Profile:
    viewport = draw.choice([size for size in VIEWPORTS if previous is None or size != previous.viewport])
    screen = draw.choice([size for size in SCREENS if _fits(viewport, size)])
    return Profile(
        user_agent=_user_agent(_TOKENS[engine.system], engine, ""),
        hints=_desktop_hints(engine),
        natural=not engine.headless,
        viewport=viewport,
        screen=screen,
        scale=draw.choice(SCALES.get(screen, (1.0,))),
        dark=draw.random() < _DARK_SHARE,
    )


def _desktop_hints(engine: Engine) -> ClientHints:
    own = (engine.architecture, engine.platform_version)
    architecture, version = _READ_FROM_TOKENS[engine.system] if engine.headless else own
    short, full = brands_of(engine.version, engine.brand)
    return ClientHints(
        brands=short,
        full_versions=full,
        platform=engine.system,
        platform_version=version,
        architecture=architecture,
    )


def _phone(previous: Profile | None, engine: Engine, draw: Random) -> Profile:
    others = [phone for phone in PHONES if previous is None or phone[0] != previous.viewport]
    viewport, screen, scale = draw.choice(others)
    short, full = brands_of(engine.version, engine.brand)
    hints = ClientHints(
        brands=short, full_versions=full, platform="Android", platform_version="10", architecture="arm", mobile=True
    )
    return Profile(
        user_agent=_user_agent(_ANDROID, engine, " Mobile"),
        hints=hints,
        natural=False,
        viewport=viewport,
        screen=screen,
        scale=scale,
        dark=draw.random() < _DARK_SHARE,
        mobile=True,
    )


def _in_region(profile: Profile, engine: Engine, region: Region, draw: Random) -> Profile:
    """Somewhere in the city, within a few kilometres of the region's point."""
    latitude, longitude = (
        round(degrees + draw.uniform(-0.03, 0.03), 4) for degrees in (region.latitude, region.longitude)
    )
    return msgspec.structs.replace(
        profile,
        # One text says what it asks for and how it writes dates, and of a list newer Chromium makes nothing.
        languages=None if region.languages == engine.languages else region.languages[:1],
        timezone=region.timezone,
        position=(latitude, longitude),
    )


def _fits(viewport: Size, screen: Size) -> bool:
    return viewport.width + _FRAME.width <= screen.width and viewport.height + _FRAME.height <= screen.height


def _user_agent(system: str, engine: Engine, kind: str) -> str:
    major = engine.version.partition(".")[0]
    return f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.0.0{kind} Safari/537.36"
