"""Parses each setting from the text of a variable or a value of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import MASK, Secret
from swath.domain.webhook import signing_key
from swath.fetch.proxies.config import ZONED
from swath.fetch.proxies.providers.bright_data import check_url
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.settings.locations import (
    ResultsLocation,
    SqsLocation,
    StoreLocation,
    parse_queue,
    parse_results,
    parse_store,
)

__all__ = [
    "PARSERS",
    "mask_setting",
    "parse_count",
    "parse_host",
    "parse_price",
    "parse_seconds",
    "parse_server",
    "parse_switch",
]


def parse_price(given: object, name: str, folder: Path) -> float:
    """Money; may be nothing."""
    return 0.0 if str(given) == "0" else parse_seconds(given, name, folder)


def parse_seconds(given: object, name: str, folder: Path) -> float:
    """A length of time, or any other number above 0."""
    del folder
    try:
        value = float(given) if isinstance(given, (str, int, float)) and not isinstance(given, bool) else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"{name} must be a number above 0, not {given!r}")
    return value


def parse_count(given: object, name: str, folder: Path) -> int:
    """A whole number above 0."""
    value = parse_seconds(given, name, folder)
    if not value.is_integer():
        raise BadInput(f"{name} must be a whole number above 0, not {given!r}")
    return int(value)


def parse_switch(given: object, name: str, folder: Path) -> bool:
    """On or off, in the words that people use."""
    del folder
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(given).lower() not in words:
        raise BadInput(f"{name} must be 1 or 0, not {given!r}")
    return words[str(given).lower()]


_SECRET_NAME: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|CUSTOM_URL", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(r"(?<=://)\S+(?=@)")
_TOKEN_IN_PATH: Final = re.compile(r"(?<=[^/:])[/?].*")
_HOST_AND_PORT: Final = re.compile(r"([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})")


def mask_setting(name: str, value: str) -> str:
    """A value as it may be shown: nothing of one whose name smells of a secret, no credentials of a URL.

    Of a webhook's address only where it leads to: what comes after that often is all that one needs to post there.
    """
    if name.upper().endswith("WEBHOOK_URL"):
        value = _TOKEN_IN_PATH.sub(f"/{MASK}", value)
    return MASK if _SECRET_NAME.search(name) else _SECRET_IN_URL.sub(MASK, value)


def _path(given: object, name: str, folder: Path) -> Path:
    """A relative path in a file counts from that file's folder."""
    return folder / _text(given, name, folder)


def _paths(given: object, name: str, folder: Path) -> tuple[Path, ...]:
    if isinstance(given, str):
        given = [part for part in given.split(os.pathsep) if part]
    if not isinstance(given, list):
        raise BadInput(f"{name} must be a list of folders, not {given!r}")
    return tuple(_path(part, name, folder) for part in given)


def _text(given: object, name: str, folder: Path) -> str:
    del folder
    if not isinstance(given, str) or not given:
        raise BadInput(f"{name} must be text, not {given!r}")
    if "\0" in given:
        raise BadInput(f"{name} must be text without NUL characters, not {given!r}")
    return given


def _parse_list(given: object, name: str, what: str) -> list[object]:
    """The parts of a list, or of a text with commas or spaces between them. They may be secret, so none is told."""
    if isinstance(given, str):
        return [part for part in re.split(r"[,\s]+", given) if part]
    if not isinstance(given, list):
        raise BadInput(f"{name} must be a list of {what}")
    return given


def _store(given: object, name: str, folder: Path) -> StoreLocation:
    return parse_store(_text(given, name, folder), name)


def _queue(given: object, name: str, folder: Path) -> SqsLocation:
    return parse_queue(_text(given, name, folder), name)


def _results(given: object, name: str, folder: Path) -> ResultsLocation:
    return parse_results(_text(given, name, folder), name)


def _secret(given: object, name: str, folder: Path) -> Secret:
    """Nothing of it is ever told."""
    del folder
    if not isinstance(given, str) or not given or not given.isprintable():
        raise BadInput(f"{name} must be text on one line")
    return Secret(given)


def _proxy_urls(given: object, name: str, folder: Path) -> tuple[Secret, ...]:
    urls = tuple(_secret(part, name, folder) for part in _parse_list(given, name, "addresses"))
    parse_proxies(urls, name)
    return urls


def _proxy_url(given: object, name: str, folder: Path) -> str:
    url = _secret(given, name, folder).reveal()  # somebody may have put a password into it
    check_url(url, name)
    return url


def _plain(given: object, name: str, folder: Path) -> str:
    """A part of a user name."""
    text = _text(given, name, folder)
    if re.fullmatch(r"[A-Za-z0-9_.-]+", text) is None:
        raise BadInput(f"{name} must be letters, digits, '_', '.' and '-' alone, not {given!r}")
    return text


def _hosts_and_ports(given: object, name: str, folder: Path) -> tuple[str, ...]:
    parts = tuple(_text(part, name, folder).lower() for part in _parse_list(given, name, "host:port"))
    for part in parts:
        found = _HOST_AND_PORT.fullmatch(part)
        if found is None or int(found[3]) > 65_535:
            raise BadInput(f"{name} must be host:port, such as localhost:3000 or [::1]:3000, not {part!r}")
    return parts


def parse_server(given: object, name: str, folder: Path = Path()) -> str:
    """The address of a site or a controller. Raises BadInput."""
    url = _text(given, name, folder).rstrip("/")
    if re.fullmatch(r"https?://[^/\s@]+(/\S*)?", url) is None:
        raise BadInput(
            f"{name} must be an address that begins with http:// or https://, not {mask_setting(name, url)!r}"
        )
    return url


