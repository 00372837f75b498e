"""JSON as items may hold it: what two readers could understand differently is refused, not guessed.

Comes before: json_rows.py, which reads rows with it, and the bodies of the API.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final

from swath.domain.explain import shown

__all__ = ["DECODER", "VALUES_LIMIT", "Refused", "depth_of", "has_half_a_pair", "has_more_values"]

VALUES_LIMIT: Final = 10_000  # of one item: a model that refuses them all must not take long to say so


class Refused(ValueError):
    """Well-formed, and still nothing that an item may hold."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise Refused(f"has the key {shown(twice)} twice")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Refused(f"has a number that is too large ({text[:20]}); write it as text")
    return number


def _whole(text: str) -> int:
    if len(text) > 40:  # beyond what any back end stores as a number
        raise Refused(f"has a number of {len(text)} digits; write it as text")
    return int(text)


def _constant(text: str) -> None:
    raise Refused(f"has {text}, which is not JSON; write null or text")


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_int=_whole, parse_constant=_constant
)


def depth_of(value: object) -> int:
    """How deep lists and objects are nested."""
    depth, level = 0, [value]
    while level := [inner for outer in level for inner in _inside(outer)]:
        depth += 1
    return depth


def has_more_values(value: object, limit: int) -> bool:
    """Whether all lists and objects in it have more values than that, together. Looks no further than it must."""
    found, level = 0, [value]
    while level:
        found += sum(len(one) for one in level if isinstance(one, dict | list))
        if found > limit:
            return True
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
    return False


def has_half_a_pair(value: object) -> bool:
    """Whether a text in it, or a key, has half of a surrogate pair, which is no character."""
    level = [value]
    while level:
        for one in level:
            if isinstance(one, str) and not one.isascii() and not _is_text(one):
                return True
        keys = [key for one in level if isinstance(one, dict) for key in one]
        level = [*keys, *(inner for outer in level for inner in _inside(outer))]
    return False


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
