"""User ids for browsers of a root worker: one that nothing else on this machine uses, for each browser.

No account is made. An id is taken from a range that systemd, Debian and FreeIPA leave unused, held by a name that the
kernel frees when this process dies, and checked: no account has it and no process runs under it.
"""

from __future__ import annotations

import grp
import os
import pwd
import random
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["OwnUser", "as_user", "is_own", "kill_all_of", "own_range"]

# https://systemd.io/UIDS-GIDS: past the ranges of containers, and of the pools that FreeIPA and SSSD draw from. The
# second is for containers in a user namespace, which usually has the first 65,536 ids only.
RANGES: Final = (range(2_100_000_000, 2_100_065_536), range(60_578, 61_184))
TRIES: Final = 200
KILL_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.01
_HELD: Final = "\0swath-browser-user-{}"
_random = random.SystemRandom()


def own_range() -> range | None:
    """Where ids are taken from in this user namespace; None: it has none of them."""
    return next((ids for ids in RANGES if _is_mapped(ids, "uid_map") and _is_mapped(ids, "gid_map")), None)


def is_own(uid: int) -> bool:
    """Whether it is one of those that are given to a browser alone."""
    return any(uid in ids for ids in RANGES)


class OwnUser:
    """An id, held by this process until `release`. The group has the same number."""

    def __init__(self, uid: int, held: socket.socket) -> None:
        self.uid = uid
        self._held = held

    @classmethod
    def take(cls) -> OwnUser:
        """Reads the table of processes: call it in a thread. Raises Failed (browser_crash) when none is free."""
        ids = own_range() or range(0)
        running = _running()
        for _ in range(TRIES if ids else 0):
            uid = _random.choice(ids)
            held = None if uid in running or _has_account(uid) else _hold(uid)
            if held is not None:
                return cls(uid, held)
        message = "no user id is free for a browser of its own; name a user with SWATH_BROWSER_USER"
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message))

    @classmethod
    def retake(cls, uid: int) -> OwnUser | None:
        """The id of a browser whose worker died; None when another browser has it by now."""
        held = _hold(uid)
        return None if held is None else cls(uid, held)

    def release(self) -> None:
        """May be called again."""
        self._held.close()


def as_user(leash: Path, ids: tuple[int, int] | None, *, new_rights: bool = False) -> tuple[str, ...]:
    """The beginning of a command that ends with this process, as that user and group."""
    whom = () if ids is None else (f"--reuid={ids[0]}", f"--regid={ids[1]}", "--clear-groups")
    return (str(leash), *whom, *(() if new_rights else ("--no-new-privs",)), "--pdeathsig", "KILL")


def kill_all_of(uid: int, leash: Path) -> None:
    """Kills every process of an own user, whatever group it has moved to, and waits until they are gone. Bounded,
    blocks, never raises OSError."""
    if not is_own(uid):
        raise ValueError(f"{uid} may be somebody's")
    command = (*as_user(leash, (uid, uid)), "/bin/sh", "-c", "kill -KILL -1")
    deadline = time.monotonic() + KILL_SECONDS
    while uid in _running() and time.monotonic() < deadline:
        with suppress(OSError, subprocess.TimeoutExpired):  # by that user itself: the kernel spares all others
            subprocess.run(command, check=False, cwd="/", timeout=KILL_SECONDS, capture_output=True)  # noqa: S603 ours
        time.sleep(LOOK_SECONDS)


def _hold(uid: int) -> socket.socket | None:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(_HELD.format(uid))
    except OSError:
        held.close()
        return None
    return held


def _has_account(uid: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look_up(uid)
            return True
    return False


def _running() -> frozenset[int]:
    """Whose processes there are. The dead that nobody has buried yet do not count."""
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError, ValueError):
            text = Path(entry.path, "status").read_text(encoding="utf-8", errors="replace")
            told = dict(line.partition(":")[::2] for line in text.splitlines())
            if told["State"].split()[0] not in {"Z", "X"}:
                found.update(map(int, told["Uid"].split()))
    return frozenset(found)


def _is_mapped(ids: Sequence[int], name: str) -> bool:
    try:
        lines = Path(f"/proc/self/{name}").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    parts = [tuple(map(int, line.split())) for line in lines]
    return any(first <= ids[0] and ids[-1] < first + count for first, _, count in parts)
