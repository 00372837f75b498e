"""Settings: read once, here and nowhere else, and handed on as values.

Each comes from a `SWATH_*` variable, else from a TOML file, else it has its default; `swath config show` says which.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from swath.domain.errors import BadInput
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import MASK, Secret
from swath.proxies.bright_data import check_url
from swath.proxies.custom import parse_proxies
from swath.proxies.setup import DEFAULT_URL, ZONED, Price, ProxySetup, Zone

__all__ = ["MASK", "Origin", "Reading", "Settings", "completion_asked", "masked", "read", "read_settings"]

PREFIX: Final = "SWATH_"
CONFIG_VARIABLE: Final = "SWATH_CONFIG"
CONFIG_NAME: Final = "swath.toml"
SITES_NAME: Final = "sites.yaml"

_SECRET_NAME: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|CUSTOM_URL", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(r"(?<=://)\S+(?=@)")
_HOST_AND_PORT: Final = re.compile(r"([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded back end. The lengths of time are settable so that tests need not wait."""

    data: Path = Path("swath-data")
    scrapers: tuple[Path, ...] = ()
    default_scraper: str | None = None
    lease_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    grace_seconds: float = 30.0
    standstill_seconds: float = 30.0
    max_items: int = 256
    log_level: str = "WARNING"
    fsync: bool = False
    sites: Path | None = None
    allow_private: tuple[str, ...] = ()
    demo_url: str = "http://127.0.0.1:8010"
    robots_agent: str = "swath"
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

    @property
    def proxies(self) -> ProxySetup:
        """What is set up of proxies, for proxies/ways.py."""

        def of(tier: ProxyType, what: str) -> Any:
            return getattr(self, f"proxy_{tier.value}_{what}")

        priced = (*ZONED, ProxyType.CUSTOM)
        return ProxySetup(
            url=self.proxy_url,
            customer=self.proxy_customer,
            zones={tier: Zone(of(tier, "zone"), of(tier, "password")) for tier in ZONED},
            ca_file=self.proxy_ca_file,
            custom_urls=self.proxy_custom_urls,
            prices={tier: Price(of(tier, "price_per_gb"), of(tier, "price_per_1000")) for tier in priced},
            cooldown_seconds=self.proxy_cooldown_seconds,
            recheck_seconds=self.proxy_recheck_seconds,
        )


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from: a variable, a file, or nowhere (a default). `name` is what messages call it."""

    source: str
    name: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with the origin of each, by field. `unknown` are variables that look like ours and are not."""

    settings: Settings
    origins: Mapping[str, Origin]
    file: Path | None
    unknown: Mapping[str, str]


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings alone."""
    return read(environment).settings


def read(environment: Mapping[str, str] | None = None) -> Reading:
    """Raises BadInput for a value that cannot be used and for a key that the file should not have."""
    given = dict(os.environ) if environment is None else environment
    variables = {name: value for name, value in given.items() if name.startswith(PREFIX) and value}
    file = _config_file(given)
    written = {} if file is None else _read_file(file)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for field, parse in _PARSERS.items():
        variable = PREFIX + field.upper()
        if variable in variables:
            origins[field] = Origin("environment", variable)
            values[field] = parse(variables[variable], variable, Path())
        elif field in written and file is not None:
            origins[field] = Origin("file", f"{file}: {field}")
            values[field] = parse(written[field], f"{file}: {field}", file.parent)
        else:
            origins[field] = Origin("default", "default")
    if "heartbeat_seconds" not in values and "lease_seconds" in values:
        values["heartbeat_seconds"] = values["lease_seconds"] / 3
    if "sites" not in values and Path(SITES_NAME).is_file():
        values["sites"] = Path(SITES_NAME)
    settings = Settings(**values)
    if settings.heartbeat_seconds >= settings.lease_seconds:
        raise BadInput(_too_slow(settings, origins))
    ours = {CONFIG_VARIABLE, *(PREFIX + field.upper() for field in _PARSERS)}
    unknown = {name: _shown_unknown(name, variables[name]) for name in sorted(variables) if name not in ours}
    return Reading(settings=settings, origins=origins, file=file, unknown=unknown)


def _too_slow(settings: Settings, origins: Mapping[str, Origin]) -> str:
    told = [
        f"{field} ({getattr(settings, field):g}, {origins[field].name})"
        for field in ("heartbeat_seconds", "lease_seconds")
    ]
    return f"{told[0]} must be less than {told[1]}: a lease would run out before it is renewed"


def masked(name: str, value: str) -> str:
    """A value as it may be shown: nothing of one whose name smells of a secret, no credentials of a URL."""
    return MASK if _SECRET_NAME.search(name) else _SECRET_IN_URL.sub(MASK, value)


def _shown_unknown(name: str, value: str) -> str:
    """A misspelt name of a secret need not smell of one, so nothing near the proxies is shown."""
    return MASK if name.startswith(f"{PREFIX}PROXY") else masked(name, value)


def completion_asked(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a shell, not a person, has called: it wants the words that may come next."""
    return "_SWATH_COMPLETE" in (os.environ if environment is None else environment)


