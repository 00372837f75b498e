"""Exit codes (C2), and the one for the state of a job."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from swath.domain.transitions import JobState

if TYPE_CHECKING:
    from swath.domain.job import JobStatus

__all__ = ["ExitCode", "exit_code_of"]


class ExitCode(IntEnum):
    """Stable: scripts rely on them."""

    COMPLETE = 0
    INTERNAL = 1
    BAD_INPUT = 2
    PARTIALLY_COMPLETED = 3
    FAILED = 4
    CIRCUIT_OPEN = 5
    BUDGET_REACHED = 6
    UNKNOWN_NAME = 7
    VERIFY_FAILED = 8
    INTERRUPTED = 130


def exit_code_of(status: JobStatus) -> ExitCode:
    """What a command that waited for a job exits with. An open circuit counts whether it failed or paused the job."""
    match status.state:
        case JobState.FAILED | JobState.PAUSED if status.circuit_opened is not None:
            return ExitCode.CIRCUIT_OPEN
        case JobState.COMPLETED:
            return ExitCode.COMPLETE
        case JobState.PARTIALLY_COMPLETED | JobState.CANCELLED:
            return ExitCode.PARTIALLY_COMPLETED
        case JobState.FAILED:
            return ExitCode.FAILED
        case _:
            return ExitCode.INTERRUPTED
