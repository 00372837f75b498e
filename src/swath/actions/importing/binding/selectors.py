"""Recorded data in selectors: what names an element by it is dropped where another alternative stays, and else holds
the input.

In quotes, as the value of an attribute, the input can stand in CSS and XPath, and finds just the element that is meant.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from swath.actions.importing.binding.forms import Needle, Reach
from swath.actions.importing.binding.residue import is_left_in
from swath.actions.language.selector import Chain, Selectors, part_of

__all__ = ["InSelectors", "bound_selectors"]

_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_ESCAPE: Final = re.compile(r"\\(?:(?P<code>[0-9a-fA-F]{1,6})\s?|(?P<self>.))", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<mark>[#.])(?P<name>(?:\\[0-9a-fA-F]{1,6}\s?|\\.|[\w-]|[^\x00-\x7f])+)")
_ROLE: Final = re.compile(r"\[role=\"[^\"]*\"\]$")
_ATTRIBUTE: Final = {"#": "id=", ".": "class~="}
_LAST_CODE: Final = 0x10FFFF


class InSelectors(msgspec.Struct, frozen=True):
    """`on`: what is left, None if nothing is; `dropped`: alternatives; `bound`: whether the input stands in it; `left`:
    one that holds something like the value, which no input can write."""

    on: Selectors | None
    dropped: tuple[str, ...] = ()
    bound: bool = False
    left: str | None = None


def bound_selectors(on: Selectors, needle: Needle, *, may_hold: bool = True) -> InSelectors | None:
    """None when no alternative holds the value. `may_hold`: the input may stand in a selector; not so in rules of
    extraction, which are read years later without one."""
    holding = [chain for chain in on if any(_holds(part, needle) for part in chain)]
    alike = [chain for chain in on if chain not in holding and any(_is_like(part, needle) for part in chain)]
    if not holding and not alike:
        left = _perhaps(on, needle)
        return None if left is None else InSelectors(on, left=left)
    safe = {chain: made for chain in holding if may_hold and (made := _in_quotes(chain, needle)) is not None}
    stay = tuple(safe.get(chain, chain) for chain in on if chain not in (*holding, *alike) or chain in safe)
    if stay:
        dropped = tuple(" > ".join(chain) for chain in (*holding, *alike) if chain not in safe)
        return InSelectors(stay, dropped, bool(safe), _perhaps(stay, needle))
    if needle.reach is Reach.WHOLE:
        return InSelectors(on, left=" > ".join((*holding, *alike)[0]))
    everywhere = [_anywhere(chain, needle) for chain in holding] if may_hold else []
    kept = tuple(chain for chain in everywhere if chain is not None)
    if kept or not alike:
        return InSelectors(kept or None, tuple(" > ".join(chain) for chain in alike), bound=bool(kept))
    return InSelectors(tuple(alike), tuple(" > ".join(chain) for chain in holding), left=" > ".join(alike[0]))


def _perhaps(on: Selectors, needle: Needle) -> str | None:
    """The first alternative that may name an element by a short value: `#row-7`, but not `td:nth-child(7)`."""
    if needle.reach is not Reach.WHOLE:
        return None
    return next((" > ".join(chain) for chain in on if any(_may_name_by(part, needle) for part in chain)), None)


def _may_name_by(text: str, needle: Needle) -> bool:
    kind, value = part_of(text)
    if kind in ("text", "aria"):
        return is_left_in(_ROLE.sub("", value), needle)
    named = [one["name"] for one in _NAMED.finditer(_QUOTED.sub("", value))] if kind != "xpath" else []
    return any(is_left_in(_unescaped(one), needle) for one in [*_QUOTED.findall(value), *named])


def _is_like(text: str, needle: Needle) -> bool:
    """Whether a person would recognise the value in it: in other capitals, or encoded in an address."""
    kind, value = part_of(text)
    if needle.reach is Reach.WHOLE:
        return False
    read = [value] if kind in ("text", "aria") else _QUOTED.findall(_unescaped(value) if kind != "xpath" else value)
    return any(is_left_in(one, needle) for one in read)


def _holds(text: str, needle: Needle) -> bool:
    kind, value = part_of(text)
    if needle.reach is Reach.WHOLE:
        return kind in ("text", "aria") and _ROLE.sub("", value).strip() == needle.literal
    return bool(needle.find(value) or (kind in ("css", "pierce") and needle.find(_unescaped(value))))


def _in_quotes(chain: Chain, needle: Needle) -> Chain | None:
    """The chain with the input in it, if all that it holds stands in quotes of CSS or XPath."""
    made = []
    for text in chain:
        if not _holds(text, needle):
            made.append(text)
            continue
        if part_of(text).kind in ("text", "aria"):
            return None
        inside = _QUOTED.sub(lambda quoted: needle.replaced(quoted[0]) or quoted[0], text)
        if "\\" in text or _holds(_QUOTED.sub('""', text), needle):
            return None
        made.append(inside)
    return tuple(made)


def _anywhere(chain: Chain, needle: Needle) -> Chain | None:
    """The chain with the input in it, wherever that is; None when there is no way."""
    made = []
    for text in chain:
        css = part_of(text).kind in ("css", "pierce")
        new = _in_css(text, needle) if css else needle.replaced(text) or text
        if new is None:
            return None
        made.append(new)
    return tuple(made)


def _in_css(text: str, needle: Needle) -> str | None:
    made = ""
    for piece in re.split(f"({_QUOTED.pattern})", text):
        new = piece if _QUOTED.fullmatch(piece) else _NAMED.sub(lambda one: _as_attribute(one, needle), piece)
        if "\\" in new and needle.find(_unescaped(new)):
            return None
        made += needle.replaced(new) or new
    return made


def _as_attribute(named: re.Match[str], needle: Needle) -> str:
    """`#\\32 00-14-030` says the same as `[id="200-14-030"]`, in which an input can stand."""
    made = needle.replaced(_unescaped(named["name"]))
    return named[0] if made is None else f'[{_ATTRIBUTE[named["mark"]]}"{made}"]'


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _character(escape["code"]) if escape["code"] else escape["self"], text)


def _character(code: str) -> str:
    number = int(code, 16)
    return chr(number) if 0 < number <= _LAST_CODE and not 0xD800 <= number <= 0xDFFF else "\ufffd"
