"""Reads what the detection page saw: one finding for each probe, `ok` or a tell with its reason.

A tell is what the same Chromium, started by hand on a desktop, does not show. Pure; `site.py` brings the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from harness.fakes.detection_page.facts import Facts, Headers, Realm

__all__ = ["ProbeResult", "judge", "tells"]

REALMS: Final = ("window", "popup", "frame", "elsewhere", "worker", "shared", "service")
_SLOW_TABLE_MS: Final = 150
_PLATFORMS: Final = {"Linux": "Linux", "macOS": "Mac", "Windows": "Win", "Android": "Linux"}


class ProbeResult(msgspec.Struct, frozen=True):
    """`tells` are reasons, in words; none means that the probe found nothing."""

    probe: str
    tells: list[str]

    @property
    def ok(self) -> bool:
        return not self.tells


def judge(facts: Facts) -> list[ProbeResult]:
    """Every probe, in the order of the table below."""
    return [ProbeResult(name, list(probe(facts))) for name, probe in PROBES.items()]


def tells(facts: Facts) -> dict[str, list[str]]:
    """Only the probes that found something."""
    return {finding.probe: finding.tells for finding in judge(facts) if not finding.ok}


def _seen(facts: Facts) -> Iterator[tuple[str, Realm]]:
    return ((name, facts.realms[name]) for name in REALMS if name in facts.realms and not facts.realms[name].error)


def _places(facts: Facts) -> Iterator[str]:
    for name in REALMS:
        if name not in facts.realms:
            yield f"{name}: never looked at"
        elif error := facts.realms[name].error:
            yield f"{name}: {error}"


def _webdriver(facts: Facts) -> Iterator[str]:
    mark = facts.window.webdriver
    for name, realm in _seen(facts):
        if realm.webdriver:
            yield f"{name}: navigator.webdriver is true"
    if not mark.present:
        yield "navigator.webdriver is gone, and real browsers have it"
    if mark.own or not mark.getter_native:
        yield f"navigator was changed by a script: {mark.own}"


def _headless(facts: Facts) -> Iterator[str]:
    for name, realm in _seen(facts):
        texts = [realm.user_agent, *(brand for brand, _ in realm.brands or ()), realm.headers.get("user-agent", "")]
        if any("Headless" in text for text in texts):
            yield f"{name}: says HeadlessChrome"
    for name, headers in facts.arrivals.items():
        if "Headless" in headers.get("user-agent", "") + headers.get("sec-ch-ua", ""):
            yield f"first request of {name}: says HeadlessChrome"


def _user_agents(facts: Facts) -> Iterator[str]:
    own = facts.realms["window"].user_agent
    for name, realm in _seen(facts):
        if realm.user_agent != own:
            yield f"{name}: another user agent than the window: {realm.user_agent}"
        if realm.headers.get("user-agent") != own:
            yield f"{name}: requests say {realm.headers.get('user-agent')}"
    for name, headers in facts.arrivals.items():
        if headers.get("user-agent") != own:
            yield f"first request of {name}: says {headers.get('user-agent')}"


def _hints(facts: Facts) -> Iterator[str]:
    own = facts.realms["window"]
    for name, realm in _seen(facts):
        if realm.high is None or realm.brands is None:
            yield f"{name}: no client hints"
            continue
        major = re.search(r"Chrome/(\d+)", realm.user_agent)
        versions = {version.split(".")[0] for brand, version in realm.brands if "Chrom" in brand}
        if major is None or versions != {major[1]}:
            yield f"{name}: brands {realm.brands} do not fit {realm.user_agent}"
        if not realm.high.architecture or not realm.high.full_versions or not realm.high.full_version:
            yield f"{name}: client hints are empty: {realm.high}"
        if (realm.high, realm.brands, realm.mobile) != (own.high, own.brands, own.mobile):
            yield f"{name}: other client hints than the window"


def _platform(facts: Facts) -> Iterator[str]:
    for name, realm in _seen(facts):
        start = _PLATFORMS.get(realm.hint_platform or "", "?")
        inside = "Android" if realm.hint_platform == "Android" else start
        if not realm.platform.startswith(start) or inside not in realm.user_agent:
            yield f"{name}: {realm.hint_platform}, {realm.platform} and {realm.user_agent} do not agree"
        if bool(realm.mobile) != ("Mobile" in realm.user_agent):
            yield f"{name}: mobile is {realm.mobile} with {realm.user_agent}"


def _hint_headers(facts: Facts) -> Iterator[str]:
    own = facts.realms["window"]
    sent: dict[str, Headers] = {f"first request of {name}": headers for name, headers in facts.arrivals.items()}
    sent |= {name: realm.headers for name, realm in _seen(facts)}
    for name, headers in sent.items():
        brands = re.findall(r'"([^"]+)";v="([^"]+)"', headers.get("sec-ch-ua", ""))
        if brands and brands != own.brands:
            yield f"{name}: sec-ch-ua says {brands}"
        platform = headers.get("sec-ch-ua-platform", "").strip('"')
        if platform and platform != own.hint_platform:
            yield f"{name}: sec-ch-ua-platform says {platform}"
        full = re.findall(r'"([^"]+)";v="([^"]+)"', headers.get("sec-ch-ua-full-version-list", ""))
        if "sec-ch-ua-full-version-list" in headers and own.high is not None and full != own.high.full_versions:
            yield f"{name}: sec-ch-ua-full-version-list says {full}"
    if "sec-ch-ua" not in facts.arrivals.get("window", {}):
        yield "the first request has no sec-ch-ua"


def _timezone(facts: Facts) -> Iterator[str]:
    own = facts.realms["window"].timezone
    for name, realm in _seen(facts):
        if realm.timezone != own:
            yield f"{name}: is in {realm.timezone}, the window in {own}"
        if realm.offsets != realm.intl_offsets:
            yield f"{name}: Date is {realm.offsets} minutes off, {realm.timezone} is {realm.intl_offsets}"


def _languages(facts: Facts) -> Iterator[str]:
    own = facts.realms["window"].languages
    sent = {f"first request of {name}": headers for name, headers in facts.arrivals.items()}
    for name, realm in _seen(facts):
        sent[name] = realm.headers
        if realm.languages != own or realm.language != own[0]:
            yield f"{name}: {realm.language} of {realm.languages}, the window has {own}"
        if realm.intl_locale.split("-")[0] != own[0].split("-")[0]:
            yield f"{name}: Intl speaks {realm.intl_locale}, navigator {own[0]}"
    for name, headers in sent.items():
        accepted = [part.split(";")[0].strip() for part in headers.get("accept-language", "").split(",")]
        if accepted != own:
            yield f"{name}: accept-language says {accepted}, navigator {own}"


def _plugins(facts: Facts) -> Iterator[str]:
    mobile = facts.realms["window"].mobile
    if not mobile and (not facts.window.plugins or not facts.window.pdf_viewer):
        yield "no PDF viewer among the plugins"


def _permissions(facts: Facts) -> Iterator[str]:
    said = facts.window.notifications
    fits = {"prompt": "default", "granted": "granted", "denied": "denied"}
    if said["property"] is not None and fits.get(said["query"] or "") != said["property"]:
        yield f"notifications: asked {said['query']}, shown {said['property']}"


def _graphics(facts: Facts) -> Iterator[str]:
    shown = facts.window.graphics  # none at all is what a machine without graphics has
    if shown is None:
        return
    if not (shown["vendor"].startswith("Google Inc.") and shown["renderer"].startswith("ANGLE")):
        yield f"not the names of Chromium: {shown}"
    if "SwiftShader" in shown["renderer"]:
        yield "drawn by the processor (SwiftShader)"


def _screen(facts: Facts) -> Iterator[str]:
    window = facts.window
    inner, outer, screen = window.inner, window.outer, window.screen
    mobile = facts.realms["window"].mobile
    if inner.width > screen.width or inner.height > screen.height:
        yield f"viewport {inner} is larger than the screen {screen}"
    if outer.width < inner.width or outer.height < inner.height:
        yield f"window {outer} is smaller than its viewport {inner}"
    if outer.width > screen.width or outer.height > screen.height:
        yield f"window {outer} is larger than the screen {screen}"
    if not mobile and outer.height == inner.height:
        yield "a window without tabs and address bar"
    if not mobile and window.scrollbar == 0:
        yield "a long page without scrollbar"
    if not window.media_agrees:
        yield "media queries say another size than the window"


def _pointer(facts: Facts) -> Iterator[str]:
    mobile = bool(facts.realms["window"].mobile)
    if (facts.window.touch_points > 0) != mobile:
        yield f"{facts.window.touch_points} touch points with mobile {mobile}"
    if not mobile and not (facts.window.hover and facts.window.pointer):
        yield "a desktop without a mouse"


def _runtime(facts: Facts) -> Iterator[str]:
    seen = facts.window.runtime
    if seen.names > 1 or seen.steps > 3:
        yield f"somebody reads the console: {seen.names} names, {seen.steps} steps"
    if seen.table_ms > _SLOW_TABLE_MS:
        yield f"somebody reads the console: a table took {seen.table_ms:.0f} ms"


def _chrome(facts: Facts) -> Iterator[str]:
    if facts.window.chrome != "object":
        yield "no chrome object"
    if facts.window.chrome_runtime != "undefined":
        yield "chrome.runtime on an ordinary page, without an extension that speaks to it"


def _traces(facts: Facts) -> Iterator[str]:
    if facts.window.traces:
        yield f"names of drivers in the window: {facts.window.traces}"
    if facts.window.patched:
        yield f"functions that are not the browser's own: {facts.window.patched}"


PROBES: Final[dict[str, Callable[[Facts], Iterator[str]]]] = {
    "places": _places,
    "webdriver": _webdriver,
    "headless": _headless,
    "user agent": _user_agents,
    "client hints": _hints,
    "client hints in headers": _hint_headers,
    "platform": _platform,
    "time zone": _timezone,
    "languages": _languages,
    "plugins": _plugins,
    "permissions": _permissions,
    "WebGL": _graphics,
    "screen": _screen,
    "pointer": _pointer,
    "console": _runtime,
    "chrome object": _chrome,
    "traces": _traces,
}
