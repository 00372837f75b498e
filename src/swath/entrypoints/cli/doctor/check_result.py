"""What a check of `swath doctor` gets, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec

from swath.ports.clock import Clock
from swath.settings import LoadedSettings, Settings, SqliteLocation

__all__ = ["Check", "CheckContext", "CheckLevel", "CheckResult", "fail", "ok", "warn"]


class CheckLevel(StrEnum):
    """`fail`: jobs cannot run well, or at all. `warn`: they can, and somebody should look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckResult(msgspec.Struct, frozen=True):
    """One answer; `advice` says what to do unless all is well."""

    level: CheckLevel
    message: str
    advice: str = ""


class CheckContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at. `reading` is None when the settings cannot be read; `settings` are then the defaults."""

    settings: Settings
    reading: LoadedSettings | None
    trouble: str
    clock: Clock

    @property
    def store_folder(self) -> Path:
        """Where workers of this machine keep their lock files, beside the SQLite store if there is one."""
        place = self.settings.places.store
        return place.folder if isinstance(place, SqliteLocation) else self.settings.data


Check: TypeAlias = Callable[[CheckContext], CheckResult]


def ok(message: str) -> CheckResult:
    """All is well."""
    return CheckResult(CheckLevel.OK, message)


def warn(message: str, advice: str) -> CheckResult:
    """It works, but somebody should look."""
    return CheckResult(CheckLevel.WARN, message, advice)


def fail(message: str, advice: str) -> CheckResult:
    """It does not work."""
    return CheckResult(CheckLevel.FAIL, message, advice)
