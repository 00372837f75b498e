"""Numbers of steps in notes: they count the steps of the recording that people get, as its table does. The recorder's
own count is another one as soon as a step is left out, or one of theirs becomes two.

Used by chrome.py and mapped.py, once all steps are read. Errors keep the recorder's count: then there is no recording.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from swath.actions.importing.imported import Remark

__all__ = ["Numbering"]

_PLACE: Final = re.compile(r"step (?P<number>[0-9]+) \((?P<what>.*)\)", re.DOTALL)


class Numbering:
    """Of one recording. `add` is called for each step of the recorder's, in order."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # the last step of ours, once each of theirs is done
        self._made: list[int] = []

    def add(self, made: int) -> None:
        """How many steps of ours it has become; 0: it is left out."""
        self._ends.append((self._ends[-1] if self._ends else 0) + made)
        self._made.append(made)

    def told(self, remark: Remark) -> Remark:
        """The same remark, with the numbers of ours."""
        found = _PLACE.fullmatch(remark.place)
        place = remark.place if found is None else self._place(int(found["number"]), found["what"])
        steps = tuple(self._short(int(number)) for number in remark.steps)
        return msgspec.structs.replace(remark, place=place, steps=steps)

    def _place(self, number: int, what: str) -> str:
        end, made = self._ends[number - 1], self._made[number - 1]
        if not made:
            return f"after step {end}, {what}" if end else f"before step 1, {what}"
        return f"step {end} ({what})" if made == 1 else f"steps {end - made + 1} to {end} ({what})"

    def _short(self, number: int) -> str:
        end, made = self._ends[number - 1], self._made[number - 1]
        if not made:
            return f"after {end}" if end else "before 1"
        return str(end) if made == 1 else f"{end - made + 1} to {end}"
