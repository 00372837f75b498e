"""Who is alive on this machine: every worker holds a lock on a file of its own, and the system lets go of it when the
process dies. So the leases of the dead are freed at once instead of when their time is over, and the notes in the file
(notes.py) say what they ran. Used by the stores whose workers share a host: embedded alone, aws among others.

Only a file that its worker wrote, and whose lock is free, proves a death. A missing or replaced file proves nothing:
the worker may be alive, and writes its file again with its next question to the store."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from swath.backends.host.lock_folder import FolderTrouble, trouble_after
from swath.backends.host.notes import Notes, is_own_file, read_running, read_waiting_for
from swath.backends.host.private_files import make_folder
from swath.domain.errors import UserError
from swath.domain.job import WaitingFor

__all__ = ["Presence"]

_SUFFIX: Final = ".lock"
_PATIENCE_SECONDS: Final = 0.2  # with somebody who looks whether a worker is dead, and so holds its lock for a moment

# Opening a pipe for reading would wait for somebody who writes into it.
_NEITHER_LINK_NOR_WAIT: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_log = logging.getLogger("swath.presence")


class _Taken(UserError):
    """Somebody else holds the lock of a worker's file."""


class _Held(NamedTuple):
    """The open and locked file of a worker of this process."""

    descriptor: int
    notes: Notes

    def close(self) -> None:
        self.notes.close()
        os.close(self.descriptor)


class _Proof(Enum):
    """What a worker's file proves."""

    ALIVE = auto()  # a process holds the lock
    DEAD = auto()  # the worker wrote it, and nobody holds the lock
    NOTHING = auto()  # it is missing, cannot be read, or no worker wrote it


