"""The default headers of a request: Swath's own, or those of a browser in that browser's order.

A browser imitated below HTTP (`impersonate`) brings its own header set, so that the two agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from swath.domain.site_policy import HeaderSet, SitePolicy
from swath.fetch.http.client.content_decoding import ACCEPTED_ENCODINGS

__all__ = ["headers_for"]

_LANGUAGE: Final = "en-US,en;q=0.9"
_VERSION: Final = re.compile(r"[a-z]+[_ -]?(\d{2,3})", re.IGNORECASE)
# What people's browsers are when no version is named.
_CHROME_VERSION: Final = 150
_FIREFOX_VERSION: Final = 150


def headers_for(policy: SitePolicy) -> Mapping[str, str]:
    """A new request's headers, by name and in order."""
    return _headers(_kind(policy), policy.impersonate or "", policy.user_agent)


def _kind(policy: SitePolicy) -> HeaderSet:
    if policy.header_set is not HeaderSet.PLAIN or policy.impersonate is None:
        return policy.header_set
    return HeaderSet.FIREFOX if policy.impersonate.lower().startswith("firefox") else HeaderSet.CHROME


@cache
def _headers(kind: HeaderSet, imitated: str, user_agent: str | None) -> Mapping[str, str]:
    found = _VERSION.fullmatch(imitated)
    made = {HeaderSet.CHROME: _chrome, HeaderSet.FIREFOX: _firefox}.get(kind, _plain)(int(found[1]) if found else None)
    return made if user_agent is None else {**made, "User-Agent": user_agent}


def _plain(_: int | None) -> dict[str, str]:
    """Says honestly who we are."""
    return {
        "User-Agent": "Mozilla/5.0 (compatible; swath)",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language": _LANGUAGE,
        "Accept-Encoding": ACCEPTED_ENCODINGS,
    }


def _chrome(version: int | None) -> dict[str, str]:
    number = version or _CHROME_VERSION
    agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
    return {
        "sec-ch-ua": f'"Chromium";v="{number}", "Google Chrome";v="{number}", "Not_A Brand";v="24"',
        "sec-ch-ua-mobile": "?0",
        "sec-ch-ua-platform": '"Windows"',
        "Upgrade-Insecure-Requests": "1",
        "User-Agent": f"{agent} Chrome/{number}.0.0.0 Safari/537.36",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
        "Sec-Fetch-Site": "none",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-User": "?1",
        "Sec-Fetch-Dest": "document",
        "Accept-Encoding": ACCEPTED_ENCODINGS,
        "Accept-Language": _LANGUAGE,
    }


def _firefox(version: int | None) -> dict[str, str]:
    number = version or _FIREFOX_VERSION
    return {
        "User-Agent": f"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:{number}.0) Gecko/20100101 Firefox/{number}.0",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language": "en-US,en;q=0.5",
        "Accept-Encoding": ACCEPTED_ENCODINGS,
        "Upgrade-Insecure-Requests": "1",
        "Sec-Fetch-Dest": "document",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Site": "none",
        "Sec-Fetch-User": "?1",
    }
