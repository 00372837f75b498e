"""The checks themselves, each a function from a Subject to a Finding. A new one is added to CHECKS, and that is all.

A check changes nothing that lasts, takes a second or two at most, and needs nothing that another check found.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from swath.backends.embedded import examine
from swath.backends.host.lock_folder import find_trouble
from swath.entrypoints.cli.config import unknown_variables
from swath.entrypoints.cli.doctor.aws import check_queue, check_results, check_table
from swath.entrypoints.cli.doctor.browser import check_browser
from swath.entrypoints.cli.doctor.finding import Check, Finding, Subject, fail, ok, warn
from swath.entrypoints.cli.doctor.proxies import check_proxies
from swath.entrypoints.cli.doctor.readable import find_readable
from swath.entrypoints.cli.doctor.server import check_keys, check_server, check_webhooks
from swath.entrypoints.cli.doctor.sites import check_sites
from swath.entrypoints.cli.output import counted
from swath.settings import SqlitePlace

__all__ = ["CHECKS"]

GIB: Final = 1 << 30
MIB: Final = 1 << 20
OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING
QUICK_CHECK_SECONDS: Final = 2.0
LARGE_LOG_BYTES: Final = 256 * MIB  # four times what it is cut to when all goes well
EARLIEST_NOW: Final = 1_760_000_000  # autumn of 2025: this code is not older
AHEAD_SECONDS: Final = 300.0
PAUSE_SECONDS: Final = 0.02


def check_settings(subject: Subject) -> Finding:
    """They can be read, name nothing unknown, and their folders are there."""
    if subject.reading is None:
        return fail(subject.trouble, "correct it; the other checks use the defaults meanwhile")
    missing = [str(place) for place in subject.settings.scrapers if not place.exists()]
    if missing:
        return fail(f"there is no folder or file {', '.join(missing)}", "correct SWATH_SCRAPERS")
    unknown = unknown_variables(subject.reading)
    if unknown:
        return warn("; ".join(unknown), "remove or correct it; `swath config show` has all that count")
    return ok("can be read: `swath config show`")


def check_folder(subject: Subject) -> Finding:
    """The data folder is there and can be written, or can be made."""
    folder = subject.settings.data
    where = _nearest(folder)
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        return fail(f"{there} is not a folder", "name a folder with SWATH_DATA")
    try:
        with tempfile.NamedTemporaryFile(dir=where, prefix=".swath-doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return fail(f"{where} cannot be written: {error.strerror}", f"{_remedy(error)}, or change SWATH_DATA")
    if (trouble := find_trouble(subject.store_folder / "workers")) is not None:
        return fail(trouble.problem, trouble.remedy)
    if (readable := find_readable(subject)) is not None:
        return readable
    return ok(f"{folder} can be written") if folder.is_dir() else ok(f"{folder} is not there yet, and can be made")


def _remedy(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space there"
    return "make the file system writable" if error.errno == errno.EROFS else "give yourself permission"


def check_space(subject: Subject) -> Finding:
    """Bytes and inodes are left."""
    where = _nearest(subject.settings.data)
    free = shutil.disk_usage(where).free
    system = os.statvfs(where)
    left = f"{free / GIB:,.1f} GiB"
    if system.f_files:  # some file systems have no such bound
        left += f" and {system.f_favail:,} inodes"
    if free < 100 * MIB or (system.f_files and system.f_favail < 1_000):
        return fail(f"{left} are free under {where}", "free some: jobs wait for the disk when it is full")
    if free < GIB or (system.f_files and system.f_favail < 100_000):
        return warn(f"{left} are free under {where}", "an item takes five files by default; `keep: data` takes fewer")
    return ok(f"{left} are free")


def check_store(subject: Subject) -> Finding:
    """SQLite is new enough, and the file is sound; or the table is there."""
    place = subject.settings.places.store
    if not isinstance(place, SqlitePlace):
        return check_table(subject)
    version = examine.sqlite_version()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SQLITE:
        return fail(f"SQLite is {version}", "use a Python that is built with SQLite 3.35 or newer")
    if (held := examine.held_store(place.folder)) is not None:
        return fail(held.told, held.remedy) if held.stopped else warn(held.told, held.remedy)
    exam = examine.examine(place.folder, QUICK_CHECK_SECONDS)
    return ok(f"SQLite {version}; there is no store yet") if exam is None else _store_found(version, exam)


def _store_found(version: str, exam: examine.StoreExam) -> Finding:
    size = f"{exam.file_bytes / MIB:,.1f} MiB, write-ahead log {exam.log_bytes / MIB:,.1f} MiB"
    if exam.complaint is not None:
        return fail(
            f"the store is damaged, it does not check: {exam.complaint}",
            "stop what uses it, copy the folder, then put a backup in its place: back-up-and-move in the docs",
        )
    if exam.read_only:
        return warn(f"SQLite {version}; {size}; read-only", "jobs can be looked at, but not run: see the data folder")
    if exam.journal_mode != "wal":
        return warn(f"the store is in mode {exam.journal_mode!r}", "the next command that opens it sets it to WAL")
    if exam.log_bytes > LARGE_LOG_BYTES:
        return warn(f"SQLite {version}; {size}", "some process reads for very long; find and stop it")
    return ok(f"SQLite {version}; {size}; {'sound' if exam.checked_whole else 'sound as far as there was time'}")


def check_clock(subject: Subject) -> Finding:
    """Leases are measured on the boot clock, and times are told by the wall clock."""
    clock = subject.clock
    before = clock.boot()
    time.sleep(PAUSE_SECONDS)
    if clock.boot() <= before:
        return fail("the boot clock stands still", "leases cannot be measured here; look at the virtual machine")
    place = subject.settings.places.store
    now, store = clock.now(), examine.store_file(place.folder) if isinstance(place, SqlitePlace) else None
    if now < EARLIEST_NOW:
        return fail("the wall clock is years behind", "set it; results would carry wrong times")
    ahead = store.stat().st_mtime - now if store is not None and store.exists() else 0.0
    if ahead > AHEAD_SECONDS:
        return warn(
            f"the store was written {ahead / 60:,.0f} min in the future", "the wall clock was set back; check it"
        )
    return ok("both run")


def check_leftovers(subject: Subject) -> Finding:
    """Nobody died without being cleaned up after."""
    dead = examine.dead_workers(subject.store_folder)
    if dead:
        some = ", ".join(dead[:3]) + (" …" if len(dead) > 3 else "")
        return warn(
            f"{counted(len(dead), 'worker')} died without being cleaned up after: {some}",
            "the next worker does it: `swath worker`",
        )
    return ok("none")


def _nearest(folder: Path) -> Path:
    """The folder, or the closest one above it that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


CHECKS: Final[dict[str, Check]] = {
    "settings": check_settings,
    "data folder": check_folder,
    "disk space": check_space,
    "store": check_store,
    "queue": check_queue,
    "results": check_results,
    "clock": check_clock,
    "dead workers": check_leftovers,
    "sites": check_sites,
    "proxies": check_proxies,
    "browser": check_browser,
    "server": check_server,
    "keys": check_keys,
    "webhooks": check_webhooks,
}
