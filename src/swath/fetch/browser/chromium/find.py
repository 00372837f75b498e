"""Finds the Chromium to use on this machine, and how far it can be sandboxed. Needs neither driver nor extra."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput
from swath.fetch.browser.chromium.sandbox import Sandbox, sandbox_for

__all__ = ["HOW_TO_GET_ONE", "Chromium", "find", "find_binary", "version_of"]

HOW_TO_GET_ONE: Final = (
    "install one (`apt-get install chromium`, or `patchright install chromium`), or name one with SWATH_CHROMIUM"
)
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_APPS: Final = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)
# What stands behind the shell scripts of Debian, Fedora and Google. The scripts add flags and variables of their own.
BEHIND_SCRIPTS: Final = (
    Path("/usr/lib/{name}/{name}"),
    Path("/usr/lib64/{name}/{name}"),
    Path("/opt/google/chrome/chrome"),
)
SYSTEM_FOLDERS: Final = (Path("/usr/bin"), Path("/bin"))
VERSION_SECONDS: Final = 10.0


class Chromium(msgspec.Struct, frozen=True):
    """A program that can be started, and how."""

    binary: Path
    sandbox: Sandbox


def find(named: Path | None = None, user: str | None = None) -> Chromium:
    """The named one, the system's, or the driver's own, in this order. `user`: see sandbox_for.

    Raises BadInput: there is none, and how to get one; or no such user.
    """
    binary = find_binary(named)
    return Chromium(binary, sandbox_for(binary, user))


def find_binary(named: Path | None = None, path: str | None = None, cache: Path | None = None) -> Path:
    """`path` is searched in place of PATH, and `cache` in place of the folder that the driver installs into."""
    if named is not None:
        if not _is_executable(named):
            raise BadInput(f"SWATH_CHROMIUM: {named} is no program that can be run; {HOW_TO_GET_ONE}")
        return _program_behind(named) or named
    for candidate in _candidates(path, cache or _driver_cache()):
        found = _program_behind(candidate)
        if found is not None:
            return found
    raise BadInput(f"there is no Chromium on this machine; {HOW_TO_GET_ONE}")


def version_of(binary: Path) -> str | None:
    """As `150.0.7871.100`; None when it does not say."""
    try:
        told = subprocess.run(  # noqa: S603 the program that was found or named
            [binary, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+(\.\d+){2,3}", told.stdout)
    return number[0] if number else None


def _candidates(path: str | None, cache: Path) -> Iterator[Path]:
    for name in NAMES:
        where = shutil.which(name, path=path)
        if where is not None:
            yield Path(where)
    if sys.platform == "darwin" and path is None:
        yield from (app for app in MAC_APPS if _is_executable(app))
    # Later revisions first; each has a folder of its own: chromium-1248/chrome-linux64/chrome.
    installed = sorted(cache.glob("chromium-*"), key=_revision, reverse=True)
    for folder in installed:
        yield from (
            binary
            for pattern in ("chrome-linux*/chrome", "chrome-mac*/*.app/Contents/MacOS/*")
            for binary in sorted(folder.glob(pattern))
            if _is_executable(binary)
        )


def _program_behind(candidate: Path) -> Path | None:
    """The program itself where the candidate is a script around it. None: a script around a snap, which has folders
    of its own and cannot be used."""
    real = candidate.resolve()
    try:
        with real.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return candidate  # it may be run, and not read
    if not head.startswith(b"#!"):
        return real
    for pattern in BEHIND_SCRIPTS:
        program = Path(str(pattern).format(name=candidate.name))
        if _is_executable(program) and real.parent in {
            *SYSTEM_FOLDERS,
            program.parent,
        }:  # others' scripts are left as they are
            return program
    return None if b"snap" in head else candidate


def _is_executable(program: Path) -> bool:
    return program.is_file() and os.access(program, os.X_OK)


def _revision(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _driver_cache() -> Path:
    inside = "Library/Caches/ms-playwright" if sys.platform == "darwin" else ".cache/ms-playwright"
    try:
        return Path.home() / inside
    except RuntimeError:  # a user without a home
        return Path("/nonexistent")
