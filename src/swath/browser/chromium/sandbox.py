"""Sandbox: how Chromium's own sandbox can be had on this machine, which is asked by trying. chromium.py uses it.

Root cannot have it, so root's browsers run as other users: each as one of its own, or all as the one that is named.
launch.py does as is said here, by run_chromium.sh.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from swath.browser.chromium.users import own_range
from swath.domain.errors import BadInput

__all__ = ["Sandbox", "find_leash", "may_use", "sandbox_for"]

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
    leash = find_leash()
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
    why_not, helped = _as_another(binary, ids, leash, f"user {user}")
    if why_not:
        return Sandbox(on=False, why_not=why_not, leash=leash)
    return Sandbox(on=True, user=user, uid=ids[0], gid=ids[1], leash=leash, helped=helped)


def _with_own_users(binary: Path, leash: Path | None) -> Sandbox:
    ids = own_range()
    if ids is None:
        return Sandbox(on=False, why_not="we are root in a namespace that has no other users", leash=leash)
    why_not, helped = _as_another(binary, (ids[0], ids[0]), leash, "an ordinary user")
    return Sandbox(on=not why_not, why_not=why_not, own_users=not why_not, leash=leash, helped=helped)


def _as_another(binary: Path, ids: tuple[int, int], leash: Path | None, who: str) -> tuple[str, bool]:
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
def find_leash() -> Path | None:
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
