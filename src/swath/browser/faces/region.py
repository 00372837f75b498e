"""Region: a place on earth as a browser shows it: time zone, languages, position. From where its requests come out."""

from __future__ import annotations

import msgspec

__all__ = ["Region"]


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """`languages` are in order of preference, the first is the locale. The position is that of the largest city."""

    country: str
    state: str | None = None
    timezone: str
    languages: tuple[str, ...]
    latitude: float
    longitude: float
