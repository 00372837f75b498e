"""`swath doctor`: runs every check, prints what to do about each problem, and exits 1 if one failed.

A new check is added to CHECKS. Checks are independent of each other, change nothing that lasts, and take a second or
two
at most. Here are those of this machine: settings, folders, disk, SQLite store, clock, dead workers.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import click
import msgspec

from swath.backends.clock import SystemClock
from swath.backends.local_presence.worker_locks import find_folder_problem
from swath.backends.private_files import is_too_open
from swath.backends.sqlite import read_only
from swath.domain.errors import BadInput
from swath.entrypoints.cli.config import unknown_variables
from swath.entrypoints.cli.doctor.browser import check_browser
from swath.entrypoints.cli.doctor.check_result import Check, CheckContext, CheckLevel, CheckResult, fail, ok, warn
from swath.entrypoints.cli.doctor.services import (
    check_keys,
    check_proxies,
    check_queue,
    check_results,
    check_server,
    check_sites,
    check_table,
    check_webhooks,
)
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.output import plural, print_json
from swath.settings import FolderLocation, Settings, SqliteLocation, load

__all__ = ["CHECKS", "doctor", "find_readable_by_others"]

_MAX_ENTRIES: Final = 1_000  # jobs that are looked at; one that is too open is enough to tell
_CHMOD_MODE: Final = {"owner": "go=", "group": "g-w,o=", "all": "go-w"}


def find_readable_by_others(subject: CheckContext) -> CheckResult | None:
    """A warning with the commands that close it; nothing is changed behind anybody's back."""
    settings, data = subject.settings, subject.store_folder
    place = settings.places.results
    results = place.folder if isinstance(place, FolderLocation) else None
    narrow = _CHMOD_MODE[settings.results_readable_by]
    wide, commands = [], []
    if is_too_open(data, settings.data_mode):
        wide, commands = [data], [f"chmod {settings.data_mode:o} {_quoted([data])}"]
    if private := [path for path in _entries(data) if path != results and is_too_open(path, 0)]:
        commands.append(f"chmod -R go= {_quoted(private)}")
    opened: list[Path] = []
    if results is not None:
        opened = [path for path in (results, *_entries(results)) if is_too_open(path, settings.results_mode)]
        if opened:
            commands.append(f"chmod -R {narrow} {_quoted([results])}")
    wide += private + opened
    if not wide:
        return None
    return warn(f"other users of this machine may get at {wide[0]}", "; ".join(commands))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(islice(folder.iterdir(), _MAX_ENTRIES))
    except OSError:
        return []


def _quoted(paths: Iterable[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)


GIB: Final = 1 << 30
MIB: Final = 1 << 20
OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING
QUICK_CHECK_SECONDS: Final = 2.0
LARGE_LOG_BYTES: Final = 256 * MIB  # four times what it is cut to when all goes well
EARLIEST_NOW: Final = 1_760_000_000  # autumn of 2025: this code is not older
AHEAD_SECONDS: Final = 300.0
PAUSE_SECONDS: Final = 0.02


def check_settings(subject: CheckContext) -> CheckResult:
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


def check_folder(subject: CheckContext) -> CheckResult:
    """The data folder is there and can be written, or can be made."""
    folder = subject.settings.data
    where = _existing_parent(folder)
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
    if (trouble := find_folder_problem(subject.store_folder / "workers")) is not None:
        return fail(trouble.problem, trouble.remedy)
    if (readable := find_readable_by_others(subject)) is not None:
        return readable
    return ok(f"{folder} can be written") if folder.is_dir() else ok(f"{folder} is not there yet, and can be made")


def _remedy(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space there"
    return "make the file system writable" if error.errno == errno.EROFS else "give yourself permission"


def check_space(subject: CheckContext) -> CheckResult:
    """Bytes and inodes are left."""
    where = _existing_parent(subject.settings.data)
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


def check_store(subject: CheckContext) -> CheckResult:
    """SQLite is new enough, and the file is sound; or the table is there."""
    place = subject.settings.places.store
    if not isinstance(place, SqliteLocation):
        return check_table(subject)
    version = read_only.sqlite_version()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SQLITE:
        return fail(f"SQLite is {version}", "use a Python that is built with SQLite 3.35 or newer")
    if (held := read_only.store_blocker(place.folder)) is not None:
        return fail(held.told, held.remedy) if held.stopped else warn(held.told, held.remedy)
    exam = read_only.check_store(place.folder, QUICK_CHECK_SECONDS)
    return ok(f"SQLite {version}; there is no store yet") if exam is None else _store_result(version, exam)


def _store_result(version: str, exam: read_only.StoreCheck) -> CheckResult:
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


def check_clock(subject: CheckContext) -> CheckResult:
    """Leases are measured on the boot clock, and times are told by the wall clock."""
    clock = subject.clock
    before = clock.boot()
    time.sleep(PAUSE_SECONDS)
    if clock.boot() <= before:
        return fail("the boot clock stands still", "leases cannot be measured here; look at the virtual machine")
    place = subject.settings.places.store
    now, store = clock.now(), read_only.store_file(place.folder) if isinstance(place, SqliteLocation) else None
    if now < EARLIEST_NOW:
        return fail("the wall clock is years behind", "set it; results would carry wrong times")
    ahead = store.stat().st_mtime - now if store is not None and store.exists() else 0.0
    if ahead > AHEAD_SECONDS:
        return warn(
            f"the store was written {ahead / 60:,.0f} min in the future", "the wall clock was set back; check it"
        )
    return ok("both run")


def check_leftovers(subject: CheckContext) -> CheckResult:
    """Nobody died without being cleaned up after."""
    dead = read_only.dead_workers(subject.store_folder)
    if dead:
        some = ", ".join(dead[:3]) + (" …" if len(dead) > 3 else "")
        return warn(
            f"{plural(len(dead), 'worker')} died without being cleaned up after: {some}",
            "the next worker does it: `swath worker`",
        )
    return ok("none")


def _existing_parent(folder: Path) -> Path:
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


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check settings, disk, store, clock, sites, proxies and what the API needs, and say what to do about each.

    Exits 1 if one failed.
    """
    subject = _check_context()
    findings = {name: _run_check(check, subject) for name, check in CHECKS.items()}
    failed = any(finding.level is CheckLevel.FAIL for finding in findings.values())
    if as_json:
        checks = [{"check": name, **msgspec.to_builtins(finding)} for name, finding in findings.items()]
        print_json({"ok": not failed, "checks": checks})
    else:
        for name, finding in findings.items():
            click.echo(f"{finding.level:5} {name + ':':14} {finding.message}")
            if finding.advice:
                click.echo(f"{'':20} → {finding.advice}")
    return ExitCode.INTERNAL if failed else ExitCode.COMPLETE


def _check_context() -> CheckContext:
    try:
        reading = load()
    except BadInput as error:
        return CheckContext(settings=Settings(), reading=None, trouble=str(error), clock=SystemClock())
    return CheckContext(settings=reading.settings, reading=reading, trouble="", clock=SystemClock())


def _run_check(check: Check, subject: CheckContext) -> CheckResult:
    """A check that breaks is a finding too, and does not keep the others from being made."""
    try:
        return check(subject)
    except Exception as error:  # noqa: BLE001 whatever is wrong with this machine
        return fail(f"cannot be checked: {type(error).__name__}: {error}", "this may be a bug of ours; tell us")
