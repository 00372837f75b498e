"""What an importer gives: a recording, and remarks on what could not be carried over or has to be known.

Made by chrome.py, by mapped.py, and by importers of installed packages; shown by `swath recording import`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec

from swath.actions.language.recording import Recording

__all__ = ["Imported", "Importer", "Remark"]


class Remark(msgspec.Struct, frozen=True):
    """Something to know. `place` says of which step, as the recorder counts them: `step 3 (click)`."""

    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


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
