"""How a browser is isolated: Chromium's own sandbox, and for a root worker an unprivileged user id.

Whether the sandbox works is found out by trying. Root cannot have it, so root's browsers run as other users: all as
the
one that the settings name, or each under an id of its own. Such an id has no account; it comes from a range that
systemd, Debian and FreeIPA leave unused and is locked by a socket name, which the kernel frees when this process
dies.
"""

from __future__ import annotations

import functools
import grp
import os
import pwd
import random
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind

__all__ = [
    "BrowserUser",
    "Sandbox",
    "command_as_user",
    "find_setpriv",
    "is_browser_uid",
    "kill_processes_of",
    "may_use",
    "own_range",
    "sandbox_for",
]

# https://systemd.io/UIDS-GIDS: past the ranges of containers, and of the pools that FreeIPA and SSSD draw from. The
# second is for containers in a user namespace, which usually has the first 65,536 ids only.
RANGES: Final = (range(2_100_000_000, 2_100_065_536), range(60_578, 61_184))
TRIES: Final = 200
KILL_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.01
_LOCK_NAME: Final = "\0swath-browser-user-{}"
_random = random.SystemRandom()


def own_range() -> range | None:
    """Where ids are taken from in this user namespace; None: it has none of them."""
    return next((ids for ids in RANGES if _is_mapped(ids, "uid_map") and _is_mapped(ids, "gid_map")), None)


def is_browser_uid(uid: int) -> bool:
    """Whether it is one of those that are given to a browser alone."""
    return any(uid in ids for ids in RANGES)


class BrowserUser:
    """An id, held by this process until `release`. The group has the same number."""

    def __init__(self, uid: int, held: socket.socket) -> None:
        self.uid = uid
        self._held = held

    @classmethod
    def take(cls) -> BrowserUser:
        """Reads the table of processes: call it in a thread. Raises Failed (browser_crash) when none is free."""
        ids = own_range() or range(0)
        running = _uids_in_use()
        for _ in range(TRIES if ids else 0):
            uid = _random.choice(ids)
            held = None if uid in running or _has_account(uid) else _lock_uid(uid)
            if held is not None:
                return cls(uid, held)
        message = "no user id is free for a browser of its own; name a user with SWATH_BROWSER_USER"
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message))

    @classmethod
    def retake(cls, uid: int) -> BrowserUser | None:
        """The id of a browser whose worker died; None when another browser has it by now."""
        held = _lock_uid(uid)
        return None if held is None else cls(uid, held)

    def release(self) -> None:
        """May be called again."""
        self._held.close()


def command_as_user(leash: Path, ids: tuple[int, int] | None, *, new_rights: bool = False) -> tuple[str, ...]:
    """The beginning of a command that ends with this process, as that user and group."""
    whom = () if ids is None else (f"--reuid={ids[0]}", f"--regid={ids[1]}", "--clear-groups")
    return (str(leash), *whom, *(() if new_rights else ("--no-new-privs",)), "--pdeathsig", "KILL")


def kill_processes_of(uid: int, leash: Path) -> None:
    """Kills every process of an own user, whatever group it has moved to, and waits until they are gone. Bounded,
    blocks, never raises OSError."""
    if not is_browser_uid(uid):
        raise ValueError(f"{uid} may be somebody's")
    command = (*command_as_user(leash, (uid, uid)), "/bin/sh", "-c", "kill -KILL -1")
    deadline = time.monotonic() + KILL_SECONDS
    while uid in _uids_in_use() and time.monotonic() < deadline:
        with suppress(OSError, subprocess.TimeoutExpired):  # by that user itself: the kernel spares all others
            subprocess.run(command, check=False, cwd="/", timeout=KILL_SECONDS, capture_output=True)  # noqa: S603 ours
        time.sleep(LOOK_SECONDS)


def _lock_uid(uid: int) -> socket.socket | None:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(_LOCK_NAME.format(uid))
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


def _uids_in_use() -> frozenset[int]:
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


TRY_SECONDS: Final = 5.0
HELPERS: Final = ("chrome-sandbox", "chrome_sandbox")


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """`on`: Chromium's own sandbox. `uid` and `gid` are whom root runs it as; with `own_users`, each browser gets ids
    that nothing else uses (users.py). `leash` is the program that ties it to the life of its driver. `helped`: by a
    setuid helper, so privileges must not be given up for good."""

    on: bool
    why_not: str = ""
    user: str | None = None
    uid: int | None = None
    gid: int | None = None
    own_users: bool = False
    leash: Path | None = None
    helped: bool = False

    @property
    def words(self) -> str:
        """For people."""
        if not self.on:
            return f"without a sandbox: {self.why_not}"
        if self.own_users:
            return "in its sandbox, each browser as a user of its own"
        return f"in its sandbox, as user {self.user}" if self.user is not None else "in its sandbox"


