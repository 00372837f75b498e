"""Who is alive on this machine: every worker holds a lock on a file of its own, and the system lets go of it when the
process dies. So the leases of the dead are freed at once instead of when their time is over."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from swath.domain.errors import UserError

__all__ = ["Presence"]


class Presence:
    """Lock files of workers in one folder. A worker id is a plain file name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def enter(self, worker_id: str) -> None:
        """Marks a worker of this process as alive until `leave` or death. Another process may not have it."""
        while worker_id not in self._held:
            path = self._path(worker_id)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Somebody may have taken the file for a dead worker's and removed it before it was locked.
                if _same_file(descriptor, path):
                    self._held[worker_id] = descriptor
                    continue
            except BlockingIOError as error:
                raise UserError(f"a worker {worker_id!r} is running already; give this one another id") from error
            finally:
                if worker_id not in self._held:
                    os.close(descriptor)

    def is_dead(self, worker_id: str) -> bool:
        """Whether the worker's process is surely gone. A frozen one is not."""
        return worker_id not in self._held and self._with_lock(worker_id, lambda _: None)

    def forget_if_dead(self, worker_id: str) -> None:
        """Removes the file of a dead worker."""
        if worker_id not in self._held:
            self._with_lock(worker_id, lambda path: path.unlink(missing_ok=True))

    def _with_lock(self, worker_id: str, act: Callable[[Path], None]) -> bool:
        """Acts on the file if nobody alive holds it; answers whether that was so."""
        path = self._path(worker_id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            act(path)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def leave(self) -> None:
        """Lets go of all locks of this process."""
        for worker_id, descriptor in self._held.items():
            self._path(worker_id).unlink(missing_ok=True)
            os.close(descriptor)
        self._held.clear()

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.lock"


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
