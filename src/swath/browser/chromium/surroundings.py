"""Surroundings: the folders and environments of one driver and one Chromium. launch.py makes and removes them.

Neither sees anything of our own environment: no keys, no settings.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.browser.chromium.mark import VARIABLE, Mark
from swath.browser.chromium.sandbox import Sandbox

__all__ = ["chromium_environment", "downloads_of", "driver_environment", "make_folders", "memory_flags"]

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 asked how large it is, and nothing is put there by us
ROOMY_BYTES: Final = 1 << 30


def driver_environment(mark: Mark, folder: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),  # it makes the profile there
        "LANG": "C.UTF-8",
        "PW_LANG_NAME": "python",
        VARIABLE: str(mark),
    }


def chromium_environment(binary: Path, sandbox: Sandbox, folder: Path, display: str | None) -> dict[str, str]:
    """What run_chromium.sh reads; it hands none of it on. Without it, what Chromium needs."""
    plain = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(_scratch(folder))}
    if sandbox.leash is None:
        return {**plain, **({"DISPLAY": display} if display else {})}
    return {
        **plain,
        "BROWSER_PROGRAM": str(binary),
        "BROWSER_LEASH": str(sandbox.leash),
        "BROWSER_UID": "" if sandbox.uid is None else str(sandbox.uid),
        "BROWSER_GID": "" if sandbox.gid is None else str(sandbox.gid),
        "BROWSER_NO_NEW_RIGHTS": "" if sandbox.helped else "1",
        "BROWSER_DISPLAY": display or "",
    }


def make_folders(folder: Path, uid: int | None, gid: int | None) -> None:
    folder.mkdir(mode=0o700)
    for inner in (downloads_of(folder), _scratch(folder)):
        inner.mkdir(mode=0o700)
        if uid is not None and gid is not None:
            os.chown(inner, uid, gid)
    if uid is not None:
        folder.chmod(0o711)  # the browser's user may pass, and not look around


def memory_flags(place: Path = SHARED_MEMORY) -> tuple[str, ...]:
    """The driver's own flags to leave out. It has Chromium share memory by files, since containers often have little
    room for it; where there is room, every picture that is drawn would be written to a disk for nothing."""
    with suppress(OSError):
        room = os.statvfs(place)
        if room.f_bavail * room.f_frsize >= ROOMY_BYTES:
            return ("--disable-dev-shm-usage",)
    return ()


def downloads_of(folder: Path) -> Path:
    return folder / "downloads"


def _scratch(folder: Path) -> Path:
    return folder / "t"  # short: Chromium makes a socket there, whose path may have 107 bytes
