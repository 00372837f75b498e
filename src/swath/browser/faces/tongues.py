"""Tongues: which languages a browser in a country asks for, in order, as far as most people there have set them.

A table of our own, read by regions.py.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["languages_of"]

# The main language of browsers there, which is not always the most spoken one.
_SPOKEN: Final = {
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
    language = _mains()[country]
    return (f"{language}-{country}", language)


@cache
def _mains() -> dict[str, str]:
    return {country: language for language, places in _SPOKEN.items() for country in places.split()}