def _webhook_url(given: object, name: str, folder: Path) -> str:
    """Nothing of it is told: such addresses often hold a token."""
    url = _secret(given, name, folder).reveal()
    if re.fullmatch(r"https?://[^/?#\s@\\]+([/?][^\s#]*)?", url) is None:
        raise BadInput(f"{name} must be an address that begins with http:// or https://, without a user and a fragment")
    return url


def _webhook_secrets(given: object, name: str, folder: Path) -> tuple[Secret, ...]:
    secrets = tuple(_secret(part, name, folder) for part in _parse_list(given, name, "secrets"))
    _ = [signing_key(secret) for secret in secrets]  # raises BadInput
    return secrets


def parse_host(given: object, name: str, folder: Path = Path()) -> str:
    """A name or an address to listen at. Raises BadInput."""
    host = _text(given, name, folder).strip("[]")
    if re.fullmatch(r"[A-Za-z0-9._:-]+", host) is None:
        raise BadInput(f"{name} must be a name or an address, such as 127.0.0.1 or ::1, not {given!r}")
    return host


def _host_names(given: object, name: str, folder: Path) -> tuple[str, ...]:
    return tuple(parse_host(part, name, folder).lower() for part in _parse_list(given, name, "host names"))


def _port(given: object, name: str, folder: Path) -> int:
    port = 0 if str(given) == "0" else parse_count(given, name, folder)
    if port > 65_535:
        raise BadInput(f"{name} must be a port, 0 to 65535 (0 takes a free one), not {given!r}")
    return port


def _all_seconds(given: object, name: str, folder: Path) -> tuple[float, ...]:
    return tuple(parse_seconds(part, name, folder) for part in _parse_list(given, name, "seconds, such as 2, 4, 8"))


def _level(given: object, name: str, folder: Path) -> str:
    level = _text(given, name, folder).upper()
    if level not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise BadInput(f"{name} must be debug, info, warning, error or critical, not {given!r}")
    return level


def _one_of(*words: str) -> Callable[[object, str, Path], str]:
    def parse(given: object, name: str, folder: Path) -> str:
        word = _text(given, name, folder).lower()
        if word not in words:
            raise BadInput(f"{name} must be {' or '.join(words)}, not {given!r}")
        return word

    return parse


def _cdp_url(given: object, name: str, folder: Path) -> Secret:
    """Nothing of it is told: whoever has it has the browser."""
    url = _secret(given, name, folder)
    if re.fullmatch(r"(wss?|https?)://[^/?#\s]+([/?]\S*)?", url.reveal()) is None:
        raise BadInput(f"{name} must be an address that begins with ws://, wss://, http:// or https://")
    return url


PARSERS: Final[dict[str, Callable[[object, str, Path], Any]]] = {
    "data": _path,
    "store": _store,
    "queue": _queue,
    "results": _results,
    "results_readable_by": _one_of("owner", "group", "all"),
    "scrapers": _paths,
    "default_scraper": _text,
    "allow_javascript": parse_switch,
    "lease_seconds": parse_seconds,
    "heartbeat_seconds": parse_seconds,
    "grace_seconds": parse_seconds,
    "standstill_seconds": parse_seconds,
    "max_items": parse_count,
    "log_level": _level,
    "log_format": _one_of("json", "text"),
    "traces": parse_switch,
    "fsync": parse_switch,
    "sites": _path,
    "allow_private": _hosts_and_ports,
    "demo_url": parse_server,
    "robots_agent": _text,
    "host": parse_host,
    "port": _port,
    "allowed_hosts": _host_names,
    "max_body_bytes": parse_count,
    "requests_per_minute": parse_count,
    "requests_at_once": parse_count,
    "streams_per_key": parse_count,
    "connections_per_address": parse_count,
    "queue_depth": parse_count,
    "task_retention_days": parse_seconds,
    "public_url": parse_server,
    "server": parse_server,
    "service_key": _secret,
    "webhook_url": _webhook_url,
    "webhook_secret": _webhook_secrets,
    "webhook_retry_seconds": _all_seconds,
    "webhook_timeout_seconds": parse_seconds,
    "proxy_url": _proxy_url,
    "proxy_customer": _plain,
    "proxy_ca_file": _path,
    **{f"proxy_{tier.value}_zone": _plain for tier in ZONED},
    **{f"proxy_{tier.value}_password": _secret for tier in ZONED},
    "proxy_custom_urls": _proxy_urls,
    **{
        f"proxy_{tier.value}_price_per_{unit}": parse_price
        for tier in (*ZONED, ProxyType.CUSTOM)
        for unit in ("gb", "1000")
    },
    "proxy_cooldown_seconds": parse_seconds,
    "proxy_recheck_seconds": parse_seconds,
    "chromium": _path,
    "browsers": parse_count,
    "browser_concurrency": parse_count,
    "browser_pages": parse_count,
    "browser_mib": parse_count,
    "browser_minutes": parse_seconds,
    "browser_user": _plain,
    "browser_headless": parse_switch,
    "browser_provider": _one_of("local", "cdp", "browserbase"),
    "browser_sessions": parse_count,
    "browser_session_seconds": parse_seconds,
    "browser_cdp_url": _cdp_url,
    "browserbase_url": parse_server,
    "browserbase_api_key": _secret,
    "browserbase_project": _plain,
    "browserbase_region": _plain,
    "browserbase_creations_per_minute": parse_count,
}
