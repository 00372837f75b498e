"""What an unexpected exception in a scraper's code becomes: a failure that names the error and the author's line."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from swath.domain.failure import Failure, FailureKind

__all__ = ["author_failure", "one_line"]

_LINE_LIMIT_CHARS: Final = 500


def author_failure(error: Exception, module_file: str | None) -> Failure:
    """`module_file` is where the scraper is written; the innermost line there is the one to look at."""
    if isinstance(error, TimeoutError):
        return Failure.of(FailureKind.TIMEOUT, f"the scraper waited too long: {error}".rstrip(": "))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == module_file] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return Failure.of(FailureKind.INTERNAL, f"{type(error).__name__}: {error}{where}")


def one_line(error: BaseException) -> str:
    """The name of an error and what it says, on one line that is not long, for the message of a BadInput."""
    try:
        said = " ".join(str(error).encode("utf-8", "replace").decode().split())
    except BaseException:  # noqa: BLE001 an author's own exception may not even be able to tell what it is
        said = ""
    return f"{type(error).__name__}: {said[:_LINE_LIMIT_CHARS]}".removesuffix(": ")
