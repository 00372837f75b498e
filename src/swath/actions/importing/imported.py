"""What an importer gives: a recording, and remarks on what could not be carried over or has to be known.

Made by chrome.py, by mapped.py, and by importers of installed packages; shown by `swath recording import`.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from swath.actions.language.recording import Recording

__all__ = ["Imported", "Importer", "Remark"]


_MOST_STEPS: Final = 10


class Remark(msgspec.Struct, frozen=True):
    """Something to know. `place` says of which step: `step 3 (click)`; `steps` are the numbers of several. An importer
    gives the steps of the recording that people get, not those of the recorder's file."""

    text: str
    place: str = ""
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = f"{self.place}: {self.text}" if self.place else self.text
        return f"{told}: {self._counted()}" if self.steps else told

    def _counted(self) -> str:
        shown = ", ".join(self.steps[:_MOST_STEPS]) + (", …" if len(self.steps) > _MOST_STEPS else "")
        return f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'} ({shown})"


class Imported(msgspec.Struct, frozen=True):
    """A recording of ours, with what there is to say about how it came to be."""

    recording: Recording
    remarks: tuple[Remark, ...] = ()


@runtime_checkable
class Importer(Protocol):
    """Knows the recordings of one recorder. Packages offer theirs as entry points of the group `swath.importers`."""

    name: str

    def recognises(self, document: Any) -> bool:
        """Whether a JSON document is a recording of that recorder, whole or not."""
        ...

    def read(self, document: Any) -> Imported:
        """Raises BadInput, in one line that names the step."""
        ...
