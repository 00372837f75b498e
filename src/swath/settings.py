"""Settings: read once, here and nowhere else, and handed on as values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swath.domain.errors import BadInput

__all__ = ["Settings", "read_settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the folder of the embedded back end. The lengths of time are settable so that tests need not wait."""

    data: Path = Path("swath-data")
    scrapers: tuple[Path, ...] = ()
    default_scraper: str | None = None
    lease_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    grace_seconds: float = 30.0
    max_items: int = 256
    log_level: str = "WARNING"
    fsync: bool = False


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """From `SWATH_*` variables. An empty one counts as not set."""
    given = os.environ if environment is None else environment
    env = {name: value for name, value in given.items() if name.startswith("SWATH_") and value}
    default = Settings()
    lease_seconds = _number(env, "SWATH_LEASE_SECONDS", default.lease_seconds)
    return Settings(
        data=Path(env.get("SWATH_DATA", default.data)),
        scrapers=tuple(Path(part) for part in env.get("SWATH_SCRAPERS", "").split(os.pathsep) if part),
        default_scraper=env.get("SWATH_DEFAULT_SCRAPER"),
        lease_seconds=lease_seconds,
        heartbeat_seconds=_number(env, "SWATH_HEARTBEAT_SECONDS", lease_seconds / 3),
        grace_seconds=_number(env, "SWATH_GRACE_SECONDS", default.grace_seconds),
        max_items=int(_number(env, "SWATH_MAX_ITEMS", default.max_items)),
        log_level=_level(env.get("SWATH_LOG_LEVEL", default.log_level)),
        fsync=env.get("SWATH_FSYNC", "0") not in {"0", "false", "no"},
    )


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"{name} must be a number above 0, not {text!r}")
    return value


def _level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise BadInput(f"SWATH_LOG_LEVEL must be debug, info, warning, error or critical, not {text!r}")
    return text.upper()
