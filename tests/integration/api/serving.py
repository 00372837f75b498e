"""A real `swath serve` in a process of its own, on a folder of its own, and programs that ask it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.bounds import HANGING_SECONDS
from tests.support.warm import run_warm

__all__ = ["Place", "Served", "free_port"]

MODULE = "swath.entrypoints.cli.main"
ARMED = "harness.armed_cli"

# A shell that starts us in the background has SIGINT ignored, and so would every command that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port() -> int:
    """One that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class Served:
    """A controller that listens, and a client of it."""

    def __init__(self, process: asyncio.subprocess.Process, client: httpx.AsyncClient, url: str) -> None:
        self.process = process
        self.client = client
        self.url = url

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        """What a request that must succeed is answered with."""
        answer = await self.client.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    async def until(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job's status once it is in one of these states."""
        async with asyncio.timeout(60):
            while True:
                status: dict[str, Any] = await self.ask("GET", f"/jobs/{job_id}/status")
                if status["status"] in states:
                    return status
                await asyncio.sleep(0.05)

    async def stopped(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 60)


class Place:
    """Where controllers run: the environment of their processes, and what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SWATH_")},
            "SWATH_DATA": str(folder / "data"),
            "SWATH_LEASE_SECONDS": "2",
            "SWATH_DEMO_URL": f"http://127.0.0.1:{free_port()}",
            "SWATH_WEBHOOK_TIMEOUT_SECONDS": "2",
            "SWATH_LOG_FORMAT": "text",
        }

    async def start(self, *arguments: str, armed: bool = False, **variables: str) -> asyncio.subprocess.Process:
        """Starts a command; through harness.armed_cli if it is `armed`, or broken on purpose."""
        words = [ARMED, "--"] if armed or "SWATH_BROKEN" in self.environment else [MODULE]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *words,
            *arguments,
            cwd=self.folder,
            env=self.environment | variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Runs a command to its end."""
        ran = await asyncio.to_thread(run_warm, arguments, self.folder, self.environment | variables, None, 60)
        return ran.returncode, ran.stdout, ran.stderr

    @asynccontextmanager
    async def serving(self, *arguments: str, armed: bool = False, **variables: str) -> AsyncIterator[Served]:
        """A controller at a free port; killed at the end if it still runs."""
        process = await self.start("serve", "--port", "0", *arguments, armed=armed, **variables)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            found = re.search(r"http://\S+?:\d+", line)
            assert found, line + (await process.stderr.read()).decode()
            async with httpx.AsyncClient(base_url=found[0], timeout=HANGING_SECONDS) as client:
                yield Served(process, client, found[0])
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
