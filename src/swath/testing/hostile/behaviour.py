"""What one behaviour is: its name, what it does, how an item ends that meets it, and the code that answers.

The modules beside this one define them by kind; table.py lists them all, site.py serves them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

import msgspec

from swath.domain.failure import FailureKind
from swath.testing.hostile.certificates import Proof
from swath.testing.hostile.exchange import Exchange

__all__ = ["Behaviour", "Door", "Respond", "always"]

Respond = Callable[[Exchange], Awaitable[None]]


class Door(StrEnum):
    """How the site is entered: what is spoken before the behaviour gets its turn."""

    PLAIN = "HTTP/1.1"
    SECURE = "HTTP/1.1 over TLS"
    HTTP2 = "HTTP/2 over TLS"
    BARE = "TLS expected"  # the behaviour speaks, or not, from the first byte on


class Behaviour(msgspec.Struct, frozen=True):
    """`kinds` are the failures that an item may end with; none means that there is a page."""

    name: str
    does: str
    kinds: tuple[FailureKind, ...]
    respond: Respond
    door: Door = Door.PLAIN
    proof: Proof = Proof.GOOD

    @property
    def ends_as(self) -> str:
        """In words of the table."""
        return " or ".join(f"`{kind}`" for kind in self.kinds) or "a page"


def always(*parts: bytes) -> Respond:
    """Sends the same bytes to everybody, then closes the connection."""
    raw = b"".join(parts)

    async def respond(exchange: Exchange) -> None:
        await exchange.send(raw)

    return respond
