"""Real browsers for tests: a port at which all is refused, options to launch with, and what is left of a browser."""

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from swath.fetch.browser.chromium.find import Chromium, find
from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions
from swath.fetch.browser.chromium.popup_guard import PopupGuard
from swath.fetch.browser.chromium.process_tag import ProcessTag


@contextmanager
def refusing_port() -> Iterator[int]:
    """Bound and not listened at, so the system refuses whoever comes."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def windows_may_load() -> Iterator[None]:
    """Browsers launched meanwhile let out what windows ask for that nobody wanted: to see what they do then."""

    async def let_all_out(_: PopupGuard) -> None:
        """Stops nothing."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PopupGuard, "begin", let_all_out)
        yield


def launching(data: Path, port: int, *, chromium: Chromium | None = None, **seconds: Any) -> LaunchOptions:
    return LaunchOptions(chromium=chromium or find(), data=data, deny_port=port, **seconds)


def browser_pid(launched: ChromiumProcess) -> int:
    assert launched.pid is not None
    return launched.pid


def processes_of(launched: ChromiumProcess) -> set[int]:
    """Those of its groups, by the system's own word and not by that of the code under test."""
    groups = {launched.pid, launched.driver_pid}
    return {pid for pid in psutil.pids() if _group(pid) in groups and not is_dead(pid)}


def folder_of(mark: ProcessTag | str) -> Path:
    return Path(tempfile.gettempdir()) / f"swath-{mark}"


def renderers_of(launched: ChromiumProcess) -> list[psutil.Process]:
    found = []
    for pid in processes_of(launched):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if "--type=renderer" in " ".join(process.cmdline()):
                found.append(process)
    return found


def is_dead(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


async def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Bounded: fails when it does not come to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


def _group(pid: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(pid)
    return None
