"""The settings and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.domain.webhook import RETRY_SECONDS
from swath.fetch.proxies.config import DEFAULT_URL, ZONED, Price, ProxyConfig, Zone
from swath.settings.locations import ResultsLocation, SqsLocation, StorageLocations, StoreLocation

__all__ = ["AWS_LEASE_SECONDS", "LoadedSettings", "SettingOrigin", "Settings"]

AWS_LEASE_SECONDS: Final = 30.0  # each renewal is a paid write, and a network may be slow for a while


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded back end. The lengths of time are settable so that tests need not wait.

    `store`, `queue` and `results` are as they were given; `places` says what follows from them. From `host` on: the
    controller; `allowed_hosts` are names beside its own under which it may be asked, `max_body_bytes` bounds a request
    that is no streamed load, `requests_per_minute`, `requests_at_once` and `streams_per_key` are per key, or per
    address without one, `public_url` is where others find it. `server` and `service_key` are for who asks one.
    """

    data: Path = Path("swath-data")
    store: StoreLocation | None = None
    queue: SqsLocation | None = None
    results: ResultsLocation | None = None
    results_readable_by: str = "owner"
    scrapers: tuple[Path, ...] = ()
    default_scraper: str | None = None
    allow_javascript: bool = False
    lease_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    grace_seconds: float = 30.0
    standstill_seconds: float = 30.0
    max_items: int = 256
    log_level: str = "WARNING"
    log_format: str = "json"
    traces: bool = False
    fsync: bool = False
    sites: Path | None = None
    allow_private: tuple[str, ...] = ()
    demo_url: str = "http://127.0.0.1:8010"
    robots_agent: str = "swath"
    host: str = "127.0.0.1"
    port: int = 8000
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 16 << 20
    requests_per_minute: int = 6_000
    requests_at_once: int = 500
    streams_per_key: int = 100
    connections_per_address: int = 500
    queue_depth: int = 500
    task_retention_days: float = 7.0
    public_url: str | None = None
    server: str | None = None
    service_key: Secret | None = None
    webhook_url: str | None = None
    webhook_secret: tuple[Secret, ...] = ()
    webhook_retry_seconds: tuple[float, ...] = RETRY_SECONDS
    webhook_timeout_seconds: float = 10.0
    proxy_url: str = DEFAULT_URL
    proxy_customer: str | None = None
    proxy_ca_file: Path | None = None
    proxy_datacenter_zone: str | None = None
    proxy_datacenter_password: Secret | None = None
    proxy_datacenter_price_per_gb: float | None = None
    proxy_datacenter_price_per_1000: float | None = None
    proxy_residential_zone: str | None = None
    proxy_residential_password: Secret | None = None
    proxy_residential_price_per_gb: float | None = None
    proxy_residential_price_per_1000: float | None = None
    proxy_web_unlocker_zone: str | None = None
    proxy_web_unlocker_password: Secret | None = None
    proxy_web_unlocker_price_per_gb: float | None = None
    proxy_web_unlocker_price_per_1000: float | None = None
    proxy_custom_urls: tuple[Secret, ...] = ()
    proxy_custom_price_per_gb: float | None = None
    proxy_custom_price_per_1000: float | None = None
    proxy_cooldown_seconds: float = 30.0
    proxy_recheck_seconds: float = 60.0
    chromium: Path | None = None
    browsers: int = 2
    browser_concurrency: int | None = None
    browser_pages: int = 100
    browser_mib: int = 1_024
    browser_minutes: float = 30.0
    browser_user: str | None = None
    browser_headless: bool = False
    browser_provider: str = "local"
    browser_sessions: int | None = None
    browser_session_seconds: float = 1_800.0
    browser_cdp_url: Secret | None = None
    browserbase_url: str = "https://api.browserbase.com"
    browserbase_api_key: Secret | None = None
    browserbase_project: str | None = None
    browserbase_region: str | None = None
    browserbase_creations_per_minute: int = 25

    @property
    def places(self) -> StorageLocations:
        """Where store, queue and results are. Raises BadInput when the three do not go together."""
        return StorageLocations.of(self.data, self.store, self.queue, self.results)

    @property
    def results_mode(self) -> int:
        """Of the folders of results; files have the same without the right to enter."""
        return {"group": 0o750, "all": 0o755}.get(self.results_readable_by, 0o700)

    @property
    def data_mode(self) -> int:
        """Of the data folder: who may read results may pass through it to them, and not look around."""
        return 0o700 | self.results_mode & 0o011

    @property
    def proxies(self) -> ProxyConfig:
        """What is set up of proxies, for proxies/ways.py."""

        def of(tier: ProxyType, what: str) -> Any:
            return getattr(self, f"proxy_{tier.value}_{what}")

        priced = (*ZONED, ProxyType.CUSTOM)
        return ProxyConfig(
            url=self.proxy_url,
            customer=self.proxy_customer,
            zones={tier: Zone(of(tier, "zone"), of(tier, "password")) for tier in ZONED},
            ca_file=self.proxy_ca_file,
            custom_urls=self.proxy_custom_urls,
            prices={tier: Price(of(tier, "price_per_gb"), of(tier, "price_per_1000")) for tier in priced},
            cooldown_seconds=self.proxy_cooldown_seconds,
            recheck_seconds=self.proxy_recheck_seconds,
        )


class SettingOrigin(msgspec.Struct, frozen=True):
    """Where a value came from: a variable, a file, or nowhere (a default). `name` is what messages call it."""

    source: str
    name: str


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with the origin of each, by field. `unknown` are variables that look like ours and are not."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]
    file: Path | None
    unknown: Mapping[str, str]
