"""Time zone, languages and position of every country a proxy can be in, and of the states of the US.

Time zones and positions come from the time zone database; the languages are a table of our own.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

__all__ = ["Region", "countries", "languages_of", "region_of"]


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """`languages` are in order of preference, the first is the locale. The position is that of the largest city."""

    country: str
    state: str | None = None
    timezone: str
    languages: tuple[str, ...]
    latitude: float
    longitude: float


# The main language of browsers there, which is not always the most spoken one.
_COUNTRIES_BY_LANGUAGE: Final = {
    "ar": "AE BH DJ DZ EG EH IQ JO KM KW LB LY MA MR OM PS QA SA SD SY TD TN YE",
    "az": "AZ",
    "bg": "BG",
    "bn": "BD",
    "bs": "BA",
    "ca": "AD",
    "cs": "CZ",
    "da": "DK FO GL",
    "de": "AT CH DE LI",
    "el": "CY GR",
    "en": (
        "AG AI AQ AS AU BB BM BN BS BW BZ CA CC CK CX DM ER FJ FK FM GB GD GG GH GI GM GS GU GY IE IM IN IO JE JM KE KI"
        " KN KY LC LK LR LS MH MP MS MT MU MW NA NF NG NR NU NZ PG PH PK PN PW RW SB SC SG SH SL SS SX SZ TC TK TO TT"
        " TV TZ UG UM US VC VG VI VU WS ZA ZM ZW"
    ),
    "es": "AR BO CL CO CR CU DO EC ES GQ GT HN MX NI PA PE PR PY SV UY VE",
    "am": "ET",
    "et": "EE",
    "fa": "AF IR",
    "fi": "FI",
    "fr": ("BE BF BI BJ BL CD CF CG CI CM FR GA GF GN GP HT LU MC MF MG ML MQ NC NE PF PM RE SN TF TG WF YT"),
    "he": "IL",
    "hr": "HR",
    "hu": "HU",
    "hy": "AM",
    "id": "ID",
    "is": "IS",
    "it": "IT SM VA",
    "ja": "JP",
    "ka": "GE",
    "km": "KH",
    "ko": "KP KR",
    "lo": "LA",
    "lt": "LT",
    "lv": "LV",
    "mk": "MK",
    "mn": "MN",
    "ms": "MY",
    "my": "MM",
    "nb": "NO SJ",
    "ne": "NP",
    "nl": "AW BQ CW NL SR",
    "pl": "PL",
    "pt": "AO BR CV GW MZ PT ST TL",
    "ro": "MD RO",
    "ru": "BY KG KZ RU TJ TM",
    "sk": "SK",
    "sl": "SI",
    "so": "SO",
    "sq": "AL",
    "sr": "ME RS",
    "sv": "AX SE",
    "th": "TH",
    "tr": "TR",
    "uk": "UA",
    "uz": "UZ",
    "vi": "VN",
    "zh": "CN HK MO TW",
    "dz": "BT",
    "dv": "MV",
}


def languages_of(country: str) -> tuple[str, ...]:
    """The locale, then its language. KeyError for a code that is no country."""
    language = _main_languages()[country]
    return (f"{language}-{country}", language)


@cache
def _main_languages() -> dict[str, str]:
    return {country: language for language, places in _COUNTRIES_BY_LANGUAGE.items() for country in places.split()}


# The database lists a country's zones from east to west or by age; these are where most of its people live.
_MAIN_ZONES: Final = {
    "AU": "Australia/Sydney",
    "BR": "America/Sao_Paulo",
    "CA": "America/Toronto",
    "FM": "Pacific/Pohnpei",
    "RU": "Europe/Moscow",
    "UA": "Europe/Kyiv",
    "UZ": "Asia/Tashkent",
}

# The largest city of each state, and the zone it keeps.
_STATES: Final = """
AL America/Chicago 34.73 -86.59;AK America/Anchorage 61.22 -149.90;AZ America/Phoenix 33.45 -112.07
AR America/Chicago 34.75 -92.29;CA America/Los_Angeles 34.05 -118.24;CO America/Denver 39.74 -104.99
CT America/New_York 41.19 -73.20;DE America/New_York 39.74 -75.55;DC America/New_York 38.91 -77.04
FL America/New_York 30.33 -81.66;GA America/New_York 33.75 -84.39;HI Pacific/Honolulu 21.31 -157.86
ID America/Boise 43.62 -116.20;IL America/Chicago 41.88 -87.63;IN America/Indiana/Indianapolis 39.77 -86.16
IA America/Chicago 41.59 -93.62;KS America/Chicago 37.69 -97.34;KY America/Kentucky/Louisville 38.25 -85.76
LA America/Chicago 29.95 -90.07;ME America/New_York 43.66 -70.26;MD America/New_York 39.29 -76.61
MA America/New_York 42.36 -71.06;MI America/Detroit 42.33 -83.05;MN America/Chicago 44.98 -93.27
MS America/Chicago 32.30 -90.18;MO America/Chicago 39.10 -94.58;MT America/Denver 45.78 -108.50
NE America/Chicago 41.26 -95.93;NV America/Los_Angeles 36.17 -115.14;NH America/New_York 43.00 -71.46
NJ America/New_York 40.74 -74.17;NM America/Denver 35.08 -106.65;NY America/New_York 40.71 -74.01
NC America/New_York 35.23 -80.84;ND America/Chicago 46.88 -96.79;OH America/New_York 39.96 -83.00
OK America/Chicago 35.47 -97.52;OR America/Los_Angeles 45.52 -122.68;PA America/New_York 39.95 -75.17
RI America/New_York 41.82 -71.41;SC America/New_York 32.78 -79.93;SD America/Chicago 43.55 -96.73
TN America/Chicago 36.16 -86.78;TX America/Chicago 29.76 -95.37;UT America/Denver 40.76 -111.89
VT America/New_York 44.48 -73.21;VA America/New_York 36.85 -75.98;WA America/Los_Angeles 47.61 -122.33
WV America/New_York 38.35 -81.63;WI America/Chicago 43.04 -87.91;WY America/Denver 41.14 -104.82
"""


def region_of(country: str, state: str | None = None) -> Region | None:
    """By two-letter codes, in any case. None for what is no country, such as `eu`: nothing is guessed then.

    States are known of the US; elsewhere, and for an unknown one, the country stands for them.
    """
    found = _regions().get(country.upper())
    if found is None or state is None or found.country != "US":
        return found
    return _states().get(state.upper(), found)


def countries() -> frozenset[str]:
    """Every code that `region_of` knows, in capitals."""
    return frozenset(_regions())


@cache
def _regions() -> dict[str, Region]:
    rows = (line.split("\t") for line in _zone_table().splitlines() if line and not line.startswith("#"))
    found: dict[str, Region] = {}
    for country, position, zone, *_ in rows:
        if country in found and zone != _MAIN_ZONES.get(country):
            continue
        latitude, longitude = _degrees(position)
        found[country] = Region(
            country=country,
            timezone=zone,
            languages=languages_of(country),
            latitude=latitude,
            longitude=longitude,
        )
    return found


@cache
def _states() -> dict[str, Region]:
    whole = _regions()["US"]
    rows = (row.split(" ") for row in re.split(r"[;\n]", _STATES.strip()))
    return {
        state: msgspec.structs.replace(
            whole, state=state, timezone=zone, latitude=float(latitude), longitude=float(longitude)
        )
        for state, zone, latitude, longitude in rows
    }


def _zone_table() -> str:
    return files("tzdata").joinpath("zoneinfo", "zone.tab").read_text(encoding="utf-8")


def _degrees(position: str) -> tuple[float, float]:
    """From ISO 6709, such as +404251-0740023: degrees, minutes and, for some, seconds."""
    parts = re.fullmatch(r"([+-])(\d{2})(\d{2})(\d{2})?([+-])(\d{3})(\d{2})(\d{2})?", position)
    if parts is None:
        raise ValueError(f"{position!r} in the time zone database is no position")
    return _decimal(*parts.group(1, 2, 3, 4)), _decimal(*parts.group(5, 6, 7, 8))


def _decimal(sign: str, degrees: str, minutes: str, seconds: str | None) -> float:
    size = int(degrees) + int(minutes) / 60 + int(seconds or 0) / 3600
    return round(-size if sign == "-" else size, 4)
