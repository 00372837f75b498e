"""One real Chromium: how it is started, what it sees of us, and that it ends whatever is done to it."""

import asyncio
import gc
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from patchright._impl._errors import TargetClosedError
from patchright.async_api import Error

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.browser.chromium.driver import _DriverTransport
from swath.fetch.browser.chromium.environment import ROOMY_BYTES, memory_flags
from swath.fetch.browser.chromium.find import Chromium, find
from swath.fetch.browser.chromium.launch import ChromiumProcess, launch
from swath.fetch.browser.chromium.process_tag import family_of
from swath.fetch.browser.chromium.sandbox import Sandbox
from tests.support.bounds import HANGING_SECONDS
from tests.unit.fetch.browser.launching import (
    browser_pid,
    folder_of,
    is_dead,
    launching,
    processes_of,
    refusing_port,
    renderers_of,
    until,
)

pytestmark = [pytest.mark.req("B1"), pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with refusing_port() as number:
        yield number


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(data: Path, port: int) -> AsyncIterator[ChromiumProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWATH_SECRET", "do-not-tell")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
        launched = await launch(launching(data, port))
    yield launched
    await launched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def own(data: Path, port: int) -> AsyncIterator[ChromiumProcess]:
    launched = await launch(launching(data, port, answer_seconds=2.0, close_seconds=1.0))
    yield launched
    await launched.kill()


def assert_nothing_left(launched: ChromiumProcess, before: set[int]) -> None:
    assert before
    assert processes_of(launched) == set()
    assert all(is_dead(pid) for pid in before)
    assert not folder_of(launched.mark).exists()


@pytest.mark.req("Z6")
async def test_pages_run_in_the_sandbox_and_not_as_root(shared: ChromiumProcess) -> None:
    page = await shared.browser.new_page()
    await page.set_content("<h1>here</h1>")
    renderers = renderers_of(shared)
    assert renderers
    for process in renderers:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Seccomp:\t2" in status  # filtered
        assert process.uids().real != 0
    assert "--no-sandbox" not in psutil.Process(browser_pid(shared)).cmdline()
    await page.close()


@pytest.mark.req("B1")
async def test_a_context_costs_the_process_of_its_page_and_no_other(shared: ChromiumProcess) -> None:
    known = {process.pid for process in renderers_of(shared)}
    contexts = [await shared.browser.new_context() for _ in range(3)]
    for context in contexts:
        page = await context.new_page()
        await page.set_content("<h1>here</h1>")
    await asyncio.sleep(1.0)  # what the window itself shows would have begun by now
    assert len({process.pid for process in renderers_of(shared)} - known) == len(contexts)
    for context in contexts:
        await context.close()


@pytest.mark.req("Z6")
async def test_neither_browser_nor_driver_sees_our_environment(shared: ChromiumProcess) -> None:
    looked = 0
    for pid in processes_of(shared):
        with suppress(ProcessLookupError, FileNotFoundError):  # some end by themselves
            told = Path(f"/proc/{pid}/environ").read_bytes()
            assert b"do-not-tell" not in told
            assert b"SWATH_" not in told
            looked += 1
    assert looked >= 2


async def test_it_says_what_it_is_and_how_much_it_takes(shared: ChromiumProcess) -> None:
    assert int(shared.version.split(".")[0]) > 100
    assert 50 << 20 < await shared.memory_bytes() < 2 << 30
    assert await shared.answers()


@pytest.mark.req("B3")
async def test_what_it_downloads_can_be_read_by_us(shared: ChromiumProcess) -> None:
    page = await shared.browser.new_page()
    await page.set_content('<a download="a.txt" href="data:application/octet-stream,some%20bytes">get</a>')
    async with asyncio.timeout(60), page.expect_download() as coming:
        await page.click("a")
    download = await coming.value
    assert Path(await download.path()).read_bytes() == b"some bytes"
    assert Path(await download.path()).is_relative_to(shared.downloads)
    await page.close()


async def test_a_dead_renderer_costs_its_page_and_no_more(shared: ChromiumProcess) -> None:
    context = await shared.browser.new_context()
    page = await context.new_page()
    await page.set_content("<h1>here</h1>")
    crashed = asyncio.Event()
    page.on("crash", lambda _: crashed.set())
    known = {process.pid for process in renderers_of(shared)}
    for pid in known:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await crashed.wait()
        await context.close()
    assert not shared.gone.is_set()
    assert await shared.answers()


@pytest.mark.req("W3")
@pytest.mark.parametrize("victim", ["browser", "driver"])
async def test_calls_fail_at_once_when_browser_or_driver_is_killed(own: ChromiumProcess, victim: str) -> None:
    page = await own.browser.new_page()
    before = processes_of(own)
    call = asyncio.create_task(page.evaluate("new Promise(() => {})"))
    await asyncio.sleep(0)
    os.kill(browser_pid(own) if victim == "browser" else own.driver_pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await own.gone.wait()
        with pytest.raises(Error):
            await call
    await own.kill()
    assert_nothing_left(own, before)


@pytest.mark.req("W3")
@pytest.mark.parametrize("frozen", ["browser", "driver"])
async def test_a_frozen_one_is_told_and_ended(own: ChromiumProcess, frozen: str) -> None:
    before = processes_of(own)
    os.kill(browser_pid(own) if frozen == "browser" else own.driver_pid, signal.SIGSTOP)
    began = time.monotonic()
    assert not await own.answers()
    await own.close()
    assert time.monotonic() - began < HANGING_SECONDS
    assert_nothing_left(own, before)


@pytest.mark.req("W3")
async def test_a_page_that_never_rests_does_not_keep_it_from_being_closed(own: ChromiumProcess) -> None:
    page = await own.browser.new_page()
    before = processes_of(own)
    spin = asyncio.create_task(page.evaluate("while (true) {}"))
    await until(lambda: any(process.cpu_times().user > 0.3 for process in renderers_of(own)))
    assert await own.answers()  # it is the page that hangs, not the browser
    began = time.monotonic()
    await own.close()
    assert time.monotonic() - began < HANGING_SECONDS
    assert isinstance((await asyncio.gather(spin, return_exceptions=True))[0], Error)
    assert_nothing_left(own, before)


def program(folder: Path, text: str) -> Chromium:
    folder.chmod(0o755)
    path = folder / "chromium"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Chromium(path, Sandbox(on=True, leash=find().sandbox.leash))


def remains(data: Path) -> list[str]:
    """Processes that were started for this data folder, and folders of theirs."""
    family = family_of(data)
    told = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended while we look
            if process.status() != psutil.STATUS_ZOMBIE:
                told.append(" ".join(process.cmdline()))
    return [line for line in told if family in line] + [str(path) for path in folder_of("").parent.glob(f"*{family}*")]


async def test_one_that_does_not_start_is_told_in_a_line(tmp_path: Path, port: int) -> None:
    broken = program(tmp_path, "echo 'error while loading shared libraries: libnss3.so' >&2; exit 127")
    with pytest.raises(Failed, match=r"Chromium does not start: error while loading .*libnss3\.so") as caught:
        await launch(launching(tmp_path, port, chromium=broken))
    assert caught.value.failure.kind is FailureKind.BROWSER_CRASH
    assert "\n" not in caught.value.failure.message
    assert remains(tmp_path) == []


async def test_a_program_that_is_no_browser_is_named(tmp_path: Path, port: int) -> None:
    other = program(tmp_path, "exit 0")
    with pytest.raises(Failed, match=re.escape(f"{other.binary} ended without a word; is it one?")):
        await launch(launching(tmp_path, port, chromium=other))


@pytest.mark.req("W3")
@pytest.mark.parametrize("stopped_by", ["the bound", "us"])
async def test_one_that_never_gets_ready_is_given_up_and_leaves_nothing(
    tmp_path: Path, port: int, stopped_by: str
) -> None:
    hanging = program(tmp_path, "while :; do sleep 1; done")
    start = asyncio.create_task(
        launch(launching(tmp_path, port, chromium=hanging, start_seconds=3 if stopped_by == "the bound" else 60))
    )
    if stopped_by == "us":
        await until(lambda: any("--remote-debugging-pipe" in line for line in remains(tmp_path)))
        start.cancel()
    with pytest.raises(Failed if stopped_by == "the bound" else asyncio.CancelledError):
        await start
    assert remains(tmp_path) == []


async def test_memory_is_shared_by_files_only_where_there_is_no_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = 4_096

    def room_of(blocks: int) -> os.statvfs_result:
        return os.statvfs_result((block, block, blocks, blocks, blocks, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", lambda _: room_of(ROOMY_BYTES // block))
    assert memory_flags(tmp_path) == ("--disable-dev-shm-usage",)
    monkeypatch.setattr(os, "statvfs", lambda _: room_of(ROOMY_BYTES // block - 1))
    assert memory_flags(tmp_path) == ()
    monkeypatch.undo()
    assert memory_flags(tmp_path / "none") == ()


@pytest.mark.parametrize(("error", "told"), [(TargetClosedError("gone"), 0), (ValueError("a mistake"), 1)])
async def test_what_a_dead_browser_says_to_nobody_is_no_error(
    shared: ChromiumProcess, caplog: pytest.LogCaptureFixture, error: Exception, told: int
) -> None:
    assert await shared.answers()
    forgotten = asyncio.get_running_loop().create_future()
    forgotten.set_exception(error)
    del forgotten
    gc.collect()
    assert len([record for record in caplog.records if "never retrieved" in record.getMessage()]) == told


class Shut:
    """As uvloop's pipes are, once the process at their other end has gone."""

    def write(self, data: bytes) -> None:
        raise RuntimeError(f"unable to write {len(data)} bytes; the handler is closed")


@pytest.mark.req("B1", "W3")
async def test_a_call_to_a_driver_whose_pipe_is_shut_is_a_crash() -> None:
    pipe: Any = _DriverTransport(asyncio.get_running_loop(), {}, ())
    pipe._output = Shut()
    with pytest.raises(Error, match="Connection closed"):
        pipe.send({"id": 1})
    pipe.on_error_future.cancel()
