"""Branches in a flat list of steps: `if`, `else`, `end`. A recorder's condition that cannot be carried over takes all
that is in its branches with it: if only its own line were left out, both branches would be done.

Used by mapped.py for recordings of others, and by chrome.py, which refuses such steps.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from swath.actions.importing.imported import Remark
from swath.domain.errors import BadInput

__all__ = ["Branching", "Words", "is_flow_word"]

Kind = Literal["if", "loop", "else", "end", "jump"]

_WORDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("if", "switch", "try"), "if"),
    **dict.fromkeys(("else", "elseif", "elif", "otherwise", "case", "catch", "finally"), "else"),
    **dict.fromkeys(("end", "endif", "endswitch", "endtry", "endwhile", "endfor", "endforeach"), "end"),
    **dict.fromkeys(("endtimes", "endloop"), "end"),
    **dict.fromkeys(("while", "times", "for", "foreach", "loop"), "loop"),
    **dict.fromkeys(("gotoif", "gotolabel", "jumpif", "jumpto", "skipif"), "jump"),
}
# Longer names begin with such words: `ifElementExists`, `else_visible`, `endIfVisible`, `whileShown`.
_FIRST: Final[dict[str, Kind]] = {
    **dict.fromkeys(("if", "unless"), "if"),
    **dict.fromkeys(("else", "elseif", "elif", "otherwise"), "else"),
    **dict.fromkeys(("while", "for", "foreach", "repeat", "loop"), "loop"),
}
_ENDS: Final = frozenset({*_FIRST, "switch", "try", "condition"})
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MOST_TOLD: Final = 10


class Words(NamedTuple):
    """What a recorder calls them, besides the usual words."""

    begin: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def kind(self, action: str) -> Kind | None:
        """What an action is, if it is none that does something."""
        own: tuple[tuple[tuple[str, ...], Kind], ...] = (
            (self.begin, "if"),
            (self.otherwise, "else"),
            (self.end, "end"),
        )
        return next((kind for names, kind in own if action in names), _kind(action))


class _Block(NamedTuple):
    number: int
    action: str
    kind: Kind


class Branching:
    """Of one recording. `takes` is asked about each step, in order."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._open: list[_Block] = []
        self._taken: list[str] = []
        self.told: list[Remark] = []

    def takes(self, number: int, action: str, *, known: bool) -> bool:
        """Whether the step belongs to a condition that is left out. `known`: the mapping has the action. Raises
        BadInput for an `else` whose condition is not known, and for a jump that is not left out."""
        kind = None if known else self._words.kind(action)
        was_inside = self._is_inside
        if kind in ("if", "loop"):
            self._open.append(_Block(number, action, kind))
        elif kind == "else" and not (self._open and self._open[-1].kind == "if"):
            raise BadInput(
                f"step {number} ({action}): has no condition before it, so one of two branches cannot be told"
            )
        elif kind == "jump" and not was_inside:
            raise BadInput(
                f"step {number} ({action}): jumps over steps, which cannot be carried over; take it out of the "
                "recording with the steps that it guards"
            )
        ends = self._open.pop() if kind == "end" and self._open else None
        if not was_inside and not self._is_inside:
            return False
        self._taken.append(action)
        if ends is not None and not self._is_inside:
            self._tell(ends)
        return True

    def check_ended(self) -> None:
        """Raises BadInput when a condition has no end: then nobody knows which steps it guards."""
        for block in self._open:
            if block.kind == "if":
                raise BadInput(
                    f"step {block.number} ({block.action}): is a condition that cannot be carried over, and has no "
                    "end; take it out of the recording with the steps that it guards"
                )

    @property
    def _is_inside(self) -> bool:
        return any(block.kind == "if" for block in self._open)

    def _tell(self, block: _Block) -> None:
        names = ", ".join((*self._taken[:_MOST_TOLD], *(["…"] if len(self._taken) > _MOST_TOLD else [])))
        text = f"a condition cannot be carried over, and all of it is left out: {len(self._taken)} steps ({names})"
        place = f"step {block.number} ({block.action})"
        self.told.append(Remark(f"{text}; write an if step in its place", place))
        self._taken = []


def is_flow_word(name: str) -> bool:
    """Whether an action begins, parts or ends branches or loops by its name."""
    return _kind(name) is not None


def _kind(name: str) -> Kind | None:
    plain, words = _plain(name), [word.lower() for word in _WORD.findall(name)]
    if plain in _WORDS or len(words) < 2:
        return _WORDS.get(plain)
    return "end" if words[0] == "end" and words[1] in _ENDS else _FIRST.get(words[0])


def _plain(name: str) -> str:
    """Without signs, and without the version that some recorders add: `if_v2`."""
    return re.sub(r"[^a-z]", "", re.sub(r"_v\d+$", "", name.lower()))
