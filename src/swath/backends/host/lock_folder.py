"""Why the folder of lock files cannot be used, and what to do: for refusals, the log, and `swath doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["FolderTrouble", "find_trouble", "trouble_after"]


class FolderTrouble(NamedTuple):
    """What is wrong, and its remedy."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.problem}; {self.remedy}"


def find_trouble(folder: Path) -> FolderTrouble | None:
    """Looks at the folder without changing anything. A missing folder is fine: the next worker creates it."""
    if not os.path.lexists(folder):
        return None
    if not folder.is_dir():
        return FolderTrouble(
            f"{folder} is not a folder, so workers cannot write their lock files",
            f"move {folder} away, and the next worker creates the folder",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return FolderTrouble(f"workers cannot write their lock files: {folder} is not writable", "make it writable")
    return None


def trouble_after(error: OSError, folder: Path) -> FolderTrouble:
    """The same after a lock file could not be written."""
    found = find_trouble(folder)
    if found is not None:
        return found
    path = error.filename or folder
    return FolderTrouble(
        f"cannot write the lock file {path}: {error.strerror}", "choose another folder with SWATH_DATA"
    )
