"""Another policy, made of the one that a job has: read, decided, and stored only if nobody was faster.

Before: a person or a program says what is to be different. After: workers learn of it with their next word.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from swath.domain.errors import Outdated

__all__ = ["settled"]

T = TypeVar("T")

_TRIES: Final = 20  # with the pauses between them some two seconds
_PAUSE_SECONDS: Final = (0.005, 0.2)


async def settled(change: Callable[[], Awaitable[T]]) -> T:
    """Lets `change` read, decide and store anew while others are faster. Raises Outdated when they always are."""
    for tries in range(_TRIES - 1):
        with suppress(Outdated):
            return await change()
        await asyncio.sleep(_pause_seconds(tries))
    return await change()


def _pause_seconds(tries: int) -> float:
    """Of some length between nothing and ever more, so that those who met do not meet again."""
    first, most = _PAUSE_SECONDS
    return random.uniform(0, min(first * 2**tries, most))  # noqa: S311 no secret
