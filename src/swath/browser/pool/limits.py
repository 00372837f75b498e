"""Limits: how many browsers and places a pool has, and when a browser is due to be replaced: a pure decision.

From the settings; member.py asks for each browser, and pool.py acts on the answer.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["PoolOptions", "Use", "why_due"]

MIB: Final = 1 << 20


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`concurrency` is how many places there are in all; as many as browsers unless it is said. From `most_pages` on:
    when a browser is replaced. `look_seconds` is how often memory, age and pulse are looked at."""

    browsers: int = 2
    concurrency: int | None = None
    acquire_seconds: float = 10.0
    check_seconds: float = 9.0
    most_pages: int = 100
    most_memory_bytes: int = 1 << 30
    most_age_seconds: float = 1_800.0
    look_seconds: float = 5.0
    sweep_seconds: float = 60.0
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 60.0
    close_seconds: float = 20.0

    @property
    def places(self) -> int:
        """In all."""
        return self.concurrency or self.browsers

    @property
    def places_each(self) -> int:
        """In one browser, at most."""
        return -(-self.places // self.browsers)


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """How much a browser has been used: `pages` it has served, and `in_use` places, each good for one more."""

    pages: int
    in_use: int
    memory_bytes: int
    age_seconds: float


def why_due(options: PoolOptions, use: Use) -> str | None:
    """Why it takes nobody any more, in words; None while it does. Places in use count as the page that each will load,
    so that several at a time do not carry it past its limit."""
    if use.pages + use.in_use >= options.most_pages:
        return f"{options.most_pages} pages"
    if use.memory_bytes >= options.most_memory_bytes:
        return f"{use.memory_bytes // MIB} MiB"
    if use.age_seconds >= options.most_age_seconds:
        return f"{use.age_seconds / 60:.0f} min of age"
    return None
