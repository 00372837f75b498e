"""ServerProcess: one server, in a process group of its own, that cannot outlive the process that started it.

servers.py says what to start; the kernel ends it when its owner dies without a word.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from swath.testing.chaos.processes import dying_with_parent

__all__ = ["ServerProcess"]

_TAIL_BYTES: Final = 4_096


class ServerProcess:
    """Started at once; its output goes to a file in `folder`. Start it from the main thread: the kernel ends it with
    the thread that started it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 starts before there are threads
            )

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def tail(self) -> str:
        """The last of what it wrote."""
        with contextlib.suppress(OSError):
            return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        return ""

    def stop(self) -> None:
        """Ends it and whatever it started, at once: what it knows is thrown away anyway."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
