"""What is left of a value where nothing could take its place: in other capitals, in an encoding that no filter writes
(`M%FCller`), a date written otherwise, or so short that it may be chance. People are told of it.

After: addresses.py, selectors.py and forms.py have replaced what they can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, unquote_plus

from swath.actions.importing.binding.dates import other_writings
from swath.actions.importing.binding.forms import Needle, Reach, bounded, literals_in

__all__ = ["is_left_in"]

_LAYERS: Final = 3
_MOST_WORDS: Final = 20
_BETWEEN: Final = r"[\W_]{0,3}"
_ENCODINGS: Final = ("utf-8", "latin-1")
_UNICODE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")
_JSON: Final = re.compile(r"\\([\"\\/])")


def is_left_in(text: str, needle: Needle) -> bool:
    """Whether somebody would recognise the value in the text, outside of references."""
    pattern = _recognised(needle)
    return any(pattern.search(one) for part in literals_in(text) for one in _decoded(part))


@lru_cache(maxsize=16)
def _recognised(needle: Needle) -> re.Pattern[str]:
    if needle.reach is Reach.WHOLE:
        letters = r"[^\W_]"
        is_telling = any(character.isalnum() for character in needle.literal)
        return re.compile(f"(?<!{letters}){re.escape(needle.literal)}(?!{letters})" if is_telling else "(?!)")
    told = [bounded(form, form.text) for form in needle.forms if form.reach is not Reach.WHOLE]
    words = re.findall(r"[^\W_]+", needle.literal)
    if 1 < len(words) <= _MOST_WORDS:  # with other marks between: `Smith, John` is also `SMITH JOHN`
        told.append(rf"(?<![^\W_]){_BETWEEN.join(words)}(?![^\W_])")
    dates = (one for one in other_writings(needle.literal) if not needle.is_other(one))
    told += [f"(?<![0-9]){re.escape(one)}(?![0-9])" for one in dates]
    return re.compile("|".join(told), re.IGNORECASE)


def _decoded(text: str) -> Iterator[str]:
    """The text, and all that it may be when it is read as a part of an address or as JSON, several times over."""
    seen, layer = {text}, {text}
    yield text
    for _ in range(_LAYERS):
        layer = {made for one in layer for made in _once(one)} - seen
        seen |= layer
        yield from sorted(layer)


def _once(text: str) -> Iterator[str]:
    if "%" in text or "+" in text:
        for encoding in _ENCODINGS:
            yield unquote(text, encoding)
            yield unquote_plus(text, encoding)
    if "\\" in text:
        yield _JSON.sub(r"\1", _UNICODE.sub(lambda escape: chr(int(escape[1], 16)), text))
