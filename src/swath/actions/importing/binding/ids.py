"""The id of a recording without the value: it was made of a title, so that accents are gone and marks are dashes."""

from __future__ import annotations

import re
from typing import Final

from swath.actions.importing.assembling import slug
from swath.actions.importing.binding.forms import Form, Needle, Reach

__all__ = ["bound_id"]

_BEFORE: Final = "x "  # a slug is never empty, but of a value in other scripts nothing is left
_MOST_CHARS: Final = 100


def bound_id(old: str, needle: Needle) -> str:
    """The name of the input stands where the value was."""
    at, made = 0, ""
    for start, end, _ in needle.find(old):
        made, at = f"{made}{old[at:start]}{needle.name}", end
    made += old[at:]
    folded = slug(_BEFORE + needle.literal)[len(_BEFORE) :]
    if Form(folded).reach is not Reach.WHOLE:
        made = re.sub(f"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])", needle.name, made)
    return made if made == old else made.lstrip("._-")[:_MOST_CHARS]
