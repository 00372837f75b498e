"""The real command, in processes of its own, on a folder and a demo county of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.demo.county import DemoCountyServer
from tests.support.warm import run_warm

SWATH = Path(sys.executable).parent / "swath"


# A shell that starts us in the background has SIGINT ignored, and so would every command that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Shell:
    """Runs `swath` in a folder; what it started ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SWATH_")},
            "SWATH_DATA": str(folder / "data"),
            "SWATH_LEASE_SECONDS": "3",
            "COLUMNS": "200",
        }
        self._started: list[asyncio.subprocess.Process] = []

    def swath(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return run_warm(arguments, self.folder, self.environment, stdin, 90)

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Runs a command to its end while the test's own event loop goes on."""
        ran = await asyncio.to_thread(self.swath, *arguments)
        return ran.returncode, ran.stdout, ran.stderr

    async def start(self, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
        """Starts a command."""
        process = await asyncio.create_subprocess_exec(
            str(SWATH),
            *arguments,
            cwd=self.folder,
            env=self.environment | variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        return process

    async def end_all(self) -> None:
        """Kills what still runs, and reads its pipes to their end: open ones would be blamed on a later test."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
                await asyncio.wait_for(process.communicate(), 60)

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    await shell.end_all()


@pytest.fixture
async def county(shell: Shell) -> AsyncIterator[DemoCountyServer]:
    """With a site circuit that stays closed: what a site's failures do to it is shown in test_sites.py."""
    patient = shell.write("patient-sites.yaml", "sites: {demo-county: {breaker: {window: 1000, failures: 1000}}}\n")
    shell.environment["SWATH_SITES"] = str(patient)
    async with DemoCountyServer() as county:
        shell.environment["SWATH_DEMO_URL"] = county.base_url
        shell.environment["SWATH_ALLOW_PRIVATE"] = county.base_url.removeprefix("http://")
        yield county
