"""What an unexpected exception in a scraper's code becomes: a failure that names the error and the author's line."""

from __future__ import annotations

import traceback
from pathlib import Path

from swath.domain.failure import Failure, FailureKind

__all__ = ["author_failure"]


def author_failure(error: Exception, module_file: str | None) -> Failure:
    """`module_file` is where the scraper is written; the innermost line there is the one to look at."""
    if isinstance(error, TimeoutError):
        return Failure.of(FailureKind.TIMEOUT, f"the scraper waited too long: {error}".rstrip(": "))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == module_file] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return Failure.of(FailureKind.INTERNAL, f"{type(error).__name__}: {error}{where}")
