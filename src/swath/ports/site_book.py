"""SiteBook: what all workers know together of a site: its rate, who may have how many requests open, its circuit.

Asked by sites/ before requests are sent. Nothing in it has to survive a power loss, only every process; a worker that
dies or freezes leaves nothing behind that holds the others up for longer than `SHARE_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from swath.domain.bucket import Bucket, Slice
from swath.domain.site import Breaker
from swath.domain.site_circuit import Admission, SiteCircuit

__all__ = ["SHARE_SECONDS", "Ask", "KeptRobots", "SiteBook", "SiteState", "Terms"]

SHARE_SECONDS: Final = 15.0  # a worker that has not asked for so long has no share in a site's concurrency any more


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker wants of a site, under the limits that hold for it there.

    `requests`: so many it would send at once; 0 to ask for no instants. `ceiling`: it has no more requests open than
    this until the answer says otherwise. `demand`: requests it has open or waiting. Without a `concurrency` there is
    no share in it to be had (the bucket of a job).
    """

    rate: float
    requests: int = 0
    quiet_seconds: float = 60.0
    concurrency: int | None = None
    ceiling: int = 0
    demand: int = 0


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Like the slots of a job (domain/lease.py): never more than `slots` open, and down to `target`."""

    slice: Slice | None = None
    slots: int = 0
    target: int = 0


class KeptRobots(msgspec.Struct, frozen=True):
    """A robots.txt as it was fetched. `status` 0: nobody has it yet, the caller is to fetch it. Unix seconds."""

    status: int
    body: bytes = b""
    fetched_at: float = 0.0


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """A site as people see it."""

    name: str
    bucket: Bucket
    circuit: SiteCircuit
    open_requests: int = 0
    tier: str | None = None


class SiteBook(Protocol):
    """Shared by all workers. Names of sites and of other buckets are the caller's; one that is new starts afresh.

    Any method may raise StoreUnavailable, but for `glance`.
    """

    async def ask(self, name: str, worker_id: str, ask: Ask) -> Terms:
        """Reserves the next instants (domain/bucket.py) and grants a share of the concurrency, in one commit.

        The slots of all workers never add up to more than the limit (bounded by the circuit's ramp too), or after it
        was lowered, to more than before. Instants are given for slots: without one there is no slice, and as long as
        others have a share too, no more than one for each. An ask with no demand gives the share up. A share ends
        SHARE_SECONDS after the last ask.
        """
        ...

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> Bucket:
        """The site answered 429 or 503 to a request that was sent at `sent_at`, on the boot clock."""
        ...

    def glance(self, name: str) -> SiteCircuit:
        """The circuit as it stands, read at once on the event loop; as last seen when that is not possible."""
        ...

    async def admit(self, name: str, breaker: Breaker, probe_seconds: float) -> Admission:
        """Whether anything may be sent, or one probe that must end within `probe_seconds` (domain/site_circuit.py)."""
        ...

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        """Counts outcomes of what was sent in that epoch of the circuit; True is a good one."""
        ...

    async def robots(self, origin: str, fetch_seconds: float) -> KeptRobots | None:
        """What is known of an origin's robots.txt. None: somebody else is fetching it, ask again soon.

        When it is not known or too old, one caller is told to fetch it (status 0), and for `fetch_seconds` nobody else.
        """
        ...

    async def keep_robots(self, origin: str, kept: KeptRobots, seconds: float) -> None:
        """Shares it with everybody for so many seconds; for none, when the fetch came to nothing."""
        ...

    async def forget(self, worker_ids: Collection[str]) -> None:
        """These workers are gone: their shares are free."""
        ...

    async def remember_tier(self, name: str, tier: str) -> None:
        """The step of the proxy ladder on which this site was last reached."""
        ...

    async def states(self) -> Mapping[str, SiteState]:
        """All sites that anybody has met, for people to look at; buckets without a concurrency are none."""
        ...

    async def close(self) -> None:
        """Lets go of whatever it holds open."""
        ...
