"""Sandbox: how Chromium's own sandbox can be had on this machine, which is asked by trying. chromium.py uses it.

Root cannot have it, so root's browsers run as another user. launch.py does as is said here, by run_chromium.sh.
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

from swath.domain.errors import BadInput

__all__ = ["Sandbox", "sandbox_for"]

TRY_SECONDS: Final = 5.0
HELPERS: Final = ("chrome-sandbox", "chrome_sandbox")


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """`on`: Chromium's own sandbox. `uid` and `gid` are whom root runs it as. `leash` is the program that ties it to
    the life of its driver. `helped`: by a setuid helper, so privileges must not be given up for good."""

    on: bool
    why_not: str = ""
    user: str | None = None
    uid: int | None = None
    gid: int | None = None
    leash: Path | None = None
    helped: bool = False

    @property
    def words(self) -> str:
        """For people."""
        if not self.on:
            return f"without a sandbox: {self.why_not}"
        return f"in its sandbox, as user {self.user}" if self.user is not None else "in its sandbox"


def sandbox_for(binary: Path, user: str) -> Sandbox:
    """Raises BadInput when there is no such user and one is needed."""
    if not sys.platform.startswith("linux"):
        return Sandbox(on=True)
    leash = _leash()
    if os.geteuid() != 0:
        why_not, helped = _own_sandbox(binary, None)
        return Sandbox(on=not why_not, why_not=why_not, leash=leash, helped=helped)
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise BadInput(f"SWATH_BROWSER_USER: there is no user {user!r}; name one that is not root") from None
    if entry.pw_uid == 0:
        return Sandbox(on=False, why_not=f"SWATH_BROWSER_USER is {user!r}, which has all rights", leash=leash)
    why_not, helped = _as_another(binary, entry, leash)
    if why_not:
        return Sandbox(on=False, why_not=why_not, leash=leash)
    return Sandbox(on=True, user=user, uid=entry.pw_uid, gid=entry.pw_gid, leash=leash, helped=helped)


def _as_another(binary: Path, entry: pwd.struct_passwd, leash: Path | None) -> tuple[str, bool]:
    if leash is None:
        return "we are root, and there is no setpriv (util-linux) to run it as another user", False
    if not _may_run(binary, entry):
        return f"we are root, and user {entry.pw_name} may not run {binary}", False
    return _own_sandbox(binary, entry)


def _own_sandbox(binary: Path, entry: pwd.struct_passwd | None) -> tuple[str, bool]:
    """Why there is none, if so, and whether it needs the setuid helper."""
    if _namespaces(None if entry is None else (entry.pw_uid, entry.pw_gid)):
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


def _may_run(binary: Path, entry: pwd.struct_passwd) -> bool:
    """By the bits of the program and of every folder above it."""
    return all(_may_enter(path.stat(), entry) for path in (binary, *binary.absolute().parents))


def _may_enter(status: os.stat_result, entry: pwd.struct_passwd) -> bool:
    if status.st_uid == entry.pw_uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == entry.pw_gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


@functools.cache
def _leash() -> Path | None:
    """The setpriv of util-linux; that of busybox cannot do it."""
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