class Presence:
    """Lock files of workers in one folder. A worker id is a plain file name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, _Held] = {}
        self._warned = ""  # the last warning that a lock file cannot be written again, until it can be
        self._host = ""

    def enter(self, worker_id: str) -> None:
        """Marks a worker of this process as alive until `leave` or death. Another process may not have it. Called again
        and again: writes the file anew if it was removed or replaced.

        Raises OSError when the file cannot be made; for a worker that had one that is only logged, and only when the
        reason changes: this is called several times a second.
        """
        held = self._held.get(worker_id)
        if held is None:
            self._held[worker_id] = self._made(worker_id)
            return
        try:
            if _same_file(held.descriptor, self._path(worker_id)):
                return
            self._held[worker_id] = self._made(worker_id, held.notes)
        except OSError as error:
            self._warn(f"the lock file of worker {worker_id} is gone: {self.trouble_after(error)}")
            return
        except _Taken:
            self._warn(f"the lock file of worker {worker_id} was replaced, and another process holds it; trying again")
            return
        self._warned = ""
        held.notes.disown()  # before its lock is free: whoever has the former file open must not take us for dead
        held.close()
        _log.warning("the lock file of worker %s was removed or replaced; it was written again", worker_id)

    def _warn(self, message: str) -> None:
        if message != self._warned:
            _log.warning("%s", message)
            self._warned = message

    def trouble_after(self, error: OSError) -> FolderTrouble:
        """What to tell people when `enter` or `host` raised this error."""
        return trouble_after(error, self._folder)

    def _made(self, worker_id: str, former: Notes | None = None) -> _Held:
        make_folder(self._folder)
        descriptor = self._locked(worker_id, _PATIENCE_SECONDS if former is None else 0.0)
        try:
            notes = Notes(descriptor, former)
            notes.sign(worker_id)
            return _Held(descriptor, notes)
        except OSError:
            os.close(descriptor)
            raise

    def _locked(self, worker_id: str, patience_seconds: float) -> int:
        path = self._path(worker_id)
        deadline = time.monotonic() + patience_seconds
        while True:
            _clear_way(path)
            descriptor = os.open(path, _NEITHER_LINK_NOR_WAIT | os.O_RDWR | os.O_CREAT, 0o600)
            # Somebody may have taken the file for a dead worker's and removed it before it was locked.
            if _lock(descriptor) and _same_file(descriptor, path):
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise _Taken(f"a worker {worker_id!r} is running already; give this one another id")
            time.sleep(0.001)

    @property
    def host(self) -> str:
        """Names the place of the folder and this start of the machine: who says the same sees the same lock files, also
        after the folder was removed and made again.

        Raises OSError when the folder cannot be made.
        """
        if not self._host:
            make_folder(self._folder)
            place = self._folder.resolve()
            found = place.parent.stat()
            named = f"{_boot_id()}/{socket.gethostname()}/{found.st_dev}/{found.st_ino}/{place.name}"
            self._host = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return self._host

    @property
    def workers(self) -> Collection[str]:
        """Those of this process."""
        return tuple(self._held)

    def holds(self, worker_id: str) -> bool:
        """Whether the worker belongs to this process."""
        return worker_id in self._held

    def knows(self, worker_id: str) -> bool:
        """Whether the worker has a file of its own here, and so notes."""
        return worker_id in self._held or self._look(worker_id) is not _Proof.NOTHING

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
            with suppress(OSError, ValueError):  # another thread may just have closed it, to write the file again
                held[1].wait_for(what)

    def waiting_for(self) -> WaitingFor | None:
        """What any living worker waits for."""
        for worker_id in self._known():
            with suppress(OSError), self._opened(worker_id) as descriptor:
                what = read_waiting_for(descriptor)
                if what is not None and (worker_id in self._held or self._look(worker_id) is _Proof.ALIVE):
                    return what
        return None

    def running(self, worker_id: str) -> Collection[tuple[int, int]]:
        """The items, by fence and number, that a worker ran when it was last heard of."""
        with suppress(OSError), self._opened(worker_id) as descriptor:
            return read_running(descriptor)
        return frozenset()

    def dead(self) -> list[str]:
        """Workers whose processes are gone and whose files are not. Removes files that no worker wrote."""
        found = {worker_id: self._look(worker_id) for worker_id in self._known() if worker_id not in self._held}
        for worker_id, proof in found.items():
            if proof is _Proof.NOTHING:
                self.forget(worker_id)
        return [worker_id for worker_id, proof in found.items() if proof is _Proof.DEAD]

    def is_dead(self, worker_id: str) -> bool:
        """Whether it is proven that the worker's process is gone. Not of one that is frozen, nor of one whose file is
        missing or was replaced: such a worker may be alive."""
        return worker_id not in self._held and self._look(worker_id) is _Proof.DEAD

    def _look(self, worker_id: str) -> _Proof:
        try:
            with self._opened(worker_id) as descriptor:
                if not _lock(descriptor):
                    return _Proof.ALIVE
                return _Proof.DEAD if is_own_file(descriptor, worker_id) else _Proof.NOTHING
        except OSError:  # there is none, or it is somebody else's
            return _Proof.NOTHING

    def forget(self, worker_id: str) -> None:
        """Removes the file of a worker if nobody holds its lock."""
        path = self._path(worker_id)
        with suppress(OSError), self._opened(worker_id) as descriptor:
            # The worker may have written its file anew since this one was opened.
            if worker_id not in self._held and _lock(descriptor) and _same_file(descriptor, path):
                path.unlink(missing_ok=True)

    def leave(self, with_leases: Collection[str] = ()) -> None:
        """Lets go of all locks of this process. The files stay of workers `with_leases`, so that the next worker sees
        that these are gone and frees what they hold at once; and of a worker that leaves while items run: a scraper may
        have made it leave, and whoever rescues its leases must know which."""
        for worker_id, held in self._held.items():
            path = self._path(worker_id)
            with suppress(OSError):
                if not held.notes.anything_runs and worker_id not in with_leases and _same_file(held.descriptor, path):
                    path.unlink(missing_ok=True)
            held.close()
        self._held.clear()

    def _known(self) -> list[str]:
        with suppress(OSError):
            return sorted(path.stem for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        return []

    @contextmanager
    def _opened(self, worker_id: str) -> Iterator[int]:
        descriptor = os.open(self._path(worker_id), _NEITHER_LINK_NOR_WAIT | os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}{_SUFFIX}"


def _clear_way(path: Path) -> None:
    """Removes a link, a pipe and the like: what is behind a link is not ours to write into."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            path.unlink()


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
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
