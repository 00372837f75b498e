"""What a check of `swath doctor` looks at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec

from swath.ports.clock import Clock
from swath.settings import Reading, Settings, SqlitePlace

__all__ = ["Check", "Finding", "Level", "Subject", "fail", "ok", "warn"]


class Level(StrEnum):
    """`fail`: jobs cannot run well, or at all. `warn`: they can, and somebody should look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One answer; `advice` says what to do unless all is well."""

    level: Level
    message: str
    advice: str = ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at. `reading` is None when the settings cannot be read; `settings` are then the defaults."""

    settings: Settings
    reading: Reading | None
    trouble: str
    clock: Clock

    @property
    def store_folder(self) -> Path:
        """Where workers of this machine keep their lock files, beside the SQLite store if there is one."""
        place = self.settings.places.store
        return place.folder if isinstance(place, SqlitePlace) else self.settings.data


Check: TypeAlias = Callable[[Subject], Finding]


def ok(message: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, message)


def warn(message: str, advice: str) -> Finding:
    """It works, but somebody should look."""
    return Finding(Level.WARN, message, advice)


def fail(message: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(Level.FAIL, message, advice)
