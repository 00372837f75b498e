"""The real command on the AWS servers of the tests: a Shell whose settings name a table, queues and a prefix.

Another machine is another Shell with the same names and a data folder of its own.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from harness.fakes.aws import Endpoints
from harness.fakes.aws.endpoints import DISTURBING
from swath.bootstrap.services import Services, open_services
from swath.domain.errors import UnknownName
from swath.settings import load_settings
from tests.acceptance.conftest import Shell

__all__ = ["AwsShell"]


class AwsShell(Shell):
    """One machine. `name` is that of table, queues and prefix."""

    def __init__(self, folder: Path, endpoints: Endpoints, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder)
        self.name = name
        for variable in DISTURBING:
            self.environment.pop(variable, None)
        self.environment |= endpoints.environment
        self.environment |= {
            "SWATH_STORE": f"dynamodb://{name}",
            "SWATH_RESULTS": f"s3://{endpoints.bucket}/{name}",
            "SWATH_LEASE_SECONDS": "6",
        }

    def done(self, *arguments: str, code: int = 0) -> str:
        """What a command prints that exits so."""
        ran = self.swath(*arguments)
        assert ran.returncode == code, f"{arguments}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The same as JSON."""
        return json.loads(self.done(*arguments, "--json", code=code))

    def refused(self, *arguments: str, code: int = 2) -> str:
        """The one line that a command says when it does not do it."""
        ran = self.swath(*arguments)
        assert ran.returncode == code, f"{arguments}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        (line,) = [line for line in ran.stderr.splitlines() if line.startswith("swath: ")]
        assert "Traceback" not in ran.stderr
        return line

    def looking_on(self) -> AbstractAsyncContextManager[Services]:
        """The back end as seen from the test itself: asking it costs less than a command."""
        return open_services(load_settings(self.environment))

    async def until(self, job_id: str, **wanted: Any) -> dict[str, Any]:
        """The status of a job once these fields of it, or of its counts, are so; a function decides by itself."""
        async with self.looking_on() as services, asyncio.timeout(200):
            while True:
                with suppress(UnknownName):  # it is being ordered
                    status = (await services.store.status(job_id)).as_json()
                    fields = {**status, **status["counts"]}
                    if all(
                        is_so(fields[key]) if callable(is_so) else fields[key] == is_so for key, is_so in wanted.items()
                    ):
                        return status
                await asyncio.sleep(0.1)

    async def workers_of(self, job_id: str) -> set[int]:
        """The processes that ended its items."""
        async with self.looking_on() as services:
            items = await services.store.items(job_id)
        return {int(item.attempts[-1].worker.split("-")[-2]) for item in items}