# -- the file ----------------------------------------------------------------------------------------------------------


def _config_file(environment: Mapping[str, str]) -> Path | None:
    """The one that is named, else the one in this folder, else the user's own."""
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    folders = [Path()]
    if home := environment.get("XDG_CONFIG_HOME"):
        folders.append(Path(home) / "swath")
    elif home := environment.get("HOME"):
        folders.append(Path(home) / ".config" / "swath")
    return next((folder / CONFIG_NAME for folder in folders if (folder / CONFIG_NAME).is_file()), None)


def _read_file(file: Path) -> dict[str, Any]:
    if file.exists() and not (file.is_file() or file.is_dir()):  # opening a pipe would wait for somebody to write
        raise BadInput(f"{file}: is a pipe or a device, not a file; correct {CONFIG_VARIABLE}")
    try:
        written = tomllib.loads(file.read_bytes().decode("utf-8"))
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}; correct {CONFIG_VARIABLE}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: is not valid TOML: {error}") from None
    for key in written:
        if key not in _PARSERS:
            near = difflib.get_close_matches(key.lower().removeprefix(PREFIX.lower()), _PARSERS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(_PARSERS)}"
            raise BadInput(f"{file}: {key!r} is no setting; {hint}")
    return written


# -- values: text of a variable, or a value of the file ----------------------------------------------------------------


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


def _secret(given: object, name: str, folder: Path) -> Secret:
    """Nothing of it is ever told."""
    del folder
    if not isinstance(given, str) or not given or not given.isprintable():
        raise BadInput(f"{name} must be text on one line")
    return Secret(given)


def _proxy_urls(given: object, name: str, folder: Path) -> tuple[Secret, ...]:
    if isinstance(given, str):
        given = [part for part in re.split(r"[,\s]+", given) if part]
    if not isinstance(given, list):
        raise BadInput(f"{name} must be a list of addresses")
    urls = tuple(_secret(part, name, folder) for part in given)
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
    if isinstance(given, str):
        given = [part for part in re.split(r"[,\s]+", given) if part]
    if not isinstance(given, list):
        raise BadInput(f"{name} must be a list of host:port, not {given!r}")
    parts = tuple(_text(part, name, folder).lower() for part in given)
    for part in parts:
        found = _HOST_AND_PORT.fullmatch(part)
        if found is None or int(found[3]) > 65_535:
            raise BadInput(f"{name} must be host:port, such as localhost:3000 or [::1]:3000, not {part!r}")
    return parts


def _site_url(given: object, name: str, folder: Path) -> str:
    url = _text(given, name, folder).rstrip("/")
    if re.fullmatch(r"https?://[^/\s@]+(/\S*)?", url) is None:
        raise BadInput(f"{name} must be an address that begins with http:// or https://, not {masked(name, url)!r}")
    return url


def _price(given: object, name: str, folder: Path) -> float:
    return 0.0 if str(given) == "0" else _seconds(given, name, folder)


def _seconds(given: object, name: str, folder: Path) -> float:
    del folder
    try:
        value = float(given) if isinstance(given, (str, int, float)) and not isinstance(given, bool) else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"{name} must be a number above 0, not {given!r}")
    return value


def _count(given: object, name: str, folder: Path) -> int:
    value = _seconds(given, name, folder)
    if not value.is_integer():
        raise BadInput(f"{name} must be a whole number above 0, not {given!r}")
    return int(value)


def _level(given: object, name: str, folder: Path) -> str:
    level = _text(given, name, folder).upper()
    if level not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise BadInput(f"{name} must be debug, info, warning, error or critical, not {given!r}")
    return level


def _switch(given: object, name: str, folder: Path) -> bool:
    del folder
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(given).lower() not in words:
        raise BadInput(f"{name} must be 1 or 0, not {given!r}")
    return words[str(given).lower()]


_PARSERS: Final[dict[str, Callable[[object, str, Path], Any]]] = {
    "data": _path,
    "scrapers": _paths,
    "default_scraper": _text,
    "lease_seconds": _seconds,
    "heartbeat_seconds": _seconds,
    "grace_seconds": _seconds,
    "standstill_seconds": _seconds,
    "max_items": _count,
    "log_level": _level,
    "fsync": _switch,
    "sites": _path,
    "allow_private": _hosts_and_ports,
    "demo_url": _site_url,
    "robots_agent": _text,
    "proxy_url": _proxy_url,
    "proxy_customer": _plain,
    "proxy_ca_file": _path,
    **{f"proxy_{tier.value}_zone": _plain for tier in ZONED},
    **{f"proxy_{tier.value}_password": _secret for tier in ZONED},
    "proxy_custom_urls": _proxy_urls,
    **{
        f"proxy_{tier.value}_price_per_{unit}": _price for tier in (*ZONED, ProxyType.CUSTOM) for unit in ("gb", "1000")
    },
    "proxy_cooldown_seconds": _seconds,
    "proxy_recheck_seconds": _seconds,
}
