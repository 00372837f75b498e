"""Leader: which process of a fleet does what one of them has to do for all. Asked by pipeline/dispatch/sweeper.py.

Nothing depends on there being only one: a moment with two leaders, or none, costs a few requests, or time.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Leader"]


class Leader(Protocol):
    """One candidate's view. Any method may raise StoreUnavailable."""

    async def lead(self) -> bool:
        """Whether this process leads now. Asked every few seconds: it takes the lead when nobody has it, and keeps it
        by asking; one that stops asking has lost it after the length of a lease."""
        ...

    async def resign(self) -> None:
        """Lets somebody else lead, soon. Nothing happens to one who does not."""
        ...
