"""Delays: the pause between two actions in a browser, as the site's policy wants it: people need a moment.

browser/session/hands.py draws one before it acts, and waits. From zero to zero switches them off.
"""

from __future__ import annotations

from random import Random

__all__ = ["delay_seconds"]


def delay_seconds(range_ms: tuple[int, int], draw: Random) -> float:
    """`range_ms` is the policy's `action_delay_ms`. Even over the range, both ends included."""
    return draw.uniform(*range_ms) / 1_000