def sandbox_for(binary: Path, user: str | None = None) -> Sandbox:
    """`user` is whom root runs it as; None: a user of its own for each browser. Raises BadInput when there is no such
    user and one is needed."""
    if not sys.platform.startswith("linux"):
        return Sandbox(on=True)
    leash = find_setpriv()
    if os.geteuid() != 0:
        why_not, helped = _own_sandbox(binary, None)
        return Sandbox(on=not why_not, why_not=why_not, leash=leash, helped=helped)
    if user is None:
        return _with_own_users(binary, leash)
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise BadInput(f"SWATH_BROWSER_USER: there is no user {user!r}; name one that is not root") from None
    if entry.pw_uid == 0:
        return Sandbox(on=False, why_not=f"SWATH_BROWSER_USER is {user!r}, which has all rights", leash=leash)
    ids = (entry.pw_uid, entry.pw_gid)
    why_not, helped = _as_other_user(binary, ids, leash, f"user {user}")
    if why_not:
        return Sandbox(on=False, why_not=why_not, leash=leash)
    return Sandbox(on=True, user=user, uid=ids[0], gid=ids[1], leash=leash, helped=helped)


def _with_own_users(binary: Path, leash: Path | None) -> Sandbox:
    ids = own_range()
    if ids is None:
        return Sandbox(on=False, why_not="we are root in a namespace that has no other users", leash=leash)
    why_not, helped = _as_other_user(binary, (ids[0], ids[0]), leash, "an ordinary user")
    return Sandbox(on=not why_not, why_not=why_not, own_users=not why_not, leash=leash, helped=helped)


def _as_other_user(binary: Path, ids: tuple[int, int], leash: Path | None, who: str) -> tuple[str, bool]:
    if leash is None:
        return "we are root, and there is no setpriv (util-linux) to run it as another user", False
    if not may_use(binary, *ids):
        return f"we are root, and {who} may not run {binary}", False
    return _own_sandbox(binary, ids)


def _own_sandbox(binary: Path, ids: tuple[int, int] | None) -> tuple[str, bool]:
    """Why there is none, if so, and whether it needs the setuid helper."""
    if _namespaces(ids):
        return "", False
    for name in HELPERS:
        helper = binary.parent / name
        if helper.is_file() and helper.stat().st_uid == 0 and helper.stat().st_mode & stat.S_ISUID:
            return "", True
    return "this machine allows no user namespaces, and has no setuid helper", False


@functools.cache
def _namespaces(ids: tuple[int, int] | None) -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    another = {} if ids is None else {"user": ids[0], "group": ids[1], "extra_groups": []}
    try:
        tried = subprocess.run(  # type: ignore[call-overload] # noqa: S603 as root we try it as the other user
            [unshare, "--user", "true"],
            capture_output=True,
            timeout=TRY_SECONDS,
            check=False,
            cwd="/",
            **another,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(tried.returncode == 0)


def may_use(path: Path, uid: int, gid: int, wanted: int = stat.S_IXOTH) -> bool:
    """Whether a user may run a program, or (S_IROTH) read a file, by its bits and those of every folder above it."""
    folders = {*path.absolute().parents, *path.resolve().parents}  # links in the path may lead elsewhere
    above = all(_allows(folder.stat(), uid, gid, stat.S_IXOTH) for folder in folders)
    return above and _allows(path.stat(), uid, gid, wanted)


def _allows(status: os.stat_result, uid: int, gid: int, wanted: int) -> bool:
    if status.st_uid == uid:
        return bool(status.st_mode & (wanted << 6))
    if status.st_gid == gid:
        return bool(status.st_mode & (wanted << 3))
    return bool(status.st_mode & wanted)


@functools.cache
def find_setpriv() -> Path | None:
    """What ties a process to the life of another: the setpriv of util-linux; that of busybox cannot do it."""
    found = shutil.which("setpriv")
    if found is None:
        return None
    try:
        told = subprocess.run(  # noqa: S603 a program of the system
            [found, "--version"], capture_output=True, text=True, timeout=TRY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(found) if "util-linux" in told.stdout else None
