"""Lock files that show which workers of this machine are alive.

Every worker holds a lock on a file of its own, and the kernel releases it when the process dies, so that the leases
of
a dead worker are freed at once. Only a file that its worker wrote and whose lock is free proves a death. A missing
or
replaced file proves nothing: the worker may be alive and writes its file again with its next request to the store.
"""

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

from swath.backends.local_presence.worker_notes import WorkerNotes, is_signed_by, read_running, read_waiting_for
from swath.backends.private_files import make_folder
from swath.domain.errors import UserError
from swath.domain.job import WaitingFor

__all__ = ["LockFolderProblem", "Presence", "find_folder_problem", "folder_problem_after"]


class LockFolderProblem(NamedTuple):
    """What is wrong, and its remedy."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.problem}; {self.remedy}"


def find_folder_problem(folder: Path) -> LockFolderProblem | None:
    """Looks at the folder without changing anything. A missing folder is fine: the next worker creates it."""
    if not os.path.lexists(folder):
        return None
    if not folder.is_dir():
        return LockFolderProblem(
            f"{folder} is not a folder, so workers cannot write their lock files",
            f"move {folder} away, and the next worker creates the folder",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return LockFolderProblem(f"workers cannot write their lock files: {folder} is not writable", "make it writable")
    return None


def folder_problem_after(error: OSError, folder: Path) -> LockFolderProblem:
    """The same after a lock file could not be written."""
    found = find_folder_problem(folder)
    if found is not None:
        return found
    path = error.filename or folder
    return LockFolderProblem(
        f"cannot write the lock file {path}: {error.strerror}", "choose another folder with SWATH_DATA"
    )


_SUFFIX: Final = ".lock"
_PATIENCE_SECONDS: Final = 0.2  # with somebody who looks whether a worker is dead, and so holds its lock for a moment

# Opening a pipe for reading would wait for somebody who writes into it.
_NEITHER_LINK_NOR_WAIT: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_log = logging.getLogger("swath.presence")


class _LockedByAnother(UserError):
    """Somebody else holds the lock of a worker's file."""


class _OwnLockFile(NamedTuple):
    """The open and locked file of a worker of this process."""

    descriptor: int
    notes: WorkerNotes

    def close(self) -> None:
        self.notes.close()
        os.close(self.descriptor)


class _Liveness(Enum):
    """What a worker's file proves."""

    ALIVE = auto()  # a process holds the lock
    DEAD = auto()  # the worker wrote it, and nobody holds the lock
    NOTHING = auto()  # it is missing, cannot be read, or no worker wrote it


class Presence:
    """Lock files of workers in one folder. A worker id is a plain file name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, _OwnLockFile] = {}
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
        except _LockedByAnother:
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

    def trouble_after(self, error: OSError) -> LockFolderProblem:
        """What to tell people when `enter` or `host` raised this error."""
        return folder_problem_after(error, self._folder)

    def _made(self, worker_id: str, former: WorkerNotes | None = None) -> _OwnLockFile:
        make_folder(self._folder)
        descriptor = self._locked(worker_id, _PATIENCE_SECONDS if former is None else 0.0)
        try:
            notes = WorkerNotes(descriptor, former)
            notes.sign(worker_id)
            return _OwnLockFile(descriptor, notes)
        except OSError:
            os.close(descriptor)
            raise

    def _locked(self, worker_id: str, patience_seconds: float) -> int:
        path = self._path(worker_id)
        deadline = time.monotonic() + patience_seconds
        while True:
            _remove_special_file(path)
            descriptor = os.open(path, _NEITHER_LINK_NOR_WAIT | os.O_RDWR | os.O_CREAT, 0o600)
            # Somebody may have taken the file for a dead worker's and removed it before it was locked.
            if _try_lock(descriptor) and _same_file(descriptor, path):
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise _LockedByAnother(f"a worker {worker_id!r} is running already; give this one another id")
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
        return worker_id in self._held or self._look(worker_id) is not _Liveness.NOTHING

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
                if what is not None and (worker_id in self._held or self._look(worker_id) is _Liveness.ALIVE):
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
            if proof is _Liveness.NOTHING:
                self.forget(worker_id)
        return [worker_id for worker_id, proof in found.items() if proof is _Liveness.DEAD]

    def is_dead(self, worker_id: str) -> bool:
        """Whether it is proven that the worker's process is gone. Not of one that is frozen, nor of one whose file is
        missing or was replaced: such a worker may be alive."""
        return worker_id not in self._held and self._look(worker_id) is _Liveness.DEAD

    def _look(self, worker_id: str) -> _Liveness:
        try:
            with self._opened(worker_id) as descriptor:
                if not _try_lock(descriptor):
                    return _Liveness.ALIVE
                return _Liveness.DEAD if is_signed_by(descriptor, worker_id) else _Liveness.NOTHING
        except OSError:  # there is none, or it is somebody else's
            return _Liveness.NOTHING

    def forget(self, worker_id: str) -> None:
        """Removes the file of a worker if nobody holds its lock."""
        path = self._path(worker_id)
        with suppress(OSError), self._opened(worker_id) as descriptor:
            # The worker may have written its file anew since this one was opened.
            if worker_id not in self._held and _try_lock(descriptor) and _same_file(descriptor, path):
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


def _remove_special_file(path: Path) -> None:
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


def _try_lock(descriptor: int) -> bool:
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
