"""A virtual display (Xvfb), so that browsers have windows as on a desktop. One serves a whole process.

Only clients with its cookie can connect: other users of the machine could otherwise see the pages and type into
them.
The server gets the cookie in an unnamed file, each browser in a file that no other user can read.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["Display", "DisplayAddress", "find_display_program"]

SCREEN: Final = "2600x1600x24"  # larger than the largest window in browser/faces/profile.py
START_SECONDS: Final = 30.0
END_SECONDS: Final = 2.0
_ANY_ADDRESS: Final = 0xFFFF  # FamilyWild of Xau: good for any address, and without a number for any display
_COOKIE_BYTES: Final = 16
_COOKIE_NAME: Final = b"MIT-MAGIC-COOKIE-1"


class DisplayAddress(msgspec.Struct, frozen=True):
    """`name` is for DISPLAY. `authority` is the content of the file that XAUTHORITY names, and a secret."""

    name: str
    authority: bytes

    def __repr__(self) -> str:
        return f"Screen({self.name!r})"


def find_display_program() -> Path | None:
    """None: browsers run headless. Elsewhere than on Linux Chromium uses no X server."""
    found = None if not sys.platform.startswith("linux") else shutil.which("Xvfb")
    return None if found is None else Path(found)


class Display:
    """`leash` ties it to the life of this process, as sandbox.py found it."""

    def __init__(self, program: Path, leash: Path | None = None) -> None:
        # Both of its local sockets ask for the cookie. That without a file in /tmp is wanted: clients try it first, so
        # another user who could take its name would be shown the cookie.
        self._command = [str(program), "-screen", "0", SCREEN, "-nolisten", "tcp"]
        if leash is not None:
            self._command = [str(leash), "--pdeathsig", "KILL", *self._command]
        self._process: asyncio.subprocess.Process | None = None
        self._screen = DisplayAddress("", b"")
        self._starting = asyncio.Lock()

    async def screen(self) -> DisplayAddress:
        """Starts it first, also when it has died since. Raises Failed (browser_crash)."""
        async with self._starting:
            if self.dead:
                await self._start()
            return self._screen

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
        authority = _authority()
        known = os.memfd_create("authority")
        try:
            os.write(known, authority)  # the server reads it again when its last client has gone
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *("-auth", f"/proc/self/fd/{known}", "-displayfd", str(writing)),
                pass_fds=(writing, known),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
            os.close(writing)
            writing = -1
            self._screen = DisplayAddress(await _number_from(reading), authority)
        except (OSError, TimeoutError, ValueError) as error:
            await self.close()
            words = "Xvfb does not start; see that it runs by hand, or switch windows off"
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, f"{words}: {error!r}")) from None
        except BaseException:
            await asyncio.shield(self.close())
            raise
        finally:
            os.close(known)
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


def _authority() -> bytes:
    """A new cookie, as an Xauthority file has it."""
    fields = (b"", b"", _COOKIE_NAME, secrets.token_bytes(_COOKIE_BYTES))  # address, display, kind, cookie
    return struct.pack("!H", _ANY_ADDRESS) + b"".join(struct.pack("!H", len(field)) + field for field in fields)
