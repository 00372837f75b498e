"""The tag on the command line of every browser we start: which data folder it belongs to, and which process owns it.

Folders in the system's temporary folder carry it in their names.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

__all__ = [
    "FOLDER_PREFIX",
    "TAG_SWITCH",
    "TAG_VARIABLE",
    "ProcessTag",
    "browser_folder",
    "family_of",
    "owner_is_alive",
    "process_start_time",
]

TAG_SWITCH: Final = "--swath-browser="  # Chromium ignores what it does not know
TAG_VARIABLE: Final = "BROWSER_MARK"  # the driver carries it in its environment: its arguments are its own
FOLDER_PREFIX: Final = "swath-"
_TAG_PATTERN: Final = re.compile(r"([0-9a-f]{12})-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]{6})")


class ProcessTag(msgspec.Struct, frozen=True):
    """`family`: the data folder on this host. `owner` is the process that started it, told from a later one of the
    same number by when it began."""

    family: str
    owner: int
    owner_started: int
    chance: str

    def __str__(self) -> str:
        return f"{self.family}-{self.owner:x}-{self.owner_started:x}-{self.chance}"

    @classmethod
    def new(cls, family: str) -> ProcessTag:
        """Of this process."""
        return cls(family, os.getpid(), process_start_time(os.getpid()) or 0, secrets.token_hex(3))

    @classmethod
    def read(cls, text: str) -> ProcessTag | None:
        """None when it is none."""
        match = _TAG_PATTERN.fullmatch(text)
        return None if match is None else cls(match[1], int(match[2], 16), int(match[3], 16), match[4])


def family_of(data: Path) -> str:
    """Containers may share folders, and then do not see each other's processes: they are of different families."""
    space = ""
    with suppress(OSError):  # there are none but on Linux
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 no path: a name of the kernel's
    told = "\0".join((str(data.resolve()), socket.gethostname(), space))
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def browser_folder(mark: ProcessTag) -> Path:
    """Where its profile and downloads are. Not in the data folder: another user has to get there."""
    return Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}{mark}"


def owner_is_alive(mark: ProcessTag) -> bool:
    """Whether its owner still runs."""
    return process_start_time(mark.owner) == mark.owner_started


def process_start_time(pid: int) -> int | None:
    """In ticks since boot, on Linux, so that it does not change with the wall clock; None: there is no such process."""
    if not sys.platform.startswith("linux"):
        with suppress(psutil.Error):
            return int(psutil.Process(pid).create_time())
        return None
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = told.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in {"Z", "X"} else int(fields[19])
