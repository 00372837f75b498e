"""Uploads: files that a recording may give to a site: those in the folder `files` beside it, by their names alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from swath.actions.language.steps import MOST_NAME_BYTES
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["asset"]


async def asset(files: Path | None, name: str, most_bytes: int) -> tuple[str, bytes]:
    """Its name and what is in it. Raises Failed: invalid_input for what is no name of a file there."""
    if files is None:
        raise _no(f"{name!r} cannot be uploaded: the recording has no folder `files` beside it")
    return name, await asyncio.to_thread(_read, files, name, most_bytes)


def _read(files: Path, name: str, most_bytes: int) -> bytes:
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise _no(f"{name!r} is no plain name of a file, and only such can be uploaded")
    if len(name.encode("utf-8", "replace")) > MOST_NAME_BYTES:
        raise _no(f"{name[:40] + '…'!r} has more than {MOST_NAME_BYTES} bytes, and no file has so long a name")
    try:
        folder, path = files.resolve(), (files / name).resolve()
        if path.parent != folder or not path.is_file():
            raise _no(f"there is no file {name!r} in the folder of the recording's files")
        with path.open("rb") as file:
            body = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is no text"  # their own words have the path
        raise _no(f"the file {name!r} cannot be read: {why}") from None
    if len(body) > most_bytes:
        raise _no(f"the file {name!r} has more than {most_bytes:,} bytes")
    return body


def _no(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_INPUT, message))
