"""The folders and environment variables of one driver and one Chromium.

Neither inherits our environment: no keys, no settings. The browser's user can write to the three folders inside
(profile, downloads, temporary files) but not to the one around them, so it cannot replace them by links.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.fetch.browser.chromium.process_tag import TAG_VARIABLE, ProcessTag
from swath.fetch.browser.chromium.sandbox import Sandbox

__all__ = [
    "chromium_environment",
    "downloads_of",
    "driver_environment",
    "make_folders",
    "memory_flags",
    "scratch_of",
    "write_authority",
]

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 asked how large it is, and nothing is put there by us
ROOMY_BYTES: Final = 1 << 30
# Choices that people have in its settings. Without the first a page that prints itself waits in a window for
# somebody to choose a printer, for ever; with the second no page is loaded in advance, past the gate.
PREFERENCES: Final = '{"printing":{"enabled":false},"net":{"network_prediction_options":2}}'
# A site's 401 is an answer like others: else anything that a page loads may wait for a password, for ever.
LOCAL_STATE: Final = '{"auth":{"schemes":""}}'


def driver_environment(mark: ProcessTag, folder: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),  # it makes the profile there
        "LANG": "C.UTF-8",
        "PW_LANG_NAME": "python",
        TAG_VARIABLE: str(mark),
    }


def chromium_environment(binary: Path, sandbox: Sandbox, folder: Path, display: str | None) -> dict[str, str]:
    """What run_chromium.sh reads; it hands none of it on. Without it, what Chromium needs."""
    scratch = scratch_of(folder)
    plain = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(scratch)}
    screen = {"DISPLAY": display, "XAUTHORITY": str(_authority_of(folder))} if display else {}
    if sandbox.leash is None:
        return {**plain, **screen}
    return {
        **plain,
        "BROWSER_PROGRAM": str(binary),
        "BROWSER_LEASH": str(sandbox.leash),
        "BROWSER_UID": "" if sandbox.uid is None else str(sandbox.uid),
        "BROWSER_GID": "" if sandbox.gid is None else str(sandbox.gid),
        "BROWSER_NO_NEW_RIGHTS": "" if sandbox.helped else "1",
        "BROWSER_PROFILE": str(_profile_of(folder)),
        "BROWSER_DISPLAY": display or "",
        "BROWSER_AUTHORITY": str(_authority_of(folder)),
    }


def make_folders(folder: Path, uid: int | None, gid: int | None) -> None:
    folder.mkdir(mode=0o700)
    for inner in (downloads_of(folder), scratch_of(folder)):
        inner.mkdir(mode=0o700)
    _write_profile(_profile_of(folder))
    if uid is not None and gid is not None:  # when all is there: whoever may write to it could lead us elsewhere
        for path in (*_profile_of(folder).rglob("*"), *folder.iterdir()):
            os.chown(path, uid, gid, follow_symlinks=False)
    if uid is not None:
        folder.chmod(0o711)  # the browser's user may pass, and not look around


def _write_profile(profile: Path) -> None:
    (profile / "Default").mkdir(mode=0o700, parents=True)
    profile.chmod(0o700)
    (profile / "Default" / "Preferences").write_text(PREFERENCES, encoding="ascii")
    (profile / "Local State").write_text(LOCAL_STATE, encoding="ascii")


def write_authority(folder: Path, authority: bytes, uid: int | None, gid: int | None) -> None:
    """What shows the browser's right to the screen, for its user alone."""
    file = os.open(_authority_of(folder), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    with os.fdopen(file, "wb") as writing:
        writing.write(authority)
        if uid is not None and gid is not None:
            os.fchown(file, uid, gid)


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


def scratch_of(folder: Path) -> Path:
    """Temporary files."""
    return folder / "t"  # short: Chromium makes a socket there, whose path may have 107 bytes


def _profile_of(folder: Path) -> Path:
    return folder / "profile"


def _authority_of(folder: Path) -> Path:
    return folder / "authority"
