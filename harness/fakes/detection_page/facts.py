"""What the detection page reports, typed: what every place in the browser sees, and what only a window shows.

`site.py` adds the headers of the requests that brought each place its first bytes; `judge.py` reads all of it.
"""

from __future__ import annotations

import msgspec

__all__ = ["Facts", "Headers", "High", "Realm", "Runtime", "Size", "Webdriver", "Window"]

Headers = dict[str, str]


class High(msgspec.Struct, frozen=True, rename="camel"):
    """Client hints that a page has to ask for."""

    architecture: str
    bitness: str
    model: str
    platform_version: str
    full_version: str
    full_versions: list[tuple[str, str]]


class Realm(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One place where scripts run. `error`: it could not be looked at; everything else is empty then."""

    error: str | None = None
    user_agent: str = ""
    platform: str = ""
    language: str = ""
    languages: list[str] = []
    cores: int = 0
    webdriver: bool | None = None
    brands: list[tuple[str, str]] | None = None
    mobile: bool | None = None
    hint_platform: str | None = None
    high: High | None = None
    timezone: str = ""
    intl_locale: str = ""
    offsets: list[int] = []
    intl_offsets: list[int] = []
    headers: Headers = {}


class Webdriver(msgspec.Struct, frozen=True, rename="camel"):
    """The property itself: real browsers have it, on the prototype, with a getter of their own."""

    own: list[str]
    getter_native: bool
    present: bool


class Runtime(msgspec.Struct, frozen=True, rename="camel"):
    """How often the console took its arguments to pieces, and how long a large table took it."""

    names: int
    steps: int
    table_ms: float


class Size(msgspec.Struct, frozen=True, rename="camel"):
    """In CSS pixels."""

    width: int
    height: int
    avail_width: int = 0
    avail_height: int = 0


class Window(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What only a window shows."""

    webdriver: Webdriver
    runtime: Runtime
    graphics: dict[str, str] | None
    plugins: list[str]
    pdf_viewer: bool
    notifications: dict[str, str | None]
    chrome: str
    chrome_keys: list[str]
    chrome_runtime: str
    touch_points: int
    traces: list[str]
    patched: list[str]
    screen: Size
    inner: Size
    outer: Size
    scrollbar: int
    ratio: float
    media_agrees: bool
    hover: bool
    pointer: bool
    dark: bool


class Facts(msgspec.Struct, frozen=True):
    """Everything. `arrivals`: headers of the first request of each place, by its name."""

    realms: dict[str, Realm]
    window: Window
    arrivals: dict[str, Headers] = {}
