"""One thing that is wrong with a recording, where, and what to do; and how several are told in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from swath.actions.language.walk import Placed

__all__ = ["MOST_TOLD", "Problem", "of_step", "told"]

MOST_TOLD: Final = 3
_MOST_CHARS: Final = 400


class Problem(NamedTuple):
    """`where` is a step, a field, or both; empty for the recording as a whole."""

    where: str
    what: str

    def __str__(self) -> str:
        return _line(f"{self.where}: {self.what}" if self.where else self.what)


def of_step(placed: Placed, path: str, what: str) -> Problem:
    """In a step, and in a field of it if a path is given."""
    step = f"step {placed.place} ({placed.step.do})"
    return Problem(f"{step}: {path}" if path else step, what)


def told(problems: Sequence[Problem], among: int = 0) -> str:
    """The first few, and how many more there are; of `among` when not all of them are given."""
    some = problems[:MOST_TOLD]
    more = max(among, len(problems)) - len(some)
    return "; ".join([*map(str, some), *([f"and {more:,} more"] if more else [])])


def _line(text: str) -> str:
    """What somebody wrote may have any character and any length; a message is one line."""
    whole = "".join(character if character.isprintable() else " " for character in text[: 2 * _MOST_CHARS])
    whole = " ".join(whole.split())
    return whole if len(whole) <= _MOST_CHARS else f"{whole[: _MOST_CHARS - 1]}…"
