"""Makes a value of what was written: the text of a variable, or a value of the file. Before: reading.py found it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import MASK, Secret
from swath.integrations.webhook.sign import key_of
from swath.proxies.bright_data import check_url
from swath.proxies.custom import parse_proxies
from swath.proxies.setup import ZONED
from swath.settings.numbers import count, price, seconds, switch
from swath.settings.places import ResultsPlace, SqsPlace, StorePlace, parse_queue, parse_results, parse_store

__all__ = ["PARSERS", "masked", "parse_host", "parse_server"]

_SECRET_NAME: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|CUSTOM_URL", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(r"(?<=://)\S+(?=@)")
_TOKEN_IN_PATH: Final = re.compile(r"(?<=[^/:])[/?].*")
_HOST_AND_PORT: Final = re.compile(r"([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})")


def masked(name: str, value: str) -> str:
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


def _listed(given: object, name: str, what: str) -> list[object]:
    """The parts of a list, or of a text with commas or spaces between them. They may be secret, so none is told."""
    if isinstance(given, str):
        return [part for part in re.split(r"[,\s]+", given) if part]
    if not isinstance(given, list):
        raise BadInput(f"{name} must be a list of {what}")
    return given


def _store(given: object, name: str, folder: Path) -> StorePlace:
    return parse_store(_text(given, name, folder), name)


def _queue(given: object, name: str, folder: Path) -> SqsPlace:
    return parse_queue(_text(given, name, folder), name)


def _results(given: object, name: str, folder: Path) -> ResultsPlace:
    return parse_results(_text(given, name, folder), name)


def _secret(given: object, name: str, folder: Path) -> Secret:
    """Nothing of it is ever told."""
    del folder
    if not isinstance(given, str) or not given or not given.isprintable():
        raise BadInput(f"{name} must be text on one line")
    return Secret(given)


def _proxy_urls(given: object, name: str, folder: Path) -> tuple[Secret, ...]:
    urls = tuple(_secret(part, name, folder) for part in _listed(given, name, "addresses"))
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
    parts = tuple(_text(part, name, folder).lower() for part in _listed(given, name, "host:port"))
    for part in parts:
        found = _HOST_AND_PORT.fullmatch(part)
        if found is None or int(found[3]) > 65_535:
            raise BadInput(f"{name} must be host:port, such as localhost:3000 or [::1]:3000, not {part!r}")
    return parts


def parse_server(given: object, name: str, folder: Path = Path()) -> str:
    """The address of a site or a controller. Raises BadInput."""
    url = _text(given, name, folder).rstrip("/")
    if re.fullmatch(r"https?://[^/\s@]+(/\S*)?", url) is None:
        raise BadInput(f"{name} must be an address that begins with http:// or https://, not {masked(name, url)!r}")
    return url


def _webhook_url(given: object, name: str, folder: Path) -> str:
    """Nothing of it is told: such addresses often hold a token."""
    url = _secret(given, name, folder).reveal()
    if re.fullmatch(r"https?://[^/?#\s@\\]+([/?][^\s#]*)?", url) is None:
        raise BadInput(f"{name} must be an address that begins with http:// or https://, without a user and a fragment")
    return url


def _webhook_secrets(given: object, name: str, folder: Path) -> tuple[Secret, ...]:
    secrets = tuple(_secret(part, name, folder) for part in _listed(given, name, "secrets"))
    _ = [key_of(secret) for secret in secrets]  # raises BadInput
    return secrets


def parse_host(given: object, name: str, folder: Path = Path()) -> str:
    """A name or an address to listen at. Raises BadInput."""
    host = _text(given, name, folder).strip("[]")
    if re.fullmatch(r"[A-Za-z0-9._:-]+", host) is None:
        raise BadInput(f"{name} must be a name or an address, such as 127.0.0.1 or ::1, not {given!r}")
    return host


def _host_names(given: object, name: str, folder: Path) -> tuple[str, ...]:
    return tuple(parse_host(part, name, folder).lower() for part in _listed(given, name, "host names"))


def _port(given: object, name: str, folder: Path) -> int:
    port = 0 if str(given) == "0" else count(given, name, folder)
    if port > 65_535:
        raise BadInput(f"{name} must be a port, 0 to 65535 (0 takes a free one), not {given!r}")
    return port


def _all_seconds(given: object, name: str, folder: Path) -> tuple[float, ...]:
    return tuple(seconds(part, name, folder) for part in _listed(given, name, "seconds, such as 2, 4, 8"))


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
    "allow_javascript": switch,
    "lease_seconds": seconds,
    "heartbeat_seconds": seconds,
    "grace_seconds": seconds,
    "standstill_seconds": seconds,
    "max_items": count,
    "log_level": _level,
    "log_format": _one_of("json", "text"),
    "traces": switch,
    "fsync": switch,
    "sites": _path,
    "allow_private": _hosts_and_ports,
    "demo_url": parse_server,
    "robots_agent": _text,
    "host": parse_host,
    "port": _port,
    "allowed_hosts": _host_names,
    "max_body_bytes": count,
    "requests_per_minute": count,
    "requests_at_once": count,
    "streams_per_key": count,
    "connections_per_address": count,
    "queue_depth": count,
    "task_retention_days": seconds,
    "public_url": parse_server,
    "server": parse_server,
    "service_key": _secret,
    "webhook_url": _webhook_url,
    "webhook_secret": _webhook_secrets,
    "webhook_retry_seconds": _all_seconds,
    "webhook_timeout_seconds": seconds,
    "proxy_url": _proxy_url,
    "proxy_customer": _plain,
    "proxy_ca_file": _path,
    **{f"proxy_{tier.value}_zone": _plain for tier in ZONED},
    **{f"proxy_{tier.value}_password": _secret for tier in ZONED},
    "proxy_custom_urls": _proxy_urls,
    **{f"proxy_{tier.value}_price_per_{unit}": price for tier in (*ZONED, ProxyType.CUSTOM) for unit in ("gb", "1000")},
    "proxy_cooldown_seconds": seconds,
    "proxy_recheck_seconds": seconds,
    "chromium": _path,
    "browsers": count,
    "browser_concurrency": count,
    "browser_pages": count,
    "browser_mib": count,
    "browser_minutes": seconds,
    "browser_user": _plain,
    "browser_headless": switch,
    "browser_provider": _one_of("local", "cdp", "browserbase"),
    "browser_sessions": count,
    "browser_session_seconds": seconds,
    "browser_cdp_url": _cdp_url,
    "browserbase_url": parse_server,
    "browserbase_api_key": _secret,
    "browserbase_project": _plain,
    "browserbase_region": _plain,
    "browserbase_creations_per_minute": count,
}
