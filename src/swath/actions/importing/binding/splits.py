"""A recorded value that was typed into several boxes, or stands in several parts of an address: `200`, `14`, `030`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from swath.actions.importing.binding.forms import Needle, Parts

__all__ = ["splits_in"]

_LEAST_CHARACTERS: Final = 4
_MOST_PIECES: Final = 12


def splits_in(texts: Sequence[str], needle: Needle) -> dict[int, Parts]:
    """What stands for which text: for each run of two or more whose letters and digits make up the value. What is the
    value of another input is left to that one, whether it stands in the run or only between its pieces."""
    others = {at for at, text in enumerate(texts) if needle.is_other(text)}
    found = {at: parts for at, parts in _all_in(texts, needle).items() if at not in others}
    if found or not others:
        return found
    apart = [at for at in range(len(texts)) if at not in others]
    return {apart[number]: parts for number, parts in _all_in([texts[at] for at in apart], needle).items()}


def _all_in(texts: Sequence[str], needle: Needle) -> dict[int, Parts]:
    found: dict[int, Parts] = {}
    if len(needle.stripped) < _LEAST_CHARACTERS or not needle.can_be_cut:
        return found
    at = 0
    while at < len(texts):
        run = next(_runs(texts, at, needle), ())
        for number, text in enumerate(run):
            found[at + number] = needle.pieced(text, sum(map(_length, run[:number])))
        at += len(run) or 1
    return found


def _runs(texts: Sequence[str], start: int, needle: Needle) -> Iterator[Sequence[str]]:
    """Those that begin at `start`; each text as recorded, or all of it in capitals or in small letters."""
    for wanted in dict.fromkeys((needle.stripped, needle.stripped.upper(), needle.stripped.lower())):
        if len(wanted) != len(needle.stripped):
            continue
        at = 0
        for end in range(start, min(len(texts), start + _MOST_PIECES)):
            piece = _stripped(texts[end])
            if not piece or not wanted.startswith(piece, at):
                break
            at += len(piece)
            if at == len(wanted) and end > start:
                yield texts[start : end + 1]


def _stripped(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _length(text: str) -> int:
    return len(_stripped(text))
