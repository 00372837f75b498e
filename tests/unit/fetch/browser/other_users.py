"""Code run as another user of this machine, in a process of its own: what a test says that somebody else cannot do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NOBODY = 65534
STRANGER = 2_100_070_001  # past the range of ids that browsers get
NOT_ROOT = "only root can become another user to try what that one can do"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NOT_ROOT)

# All that is imported is imported as root: another user may not read where Python is installed.
_BECOME = """
import encodings.idna, os, signal, socket, struct, sys, time
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
assert os.getuid() == os.geteuid() == {uid}
"""


def run_as(uid: int, code: str, *arguments: object) -> str:
    """What it prints. Blocks: nothing that waits on this event loop goes on meanwhile."""
    command = [sys.executable, "-c", _BECOME.format(uid=uid) + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def ran_as(uid: int, code: str, *arguments: object) -> str:
    """The same, while this event loop goes on."""
    return await asyncio.to_thread(run_as, uid, code, *arguments)


@contextmanager
def sleeping_as(uid: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, when it is that user's."""
    code = _BECOME.format(uid=uid) + "print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd="/") as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()
