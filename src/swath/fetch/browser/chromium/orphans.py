"""Finds and kills browsers whose worker has died, frozen ones too, and removes their folders.

Touches only what carries a tag of the same data folder on the same host.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from swath.fetch.browser.chromium.environment import downloads_of
from swath.fetch.browser.chromium.process_tag import FOLDER_PREFIX, TAG_SWITCH, TAG_VARIABLE, ProcessTag, owner_is_alive
from swath.fetch.browser.chromium.sandbox import BrowserUser, find_setpriv, is_browser_uid, kill_processes_of

__all__ = ["find_orphans", "group_members", "kill_group", "kill_tagged", "reap", "remove_folder", "wait_until_gone"]

GONE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.01
EXEC_SECONDS: Final = 0.5  # a process that becomes another program has no command line for a moment


def find_orphans(family: str) -> dict[int, ProcessTag]:
    """Processes that lead a browser or a driver of the family, and whose owner is dead."""
    return {pid: mark for pid, mark in _tagged_processes() if mark.family == family and not owner_is_alive(mark)}


def reap(family: str) -> int:
    """How many browsers and drivers were killed. Blocks: call it in a thread. Never raises."""
    orphans = find_orphans(family)
    for pid in orphans:
        kill_group(pid)
    wait_until_gone(orphans)
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{family}-*"):
        mark = ProcessTag.read(folder.name.removeprefix(FOLDER_PREFIX))
        if mark is not None and not owner_is_alive(mark) and _is_own_folder(folder):
            _kill_user_of(folder)
            remove_folder(folder)
    return len(orphans)


def _kill_user_of(folder: Path) -> None:
    """What runs as the own user of a browser whose worker died, unless that id has been given to another browser."""
    leash = find_setpriv()
    with suppress(OSError):
        uid = downloads_of(folder).lstat().st_uid
        user = BrowserUser.retake(uid) if leash is not None and os.geteuid() == 0 and is_browser_uid(uid) else None
        if user is not None and leash is not None:
            kill_processes_of(uid, leash)
            user.release()


def remove_folder(folder: Path) -> None:
    """What a browser left behind may write for a moment more: tried until it is gone. Bounded, blocks, never raises."""
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        try:
            shutil.rmtree(folder, ignore_errors=True)  # by descriptors: it is led nowhere by links
        except RecursionError:  # a thousand folders in each other, which the system's own program takes apart
            with suppress(OSError, subprocess.TimeoutExpired):
                command = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
                subprocess.run(command, check=False, timeout=GONE_SECONDS, capture_output=True)  # noqa: S603 ours
        if not folder.exists() or time.monotonic() > deadline:
            return
        time.sleep(LOOK_SECONDS)


def kill_tagged(mark: ProcessTag) -> None:
    """Kills what carries this very mark, and returns when it is gone, or will not go. Blocks."""
    leaders = [pid for pid, other in _tagged_processes() if other == mark]
    for pid in leaders:
        kill_group(pid)
    wait_until_gone(leaders)


def kill_group(leader: int) -> None:
    """The leader and all of its group; nothing but itself where it leads none."""
    with suppress(OSError):
        if os.getpgid(leader) == leader:
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGKILL)


def wait_until_gone(leaders: Iterable[int]) -> bool:
    """Whether nothing of their groups is left. Bounded; the dead that nobody has buried yet do not count."""
    deadline = time.monotonic() + GONE_SECONDS
    left = list(leaders)
    while left:
        left = [pid for pid in left if group_members(pid)]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(LOOK_SECONDS)
    return not left


def group_members(leader: int) -> list[int]:
    """Those that live. Empty at little cost when the group is gone."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        pass  # there is one, and it is another user's
    return [pid for pid in psutil.pids() if _group_of(pid) == leader and _is_alive(pid)]


def _tagged_processes() -> Iterator[tuple[int, ProcessTag]]:
    patient_until = time.monotonic() + EXEC_SECONDS
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mark = _tag_of(process, patient_until)
            if mark is not None:
                yield process.pid, mark


def _tag_of(process: psutil.Process, patient_until: float) -> ProcessTag | None:
    while not (words := process.cmdline()) and process.exe() and time.monotonic() < patient_until:
        time.sleep(LOOK_SECONDS / 10)
    if "run-driver" in words:
        return ProcessTag.read(process.environ().get(TAG_VARIABLE, ""))
    if "--remote-debugging-pipe" not in words:  # somebody who only speaks of a mark
        return None
    return next((ProcessTag.read(word.removeprefix(TAG_SWITCH)) for word in words if word.startswith(TAG_SWITCH)), None)


def _group_of(pid: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(pid)
    return None


def _is_alive(pid: int) -> bool:
    with suppress(psutil.Error):
        return bool(psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
    return False


def _is_own_folder(folder: Path) -> bool:
    """The temporary folder is everybody's: others may have made one of that name. What is in ours may be of another
    user, and it itself is not."""
    with suppress(OSError):
        status = folder.lstat()
        return stat.S_ISDIR(status.st_mode) and os.geteuid() == status.st_uid
    return False
