"""A process that runs one set of servers for all processes of a test run, and stops them with the last of these.

Users hold a connection to it, which the kernel closes however they end.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from harness.fakes.aws.endpoints import Endpoints
from harness.fakes.aws.servers import ServersFailed, running_servers

__all__ = ["SharedServers", "serve_test_run", "shared_servers"]

_SOCKET: Final = "keeper"
_LOG: Final = "keeper.log"
_FIRST_USER_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 10.0

_started: list[subprocess.Popen[bytes]] = []  # a keeper may outlive the one who started it, so nobody waits for it


class SharedServers(NamedTuple):
    """What a user is told."""

    endpoints: Endpoints
    keeper_pid: int
    server_pids: list[int]


@contextmanager
def shared_servers(folder: Path) -> Iterator[SharedServers]:
    """The servers of this folder, started if nobody uses them yet, kept while the context lasts.

    Raises ServersFailed, with the ends of their logs, when they do not come up.
    """
    with (folder / "keeper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one starts them; the others wait and find them there
        found = _connected(folder)
        if found is None:
            _start(folder)
            found = _connected(folder)
    if found is None:
        raise ServersFailed((folder / _LOG).read_text(errors="replace"))
    connection, told = found
    with connection:
        yield told


def _connected(folder: Path) -> tuple[socket.socket, SharedServers] | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ANSWER_SECONDS)
    try:
        connection.connect(str(folder / _SOCKET))
        with connection.makefile("rb") as answer:
            line = answer.readline()
        if line:
            return connection, msgspec.json.decode(line, type=SharedServers)
    except OSError:
        pass
    connection.close()  # nobody there, or one that is about to go
    return None


def _start(folder: Path) -> None:
    """Returns when the keeper says that it is ready, or has ended."""
    with (folder / _LOG).open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "harness.fakes.aws", "--keep", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    _started.append(keeper)
    assert keeper.stdout is not None
    with keeper.stdout:
        keeper.stdout.readline()


def serve_test_run(folder: Path) -> None:
    """What the keeper does: starts the servers, tells its users where they are, and ends when the last has gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    path = folder / _SOCKET
    path.unlink(missing_ok=True)
    with running_servers() as servers, socket.socket(socket.AF_UNIX) as listener:
        told = SharedServers(servers.endpoints, os.getpid(), [process.pid for process in servers.processes])
        listener.bind(str(path))
        listener.listen()
        print("ready", flush=True)  # fails when the one who started us is gone; then nobody wants the servers
        _serve(listener, msgspec.json.encode(told) + b"\n")


def _serve(listener: socket.socket, told: bytes) -> None:
    users = 0
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        while events := waiting.select(None if users else _FIRST_USER_SECONDS):
            for key, _ in events:
                if key.fileobj is listener:
                    user, _ = listener.accept()
                    user.sendall(told)
                    waiting.register(user, selectors.EVENT_READ)
                    users += 1
                elif isinstance(key.fileobj, socket.socket):  # users say nothing, so this is an end
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()
                    users -= 1
            if not users:
                return
