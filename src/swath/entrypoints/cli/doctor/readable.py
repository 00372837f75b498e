"""Whether other users of this machine may read what jobs stored. An earlier version left that to the umask."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from swath.backends.host.private_files import too_open
from swath.entrypoints.cli.doctor.finding import Finding, Subject, warn
from swath.settings import FolderPlace

__all__ = ["find_readable"]

_MOST_ENTRIES: Final = 1_000  # jobs that are looked at; one that is too open is enough to tell
_NARROW: Final = {"owner": "go=", "group": "g-w,o=", "all": "go-w"}


def find_readable(subject: Subject) -> Finding | None:
    """A warning with the commands that close it; nothing is changed behind anybody's back."""
    settings, data = subject.settings, subject.store_folder
    place = settings.places.results
    results = place.folder if isinstance(place, FolderPlace) else None
    narrow = _NARROW[settings.results_readable_by]
    wide, commands = [], []
    if too_open(data, settings.data_mode):
        wide, commands = [data], [f"chmod {settings.data_mode:o} {_quoted([data])}"]
    if private := [path for path in _entries(data) if path != results and too_open(path, 0)]:
        commands.append(f"chmod -R go= {_quoted(private)}")
    opened: list[Path] = []
    if results is not None:
        opened = [path for path in (results, *_entries(results)) if too_open(path, settings.results_mode)]
        if opened:
            commands.append(f"chmod -R {narrow} {_quoted([results])}")
    wide += private + opened
    if not wide:
        return None
    return warn(f"other users of this machine may get at {wide[0]}", "; ".join(commands))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []


def _quoted(paths: Iterable[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)
