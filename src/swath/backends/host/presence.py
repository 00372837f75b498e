"""Who is alive on this machine: every worker holds a lock on a file of its own, and the system lets go of it when the
process dies. So the leases of the dead are freed at once instead of when their time is over, and the notes in the file
(notes.py) say what they ran. Used by the stores whose workers share a host: embedded alone, aws among others."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.backends.host.notes import Notes, read_running, read_waiting_for
from swath.domain.errors import UserError
from swath.domain.job import WaitingFor

__all__ = ["Presence"]

_SUFFIX: Final = ".lock"
_PATIENCE_SECONDS: Final = 0.2  # with somebody who looks whether a worker is dead, and so holds its lock for a moment


class Presence:
    """Lock files of workers in one folder. A worker id is a plain file name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, tuple[int, Notes]] = {}
        self._host = ""

    def enter(self, worker_id: str) -> None:
        """Marks a worker of this process as alive until `leave` or death. Another process may not have it.

        Raises OSError when the file cannot be made.
        """
        if worker_id in self._held:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = self._locked(worker_id)
        try:
            self._held[worker_id] = descriptor, Notes(descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def _locked(self, worker_id: str) -> int:
        path = self._path(worker_id)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Somebody may have taken the file for a dead worker's and removed it before it was locked.
            if _lock(descriptor) and _same_file(descriptor, path):
                return descriptor
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise UserError(f"a worker {worker_id!r} is running already; give this one another id")
            time.sleep(0.001)

    @property
    def host(self) -> str:
        """Names the folder and this start of the machine: who says the same sees the same lock files.

        Raises OSError when the folder cannot be made.
        """
        if not self._host:
            self._folder.mkdir(parents=True, exist_ok=True)
            found = self._folder.stat()
            named = f"{_boot_id()}/{socket.gethostname()}/{found.st_dev}/{found.st_ino}"
            self._host = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return self._host

    def holds(self, worker_id: str) -> bool:
        """Whether the worker belongs to this process."""
        return worker_id in self._held

    def knows(self, worker_id: str) -> bool:
        """Whether the worker has a file here, and so notes."""
        return self._path(worker_id).exists()

    def begin(self, worker_id: str, fence: int, *seqs: int) -> None:
        """Notes that items run."""
        held = self._held.get(worker_id)
        if held is not None:
            for seq in seqs:
                try:  # called for every item, and `suppress` costs as much as the note itself
                    held[1].begin(fence, seq)
                except OSError:
                    continue  # a death then finds one suspect less

    def finish(self, worker_id: str, fence: int, *seqs: int) -> None:
        """Notes that items do not run any more."""
        held = self._held.get(worker_id)
        if held is not None:
            for seq in seqs:
                try:
                    held[1].leave(fence, seq)
                except OSError:
                    continue

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        """Notes what a worker of this process waits for."""
        held = self._held.get(worker_id)
        if held is not None:
            with suppress(OSError):
                held[1].wait_for(what)

    def waiting_for(self) -> WaitingFor | None:
        """What any living worker waits for."""
        for worker_id in self._known():
            with suppress(OSError), self._opened(worker_id) as descriptor:
                what = read_waiting_for(descriptor)
                if what is not None and not self.is_dead(worker_id):
                    return what
        return None

    def running(self, worker_id: str) -> Collection[tuple[int, int]]:
        """The items, by fence and number, that a worker ran when it was last heard of."""
        with suppress(OSError), self._opened(worker_id) as descriptor:
            return read_running(descriptor)
        return frozenset()

    def dead(self) -> list[str]:
        """Workers whose processes are gone and whose files are not."""
        return [worker_id for worker_id in self._known() if self.is_dead(worker_id)]

    def is_dead(self, worker_id: str) -> bool:
        """Whether the worker's process is surely gone. A frozen one is not."""
        if worker_id in self._held:
            return False
        try:
            with self._opened(worker_id) as descriptor:
                return _lock(descriptor)
        except FileNotFoundError:
            return True
        except OSError:  # somebody else's file
            return False

    def forget(self, worker_id: str) -> None:
        """Removes the file of a dead worker."""
        with suppress(OSError), self._opened(worker_id) as descriptor:
            if worker_id not in self._held and _lock(descriptor):
                self._path(worker_id).unlink(missing_ok=True)

    def leave(self) -> None:
        """Lets go of all locks of this process. Of a worker that leaves while items run the notes stay: a scraper may
        have made it leave, and whoever rescues its leases must know which."""
        for worker_id, (descriptor, notes) in self._held.items():
            if not notes.anything_runs:
                self._path(worker_id).unlink(missing_ok=True)
            notes.close()
            os.close(descriptor)
        self._held.clear()

    def _known(self) -> list[str]:
        with suppress(OSError):
            return sorted(path.stem for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        return []

    @contextmanager
    def _opened(self, worker_id: str) -> Iterator[int]:
        descriptor = os.open(self._path(worker_id), os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}{_SUFFIX}"


def _boot_id() -> str:
    """A folder may be shared by machines, but locks are not to be trusted beyond one, nor beyond its last start."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _lock(descriptor: int) -> bool:
    """Whether nobody else held it; now we do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
