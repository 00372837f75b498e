"""What each item of a chaos job must end as, derived from its id. The scraper and the checker use it; the product does
not.
"""

from __future__ import annotations

import hashlib
import html
from enum import StrEnum
from typing import Any, Final

__all__ = ["ENDS", "Fate", "fate", "item_ids", "page", "record", "wait_factor"]


class Fate(StrEnum):
    """What the site does with an item."""

    FOUND = "found"
    FLAKY = "flaky"  # found, but every process fails at it once
    NOT_FOUND = "not_found"
    BROKEN = "broken"  # fails for good at once
    HOPELESS = "hopeless"  # fails after retries


# Fate: (state, outcome, kind of failure)
ENDS: Final[dict[Fate, tuple[str, str | None, str | None]]] = {
    Fate.FOUND: ("success", "found", None),
    Fate.FLAKY: ("success", "found", None),
    Fate.NOT_FOUND: ("success", "not_found", None),
    Fate.BROKEN: ("failed", None, "layout_changed"),
    Fate.HOPELESS: ("failed", None, "server_error"),
}

_SHARES: Final = ((76, Fate.FOUND), (88, Fate.FLAKY), (93, Fate.NOT_FOUND), (97, Fate.BROKEN), (100, Fate.HOPELESS))


def item_ids(items: int) -> list[str]:
    """Plain ids, and one in ninety-seven that is not safe as a file name."""
    return [f"item/{n:06} & Söhne" if n % 97 == 0 else f"item-{n:06}" for n in range(1, items + 1)]


def _luck(item_id: str, what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{what}:{item_id}".encode()).digest()[:4], "big")


def fate(item_id: str) -> Fate:
    """Always the same for an id."""
    luck = _luck(item_id, "fate") % 100
    return next(fate for below, fate in _SHARES if luck < below)


def wait_factor(item_id: str) -> float:
    """How long the item takes, as a multiple of the mean: 0.5 to 1.5."""
    return 0.5 + _luck(item_id, "wait") / 2**32


def page(item_id: str) -> bytes:
    """The page of an item; small ones are stored plain, the others compressed."""
    filler = hashlib.shake_128(item_id.encode()).hexdigest(_luck(item_id, "size") % 3_000)
    digest = hashlib.sha256(filler.encode()).hexdigest()
    name = html.escape(item_id)
    return f'<html><h1>{name}</h1><p id="digest">{digest}</p><pre>{filler}</pre></html>\n'.encode()


def record(item_id: str) -> dict[str, Any]:
    """The record that is read from the page."""
    filler = page(item_id).partition(b"<pre>")[2].partition(b"</pre>")[0]
    return {"name": item_id, "digest": hashlib.sha256(filler).hexdigest(), "size": len(filler)}
