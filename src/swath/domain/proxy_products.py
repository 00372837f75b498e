"""What each kind of proxy offers, so that a policy that asks for more is refused with the reason. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

__all__ = ["PRODUCTS", "ProxyLocation", "ProxyProduct", "ProxyType", "ladder_error", "location_error"]


class ProxyType(StrEnum):
    """Which product a request goes through."""

    NONE = "none"
    DATACENTER = "datacenter"
    RESIDENTIAL = "residential"
    WEB_UNLOCKER = "web_unlocker"
    CUSTOM = "custom"

    @classmethod
    def _missing_(cls, value: object) -> ProxyType | None:
        """Accepts `web-unlocker`, as providers write it."""
        return cls.__members__.get(value.replace("-", "_").upper()) if isinstance(value, str) and "-" in value else None


class ProxyProduct(msgspec.Struct, frozen=True, kw_only=True):
    """What a product takes. `opens_tls`: the provider decrypts what goes through it, and signs with its own CA."""

    options: frozenset[str] = frozenset()
    opens_tls: bool = False


_ALL: Final = ("country", "state", "city", "zip", "session")

PRODUCTS: Final[dict[ProxyType, ProxyProduct]] = {
    ProxyType.NONE: ProxyProduct(),
    ProxyType.DATACENTER: ProxyProduct(options=frozenset({"country", "session"})),
    ProxyType.RESIDENTIAL: ProxyProduct(options=frozenset(_ALL), opens_tls=True),
    ProxyType.WEB_UNLOCKER: ProxyProduct(options=frozenset({"country"}), opens_tls=True),
    ProxyType.CUSTOM: ProxyProduct(options=frozenset(_ALL)),  # as far as its addresses have a place for them
}

# What to do instead, where there is something.
_ALTERNATIVE: Final = {
    ProxyType.NONE: "it goes out directly; choose a type of proxy",
    ProxyType.DATACENTER: "it goes by country only; use residential",
    ProxyType.WEB_UNLOCKER: "it goes by country only, and keeps no identity between requests",
}
_PRICE_RANK: Final = {
    ProxyType.NONE: 0,
    ProxyType.DATACENTER: 1,
    ProxyType.RESIDENTIAL: 2,
    ProxyType.WEB_UNLOCKER: 3,
}


class ProxyLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a proxy is to be, and whose identity it keeps; each part as written in a policy."""

    country: str | None = None
    state: str | None = None
    city: str | None = None
    zip: str | None = None
    session: str | None = None

    def given(self) -> dict[str, str]:
        """The parts that are set, by name."""
        return {name: value for name in _ALL if (value := getattr(self, name)) is not None}


def location_error(types: Sequence[ProxyType], place: ProxyLocation) -> str | None:
    """Why none of these products, or not all of them, can be asked for such a place; None when they can.

    A direct step of a ladder minds nothing.
    """
    given = place.given()
    asked: list[ProxyType] = [one for one in types if one is not ProxyType.NONE] or list(types)
    for one in asked:
        for name in given:
            if name not in PRODUCTS[one].options:
                return f"{one} takes no {name}: {_ALTERNATIVE[one]}"
    if asked == [ProxyType.CUSTOM]:  # its provider has a spelling of its own, such as us_california
        return _spelling_error(
            given, dict.fromkeys(_ALL, ("[A-Za-z0-9_]{1,64}", "must be letters, digits and _ alone"))
        )
    return _spelling_error(given, _SPELLING) or _missing_part_error(given)


def ladder_error(steps: Sequence[ProxyType]) -> str | None:
    """Why these are no ladder: each step once, from cheap to dear, `none` first; `custom` stands anywhere after it."""
    if len(set(steps)) < len(steps):
        return "names a step twice"
    if ProxyType.NONE in steps[1:]:
        return "has none, the cheapest, after a dearer step; put it first"
    dearness = [_PRICE_RANK[step] for step in steps if step in _PRICE_RANK]
    if dearness != sorted(dearness):
        return f"goes from dear to cheap; write {', '.join(step for step in _PRICE_RANK if step in steps)}"
    return None


_SPELLING: Final[dict[str, tuple[str, str]]] = {
    "country": ("[A-Za-z]{2}", "must be two letters, such as us, or eu"),
    "state": ("[A-Za-z]{2}", "must be two letters, such as az"),
    "city": ("[A-Za-z]+", "must be letters alone, without spaces, such as sanfrancisco"),
    "zip": ("[0-9]{5}", "must be five digits"),
    "session": ("[A-Za-z0-9]{1,64}", "must be letters and digits alone, at most 64"),
}


def _spelling_error(given: dict[str, str], spelling: dict[str, tuple[str, str]]) -> str | None:
    for name, value in given.items():
        pattern, rule = spelling[name]
        if re.fullmatch(pattern, value) is None:
            return f"{name} {rule}, not {value!r}"
    return None


def _missing_part_error(given: dict[str, str]) -> str | None:
    country = given.get("country", "").lower()
    for name in ("state", "zip"):
        if name in given and country != "us":
            return f"{name} goes only with country us"
    if "city" in given and not country:
        return "city needs a country"
    return None
