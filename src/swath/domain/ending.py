"""Ending: how far the last steps of a job are, and when they are tried again after they have killed their worker.

The finisher reports each step with the renewals of its right; the store shows it in the job's status. A large job takes
minutes to end, and one that needs more memory than there is would kill one worker after the other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

__all__ = ["TELL_DEATHS", "Ending", "EndingProgress", "EndingStep", "ending_of", "put_off_seconds"]

TELL_DEATHS: Final = 3  # from so many on a person has to know
_PUT_OFF_SECONDS: Final = (0.0, 0.0, 1.0, 10.0, 60.0, 600.0)  # by deaths; the last for all that follow


class EndingStep(StrEnum):
    """What an ending is doing."""

    STARTING = "starting"
    CANCELLING = "cancelling_items"  # those that a stopped job leaves
    LISTING = "writing_manifests"
    REMOVING = "removing_replaced_files"  # of former generations
    PUT_OFF = "put_off"  # nothing: it has killed its worker, and is tried again later


class EndingProgress(msgspec.Struct, frozen=True, array_like=True):
    """A step, and how many items, or files, it has come through."""

    step: EndingStep
    done: int = 0
    total: int = 0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The same as a status shows it. `deaths`: workers that have died while they ended this job.

    `retry_seconds` is set while it is put off: how long until some worker may try again.
    """

    step: EndingStep
    done: int = 0
    total: int = 0
    deaths: int = 0
    retry_seconds: float | None = None


def put_off_seconds(deaths: int) -> float:
    """How long an ending is left alone after it has killed so many workers. The first may have been chance."""
    return _PUT_OFF_SECONDS[min(deaths, len(_PUT_OFF_SECONDS) - 1)]


def ending_of(progress: EndingProgress | None, deaths: int, retry_seconds: float) -> Ending | None:
    """What a status shows: of an ending under way its `progress`, else whether one is put off."""
    if progress is not None:
        return Ending(step=progress.step, done=progress.done, total=progress.total, deaths=deaths)
    if not deaths:
        return None
    return Ending(step=EndingStep.PUT_OFF, deaths=deaths, retry_seconds=round(max(0.0, retry_seconds), 1))
