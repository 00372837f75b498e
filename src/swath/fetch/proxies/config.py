"""The operator's proxy configuration: endpoint, zones, own proxies and prices. Made from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret

__all__ = ["DEFAULT_URL", "ZONED", "Price", "ProxyConfig", "Zone", "missing_settings"]

DEFAULT_URL: Final = "http://brd.superproxy.io:44445"
ZONED: Final = (ProxyType.DATACENTER, ProxyType.RESIDENTIAL, ProxyType.WEB_UNLOCKER)  # one zone of the provider each


class Zone(msgspec.Struct, frozen=True):
    """A product at the provider; either part may not be set yet."""

    name: str | None = None
    password: Secret | None = None


class Price(msgspec.Struct, frozen=True):
    """What the operator pays, in a currency of his own; None is not known, and counts as nothing."""

    per_gb: float | None = None
    per_1000: float | None = None

    @property
    def known(self) -> bool:
        """Whether anything was said."""
        return self.per_gb is not None or self.per_1000 is not None

    def of(self, byte_count: int, requests: int) -> float:
        """The price of so much. A gigabyte is 10^9 bytes, as providers bill it."""
        return (self.per_gb or 0.0) * byte_count / 1e9 + (self.per_1000 or 0.0) * requests / 1e3


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the provider's endpoint; `custom_urls` are proxies with their credentials inside."""

    url: str = DEFAULT_URL
    customer: str | None = None
    zones: Mapping[ProxyType, Zone] = {}
    ca_file: Path | None = None
    custom_urls: tuple[Secret, ...] = ()
    prices: Mapping[ProxyType, Price] = {}
    cooldown_seconds: float = 30.0
    recheck_seconds: float = 60.0

    def price(self, tier: ProxyType) -> Price:
        """What that way out costs."""
        return self.prices.get(tier, Price())


def missing_settings(setup: ProxyConfig, tier: ProxyType) -> list[str]:
    """The variables that have to be set before this way out can be taken; none when it can."""
    if tier is ProxyType.NONE:
        return []
    if tier is ProxyType.CUSTOM:
        return [] if setup.custom_urls else ["SWATH_PROXY_CUSTOM_URLS"]
    zone = setup.zones.get(tier, Zone())
    wanted = {
        "SWATH_PROXY_CUSTOMER": setup.customer,
        f"SWATH_PROXY_{tier.name}_ZONE": zone.name,
        f"SWATH_PROXY_{tier.name}_PASSWORD": zone.password,
    }
    return [variable for variable, value in wanted.items() if value is None]
