"""Exit codes (C2), and which one a job's end gives."""

from __future__ import annotations

from enum import IntEnum

from swath.domain.transitions import JobState

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


def exit_code_of(state: JobState) -> ExitCode:
    """What a command that waited for a job exits with."""
    match state:
        case JobState.COMPLETED:
            return ExitCode.COMPLETE
        case JobState.PARTIALLY_COMPLETED | JobState.CANCELLED:
            return ExitCode.PARTIALLY_COMPLETED
        case JobState.FAILED:
            return ExitCode.FAILED
        case _:
            return ExitCode.INTERRUPTED
