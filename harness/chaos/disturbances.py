"""Disturbances of a running job: removed presence files, damaged results folders, a schedule tied to its progress."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

__all__ = ["Damage", "DamagedFolder", "Schedule", "possible_damages", "remove_presence"]


class Schedule:
    """`plan` says how many of each kind; the last begins before `last` items are done."""

    def __init__(self, plan: Mapping[str, int], last: int, luck: random.Random) -> None:
        kinds = [kind for kind, count in plan.items() for _ in range(count)]
        self._ahead = sorted(((luck.randrange(max(1, last)), kind) for kind in kinds), reverse=True)

    def due(self, done: int) -> Iterator[str]:
        """Those whose time has come, each once."""
        while self._ahead and done >= self._ahead[-1][0]:
            yield self._ahead.pop()[1]

    @property
    def empty(self) -> bool:
        """Whether all of them have come."""
        return not self._ahead


def remove_presence(folder: Path, luck: random.Random) -> str | None:
    """Removes the whole folder or some of its files; says which. None when there was nothing to remove."""
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    if not files:
        return None
    if luck.random() < 0.5:
        shutil.rmtree(folder, ignore_errors=True)
        return "folder"
    for file in luck.sample(files, luck.randint(1, len(files))):
        file.unlink(missing_ok=True)
    return "files"


_LEASES: Final = ".leases"


class Damage(StrEnum):
    """What can happen to a folder."""

    FILE = "a file in place of the folder"
    LOOP = "a symbolic link that leads to itself"
    LEASES = "no .leases folder"
    PERMISSION = "no permission"


def possible_damages() -> list[Damage]:
    """Those that do anything here: permissions do not stop root."""
    return [kind for kind in Damage if kind is not Damage.PERMISSION or os.geteuid() != 0]


class DamagedFolder:
    """Damaged from its making until `repair`; what was in it lies beside it meanwhile."""

    def __init__(self, folder: Path, damage: Damage) -> None:
        self._folder = folder
        self._damage = damage
        self._aside = folder.with_name(f".{folder.name}.aside")
        self._mode = folder.stat().st_mode
        match damage:
            case Damage.FILE:
                folder.rename(self._aside)
                folder.write_text("not a folder\n", encoding="utf-8")
            case Damage.LOOP:
                folder.rename(self._aside)
                folder.symlink_to(folder.name)
            case Damage.LEASES:
                if (folder / _LEASES).exists():
                    (folder / _LEASES).rename(self._aside)
            case Damage.PERMISSION:
                folder.chmod(0)

    def repair(self, *, ended: bool) -> None:
        """Puts everything back. A job that has `ended` meanwhile has no use for its leases any more."""
        if self._damage is Damage.PERMISSION:
            self._folder.chmod(self._mode)
        elif self._damage is not Damage.LEASES:
            if self._folder.is_symlink() or self._folder.is_file():
                self._folder.unlink()
            _merge(self._aside, self._folder)
        elif ended:
            shutil.rmtree(self._aside, ignore_errors=True)
        elif self._aside.exists():
            _merge(self._aside, self._folder / _LEASES)


def _merge(source: Path, target: Path) -> None:
    """Moves what is missing at the target; what was made there meanwhile is newer and stays."""
    if not target.exists():
        source.rename(target)
        return
    for entry in list(source.iterdir()):
        if entry.is_dir() and (target / entry.name).is_dir():
            _merge(entry, target / entry.name)
        elif not (target / entry.name).exists():
            entry.rename(target / entry.name)
    shutil.rmtree(source, ignore_errors=True)
