"""O4: every check of the doctor finds what it looks for, and says what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite import read_only
from swath.entrypoints.cli.doctor import command
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckLevel, CheckResult
from swath.settings import load
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("O4")


def _subject(folder: Path, **variables: str) -> CheckContext:
    reading = load({"SWATH_DATA": str(folder), "SWATH_PORT": "0", **variables})
    return CheckContext(settings=reading.settings, reading=reading, trouble="", clock=SystemClock())


def _store(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = read_only.store_file(folder)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE jobs (job_no INTEGER PRIMARY KEY, job_id TEXT)")
        db.executemany("INSERT INTO jobs (job_id) VALUES (?)", [(f"job-{n}",) for n in range(2_000)])
    return file


def _is(finding: CheckResult, level: CheckLevel, *words: str) -> None:
    told = f"{finding.message} {finding.advice}"
    assert finding.level is level, told
    assert all(word in told for word in words), told
    assert bool(finding.advice) == (level is not CheckLevel.OK)


def test_a_fresh_folder_is_well_and_nothing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    findings = [check(_subject(folder)) for check in command.CHECKS.values()]
    assert [finding.level for finding in findings if finding.level is not CheckLevel.OK] == []
    assert list(tmp_path.iterdir()) == []


def test_settings_that_name_nothing_known_or_no_folder_are_told(tmp_path: Path) -> None:
    _is(
        command.check_settings(_subject(tmp_path, SWATH_MAX_ITMES="3")),
        CheckLevel.WARN,
        "SWATH_MAX_ITMES",
        "SWATH_MAX_ITEMS",
    )
    _is(command.check_settings(_subject(tmp_path, SWATH_SCRAPERS="/no/where")), CheckLevel.FAIL, "/no/where")
    broken = CheckContext(settings=load({}).settings, reading=None, trouble="SWATH_FSYNC is wrong", clock=SystemClock())
    _is(command.check_settings(broken), CheckLevel.FAIL, "SWATH_FSYNC is wrong")


def test_a_sound_store_is_told_with_its_sizes(tmp_path: Path) -> None:
    _store(tmp_path)
    _is(command.check_store(_subject(tmp_path)), CheckLevel.OK, sqlite3.sqlite_version, "write-ahead log", "sound")


def test_a_damaged_store_is_found(tmp_path: Path) -> None:
    file = _store(tmp_path)
    with file.open("r+b") as raw:
        raw.seek(4096 + 8)
        raw.write(os.urandom(2048))
    _is(
        command.check_store(_subject(tmp_path)),
        CheckLevel.FAIL,
        "does not check",
        "damaged",
        "copy the folder",
        "backup",
    )
    file.write_bytes(b"no database at all" * 1_000)
    _is(command.check_store(_subject(tmp_path)), CheckLevel.FAIL, "not a database")


def test_a_check_of_a_large_store_ends_in_time(tmp_path: Path) -> None:
    with closing(sqlite3.connect(_store(tmp_path))) as db, db:
        db.executemany("INSERT INTO jobs (job_id) VALUES (?)", [("x" * 500,)] * 100_000)
    exam = read_only.check_store(tmp_path, 0.0001)
    assert exam is not None
    assert exam.complaint is None
    assert not exam.checked_whole


def test_a_store_in_another_mode_and_a_log_that_grew_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _store(tmp_path)
    monkeypatch.setattr(command, "LARGE_LOG_BYTES", -1)
    _is(command.check_store(_subject(tmp_path)), CheckLevel.WARN, "reads for very long")
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    _is(command.check_store(_subject(tmp_path)), CheckLevel.WARN, "delete")


def test_a_full_disk_and_one_that_is_nearly_so_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "GIB", 1 << 62)
    _is(command.check_space(_subject(tmp_path)), CheckLevel.WARN, "free under")
    monkeypatch.setattr(command, "MIB", 1 << 62)
    _is(command.check_space(_subject(tmp_path)), CheckLevel.FAIL, "free under")


def test_clocks_that_stand_or_were_set_back_are_told(tmp_path: Path) -> None:
    reading = load({"SWATH_DATA": str(tmp_path)})

    def with_clock(clock: FakeClock) -> CheckContext:
        return CheckContext(settings=reading.settings, reading=reading, trouble="", clock=clock)

    _is(command.check_clock(with_clock(FakeClock())), CheckLevel.FAIL, "stands still")
    file = _store(tmp_path)
    ahead = SystemClock().now() + 86_400
    os.utime(file, (ahead, ahead))
    _is(command.check_clock(_subject(tmp_path)), CheckLevel.WARN, "in the future")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_workers_that_died_are_told_from_the_living(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "dead-1.lock").touch()
    with _locked(tmp_path / "workers" / "alive-2.lock"):
        _is(command.check_leftovers(_subject(tmp_path)), CheckLevel.WARN, "1 worker died", "dead-1")
        assert read_only.dead_workers(tmp_path) == ["dead-1"]


def test_job_ids_are_found_by_their_beginning_the_newest_first(tmp_path: Path) -> None:
    assert read_only.job_ids(tmp_path, "job") == []
    _store(tmp_path)
    assert read_only.job_ids(tmp_path, "job-199") == [f"job-{n}" for n in [*range(1999, 1989, -1), 199]]
    assert read_only.job_ids(tmp_path, "%") == []


def test_a_file_in_place_of_the_folder_is_found(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        _is(command.check_folder(_subject(folder)), CheckLevel.FAIL, f"{file} is not a folder", "SWATH_DATA")
    (tmp_path / "link").symlink_to("nowhere")
    _is(command.check_folder(_subject(tmp_path / "link")), CheckLevel.FAIL, "is not a folder")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "file system writable"), (errno.EACCES, "permission")],
)
def test_a_folder_that_cannot_be_written_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    _is(command.check_folder(_subject(tmp_path)), CheckLevel.FAIL, os.strerror(number), remedy)
