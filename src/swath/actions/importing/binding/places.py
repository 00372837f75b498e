"""Where steps stand when others have been left out: remarks count them as people see them, in the recording they get.

Used by replacing.py for what one value has led to, and by bind.py when the next value leaves out more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from swath.actions.importing.imported import Remark

__all__ = ["renumbered"]

_PLACE: Final = re.compile(r"(?:\w+\.)*[0-9]+")


def renumbered(remark: Remark, gone: Sequence[str]) -> Remark:
    """The same remark when the steps at these places are left out. Of one of these it says what it came after."""
    place = _PLACE.sub(lambda found: _moved(found[0], gone), remark.place)
    if remark.place.removeprefix("step ") in gone:
        list_, dot, number = place.removeprefix("step ").rpartition(".")
        last = int(number) - 1
        place = f"after step {list_}{dot}{last}" if last else f"before step {list_}{dot}1"
    return msgspec.structs.replace(remark, place=place)


def _moved(place: str, gone: Sequence[str]) -> str:
    """Each number in it is less by those that stood before it in the same list."""
    left_out = [one.rpartition(".") for one in gone]
    parts = place.split(".")
    made: list[str] = []
    for at, part in enumerate(parts):
        less = sum(
            list_ == ".".join(parts[:at]) and int(number) < int(part)
            for list_, _, number in left_out
            if part.isdecimal()
        )
        made.append(str(int(part) - less) if less else part)
    return ".".join(made)
