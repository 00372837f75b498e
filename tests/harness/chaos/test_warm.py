"""Commands of the crash runs that nobody kills are forked, and are processes like any other."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.chaos.fork_server import ForkServer
from tests.support.bounds import HANGING_SECONDS


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SWATH_DATA": str(folder / "data")}


def marked(folder: Path) -> list[psutil.Process]:
    """Those that have files open in the folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(file.path.startswith(f"{folder}/data/") for file in process.open_files()):
                found.append(process)
    return found


@pytest.mark.req("Z1")
async def test_exit_codes_and_words_are_those_of_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with ForkServer() as warm:
        asked = [warm.run(words, environment(tmp_path), log) for words in (["--version"], ["jobs", "status", "nobody"])]
        assert await asyncio.gather(*asked) == [0, 7]
    assert "there is no job 'nobody'" in log.read_text()


@pytest.mark.req("Z1")
async def test_a_command_that_still_runs_ends_with_the_context_and_has_no_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with ForkServer() as warm:
        working = asyncio.create_task(warm.run(["worker"], environment(tmp_path), log))
        async with asyncio.timeout(HANGING_SECONDS):
            while not marked(tmp_path):
                await asyncio.sleep(0.05)
    assert await working is None
    async with asyncio.timeout(HANGING_SECONDS):
        while marked(tmp_path):
            await asyncio.sleep(0.05)
