"""Display: a screen that nobody looks at (Xvfb), so that browsers have windows as on a desktop.

Before: bootstrap, where Xvfb is installed. After: every launch asks for its name. One serves all browsers of a process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["Display", "find_display_program"]

SCREEN: Final = "2600x1600x24"  # larger than the largest window in browser/faces/profile.py
START_SECONDS: Final = 10.0
END_SECONDS: Final = 2.0


def find_display_program() -> Path | None:
    """None: browsers run headless."""
    found = shutil.which("Xvfb")
    return None if found is None else Path(found)


class Display:
    """`leash` ties it to the life of this process, as sandbox.py found it."""

    def __init__(self, program: Path, leash: Path | None = None) -> None:
        self._command = [str(program), "-screen", "0", SCREEN, "-ac", "-nolisten", "tcp", "-displayfd"]
        if leash is not None:
            self._command = [str(leash), "--pdeathsig", "KILL", *self._command]
        self._process: asyncio.subprocess.Process | None = None
        self._name = ""
        self._starting = asyncio.Lock()

    async def name(self) -> str:
        """As DISPLAY wants it. Starts it first, also when it has died since. Raises Failed (browser_crash)."""
        async with self._starting:
            if self.dead:
                await self._start()
            return self._name

    @property
    def dead(self) -> bool:
        """Or not started yet."""
        return self._process is None or self._process.returncode is not None

    async def close(self) -> None:
        """Bounded; may be called again."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
                return

    async def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                str(writing),
                pass_fds=(writing,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
            os.close(writing)
            writing = -1
            self._name = await _number_from(reading)
        except (OSError, TimeoutError, ValueError) as error:
            await self.close()
            words = "Xvfb does not start; see that it runs by hand, or switch windows off"
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, f"{words}: {error!r}")) from None
        except BaseException:
            await asyncio.shield(self.close())
            raise
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)


async def _number_from(reading: int) -> str:
    """Xvfb takes a free number, and writes it when it is ready for connections. ValueError when it ends without."""
    loop, told = asyncio.get_running_loop(), asyncio.StreamReader()
    with os.fdopen(os.dup(reading), "rb", buffering=0) as pipe:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), pipe)
        try:
            async with asyncio.timeout(START_SECONDS):
                return f":{int(await told.readline())}"
        finally:
            transport.close()
