"""Hints: the client hints that a Chromium of some version shows, in headers and to the pages that ask for them.

The browser makes them itself. profile.py knows them, so that tests see that nobody says another thing.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["Hints", "brands_of"]

# By Chromium's own rule: a name that means nothing, made from the version, so that sites do not rely on the list.
_FILLERS: Final = (" ", "(", ":", "-", ".", "/", ")", ";", "=", "?", "_")
_FILLER_VERSIONS: Final = ("8", "99", "24")
_ORDERS: Final = {
    2: ((0, 1), (1, 0)),
    3: ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)),
}

Brands = tuple[tuple[str, str], ...]


class Hints(msgspec.Struct, frozen=True, kw_only=True):
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
