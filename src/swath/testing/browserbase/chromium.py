"""One local Chromium that is reached over CDP by a port, as a provider of browsers runs them. For tests.

Started for each session by sessions.py; browsers of Swath's own are reached by a pipe: browser/chromium/launch.py.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.browser.chromium.find import find
from swath.browser.chromium.orphans import wait_until_gone

__all__ = ["LocalChromium"]

_START_SECONDS: Final = 20.0
_GONE_SECONDS: Final = 5.0
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # it sees pages of our own tests only, and root has no sandbox
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class LocalChromium:
    """`port` and `path` are where its browser-wide CDP is."""

    def __init__(self, process: subprocess.Popen[bytes], profile: Path) -> None:
        self.port = 0
        self.path = ""
        self._process = process
        self._profile = profile
        self._killed = False

    @property
    def url(self) -> str:
        """For a driver."""
        return f"ws://127.0.0.1:{self.port}{self.path}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._killed and self._process.poll() is None

    @classmethod
    async def start(cls) -> LocalChromium:
        """Returns when it answers."""
        found = await asyncio.to_thread(find)
        profile = Path(tempfile.mkdtemp(prefix="swath-testing-"))
        # With a test process that is killed it dies too: nobody else would end it.
        leash = () if found.sandbox.leash is None else (found.sandbox.leash, "--pdeathsig", "KILL")
        process = subprocess.Popen(  # noqa: ASYNC220 returns at once
            [*leash, found.binary, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started = cls(process, profile)
        try:
            async with asyncio.timeout(_START_SECONDS):
                started.port, started.path = await _told(profile / "DevToolsActivePort")
        except BaseException:
            await started.kill()
            raise
        return started

    async def kill(self) -> None:
        """All of its processes; returns when they are gone."""
        if self._killed:
            return
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait, _GONE_SECONDS)
        await asyncio.to_thread(wait_until_gone, [self._process.pid])
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)


async def _told(note: Path) -> tuple[int, str]:
    """Two lines that it writes when it listens: port and path."""
    while True:
        with suppress(OSError, ValueError):
            port, path = note.read_text().splitlines()[:2]  # noqa: ASYNC240 a file of a few bytes
            return int(port), path
        await asyncio.sleep(0.01)
