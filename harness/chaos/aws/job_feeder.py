"""The process that creates the small jobs of a chaos run with `swath jobs create`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from harness.chaos.aws.job import AwsJob
from harness.chaos.aws.job_parts import Part
from harness.processes import dying_with_parent

__all__ = ["JobFeeder"]


class JobFeeder:
    """Gone when the context ends, whether it is through or not."""

    def __init__(self, job: AwsJob, environment: Mapping[str, str]) -> None:
        self._job = job
        with job.log.open("ab") as log:
            self._process = subprocess.Popen(
                job.commands,
                env=job.environment(environment),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self.finish()

    def feed(self, part: Part) -> None:
        """Has a job created, after those that were told before."""
        self.order(self._job.create_arguments(part))

    def order(self, arguments: list[str]) -> None:
        """Has a command run, after those that were told before."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """There are no more."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def exit_code(self) -> int | None:
        """The worst of all its commands; None while it is at work."""
        return self._process.poll()
