"""Browsers whose owner died are found by their mark and killed, frozen or not; everybody else's are left alone."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from swath.fetch.browser.chromium.orphans import find_orphans, reap
from swath.fetch.browser.chromium.process_tag import ProcessTag, family_of, process_start_time
from tests.unit.fetch.browser.launching import folder_of, is_dead, refusing_port, until

pytestmark = pytest.mark.req("B1")

# A worker that launches one and waits to be killed; with a leash the system kills what it leaves.
WORKER = """
import asyncio, sys
from pathlib import Path
import msgspec
from swath.fetch.browser.chromium.find import Chromium, find
from swath.fetch.browser.chromium.launch import LaunchOptions, launch
from swath.fetch.browser.chromium.sandbox import Sandbox

async def main(data, port, leashed):
    chromium = find()
    if leashed == "no":
        chromium = Chromium(chromium.binary, Sandbox(on=False, why_not="it is a test"))
    launched = await launch(LaunchOptions(chromium=chromium, data=Path(data), deny_port=int(port)))
    print(launched.mark, launched.pid, launched.driver_pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def dead_mark(family: str) -> ProcessTag:
    """Its owner has our number, and began at another time: the number was given to another process."""
    return ProcessTag(family, os.getpid(), 1, secrets.token_hex(3))


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Processes that sleep and have such arguments."""
    started: list[subprocess.Popen[bytes]] = []

    def sleeper(*arguments: str) -> subprocess.Popen[bytes]:
        code = "import sys, time; print(flush=True); time.sleep(600)"
        started.append(
            subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, start_new_session=True)
        )
        out = started[-1].stdout
        assert out is not None
        out.readline()
        return started[-1]

    yield sleeper
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_only_our_own_whose_owner_is_dead_are_killed(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    family = family_of(tmp_path)
    pipe = "--remote-debugging-pipe"
    others = family_of(tmp_path / "other")
    orphan = start(pipe, f"--swath-browser={dead_mark(family)}")
    frozen = start(f"--swath-browser={dead_mark(family)}", pipe)
    frozen.send_signal(signal.SIGSTOP)
    spared = [
        start(pipe, f"--swath-browser={ProcessTag.new(family)}"),  # its owner lives
        start(pipe, f"--swath-browser={dead_mark(others)}"),  # of another data folder
        start(f"--swath-browser={dead_mark(family)}"),  # somebody who looks for one
        start(pipe, "--swath-browser="),
        start(pipe, f"--swath-browser={family}-x-y-z"),
    ]
    assert set(find_orphans(family)) == {orphan.pid, frozen.pid}
    assert reap(family) == 2
    assert is_dead(orphan.pid)
    assert is_dead(frozen.pid)
    assert [process.poll() for process in spared] == [None] * len(spared)


def test_one_that_is_just_becoming_another_program_is_found_every_time(tmp_path: Path) -> None:
    """As a wrapper that starts Chromium by way of others: in between its command line is empty for a moment."""
    program, family = tmp_path / "becoming", family_of(tmp_path)
    program.write_text('#!/bin/sh\nexec "$0" "$@"\n')
    program.chmod(0o700)
    mark = dead_mark(family)
    with subprocess.Popen([program, "--remote-debugging-pipe", f"--swath-browser={mark}"]) as process:
        try:
            looks = [find_orphans(family) for _ in range(100)]
        finally:
            process.kill()
    assert looks == [{process.pid: mark}] * 100


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's browsers are another user's")
def test_a_folder_that_a_browser_of_another_user_has_made_goes_too(tmp_path: Path) -> None:
    family = family_of(tmp_path)
    folder = folder_of(dead_mark(family))
    (folder / "profile" / "Default").mkdir(parents=True)
    os.chown(folder / "profile", 65534, 65534)
    deep = folder / "profile"
    for _ in range(1_200):  # more than Python itself goes into
        deep = deep / "d"
        deep.mkdir()
    reap(family)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may remove what others have made")
@pytest.mark.req("Z4")
def test_a_folder_that_somebody_else_has_made_is_left_alone(tmp_path: Path) -> None:
    """Named as ours are, so that root would be kept busy with it."""
    family = family_of(tmp_path)
    folder = folder_of(dead_mark(family))
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    try:
        reap(family)
        assert folder.exists()
    finally:
        folder.rmdir()


def test_folders_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    family = family_of(tmp_path)
    dead, living, other = dead_mark(family), ProcessTag.new(family), dead_mark(family_of(tmp_path / "other"))
    for mark in (dead, living, other):
        folder_of(mark).mkdir()
        (folder_of(mark) / "file").write_text("x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    link = folder_of(dead_mark(family))
    link.symlink_to(elsewhere)
    try:
        reap(family)
        assert not folder_of(dead).exists()
        assert folder_of(living).exists()
        assert folder_of(other).exists()
        assert (elsewhere / "kept").exists()
    finally:
        link.unlink(missing_ok=True)
        for mark in (dead, living, other):
            for path in (folder_of(mark) / "file", folder_of(mark)):
                if path.exists():
                    path.rmdir() if path.is_dir() else path.unlink()


def test_a_folder_into_which_the_dying_still_write_goes_too(tmp_path: Path) -> None:
    family = family_of(tmp_path)
    folder = folder_of(dead_mark(family))
    folder.mkdir()
    done = threading.Event()

    def write() -> None:
        for number in range(100_000):
            if done.is_set():
                return
            with suppress(FileNotFoundError):
                (folder / f"{number}").write_text("x")

    writer = threading.Thread(target=write)
    writer.start()
    threading.Timer(0.3, done.set).start()
    try:
        while sum(1 for _ in folder.iterdir()) < 100:
            time.sleep(0.001)
        reap(family)
        assert not folder.exists()
    finally:
        done.set()
        writer.join()
        reap(family)


def test_marks_are_read_as_they_are_written() -> None:
    mark = ProcessTag.new("0123456789ab")
    assert ProcessTag.read(str(mark)) == mark
    assert mark.owner_started == process_start_time(os.getpid())
    assert ProcessTag.read("") is None
    assert ProcessTag.read(f"{mark}0") is None


@pytest.mark.req("W3")
@pytest.mark.parametrize("leashed", ["yes", "no"])
async def test_a_killed_worker_leaves_no_browser_even_a_frozen_one(tmp_path: Path, leashed: str) -> None:
    with refusing_port() as port:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, str(tmp_path), str(port), leashed, stdout=asyncio.subprocess.PIPE
        )
        assert worker.stdout is not None
        async with asyncio.timeout(60):
            told = (await worker.stdout.readline()).decode().split()
        mark, leaders = told[0], [int(pid) for pid in told[1:]]
        try:
            await _kill_and_look(worker, tmp_path, leaders, leashed)
            assert not folder_of(mark).exists()
        finally:  # also when it is shown that something survives
            reap(family_of(tmp_path))


async def _kill_and_look(worker: asyncio.subprocess.Process, data: Path, leaders: list[int], leashed: str) -> None:
    assert reap(family_of(data)) == 0  # its owner lives
    for pid in leaders:
        os.kill(pid, signal.SIGSTOP)
    worker.kill()
    await worker.wait()
    if leashed == "yes":  # the system ties their lives together
        await until(lambda: all(is_dead(pid) for pid in leaders))
    else:
        assert not any(is_dead(pid) for pid in leaders)
    found = reap(family_of(data))
    # Without it the browser and the driver; one that Chromium has just begun may be a leader of its own for a moment.
    assert found == 0 if leashed == "yes" else found >= len(leaders)
    assert all(is_dead(pid) for pid in leaders)
