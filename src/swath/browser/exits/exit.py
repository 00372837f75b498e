"""Exit: the way out of one browser context: a port on loopback past which nothing of it gets.

Every connection is checked by the same guard as all others, goes by the route of its site, and is counted.
"""

from __future__ import annotations

from typing import Final, Protocol

from swath.domain.failure import Failure
from swath.proxies.route import Route

__all__ = ["EXIT_HEADER", "Exit", "Way"]

EXIT_HEADER: Final = "x-swath-exit"  # on answers that are the exit's own, with its token: a site cannot make one up


class Way(Protocol):
    """Which way out the requests of an attempt take; web/passage.py says it."""

    def route(self, url: str) -> Route | None:
        """That of the address's site; None: straight. Raises Failed when there is none."""
        ...


class Exit(Protocol):
    """One per context. What is counted and remembered is of the present attempt, which `serve` begins."""

    @property
    def port(self) -> int:
        """Where the browser finds it."""
        ...

    @property
    def token(self) -> str:
        """What EXIT_HEADER says on an answer that is not the site's; another one for each attempt."""
        ...

    @property
    def sent_bytes(self) -> int:
        """To sites and proxies."""
        ...

    @property
    def received_bytes(self) -> int:
        """From them."""
        ...

    @property
    def requests(self) -> int:
        """Plain requests and tunnels."""
        ...

    def serve(self, way: Way | None, most_bytes: int) -> None:
        """From now on connections are of this attempt; those of the last one are closed. None: nothing may leave."""
        ...

    def trouble(self, url: str) -> Failure | None:
        """What last went wrong on the way to the address's host, if anything did; told once."""
        ...

    @property
    def overrun(self) -> Failure | None:
        """Too large: more has come than an attempt may take, and nothing more comes."""
        ...
