"""Creates folders and files that only their owner can read.

Stored inputs, results and worker notes are private; every back end creates its files here or with these modes. The
umask may remove permissions and never adds any.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PRIVATE_FILE", "PRIVATE_FOLDER", "is_too_open", "make_folder", "make_private_file", "stands_in_place"]

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def make_folder(folder: Path, mode: int = PRIVATE_FOLDER) -> None:
    """Makes a folder, and private ones above it, where they are missing. One that is there stays as it is.

    Raises OSError, FileExistsError when something else is there.
    """
    if not folder.is_dir():
        if folder.parent != folder and not folder.parent.is_dir():
            make_folder(folder.parent)
        folder.mkdir(mode=mode, exist_ok=True)


def stands_in_place(folder: Path) -> bool:
    """Whether something else is where the folder belongs: a file, say, or a link to a disk that is not mounted."""
    return os.path.lexists(folder) and not folder.is_dir()


def make_private_file(path: Path) -> None:
    """Makes an empty file if there is none, for who would make a wider one. What hinders it, that one will tell.

    A file that is there is not opened: closing it would take away the locks that SQLite holds on it in this process.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))


def is_too_open(path: Path, allowed: int) -> bool:
    """Whether more users may do something with a file or folder than `allowed` says; no if it is not there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return bool(found.st_mode & 0o077 & ~allowed)
