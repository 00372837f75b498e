"""SiteState: what all workers share about a site: its rate, the open requests of each worker, its circuit.

It must survive the death of any process but not a power loss. A worker that dies or freezes blocks the others for at
most `SHARE_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.domain.token_bucket import RateSlice, TokenBucket

__all__ = [
    "LOCAL_SYNC",
    "REMOTE_SYNC",
    "SHARE_SECONDS",
    "CachedRobots",
    "SiteHold",
    "SiteShareGrant",
    "SiteShareRequest",
    "SiteSnapshot",
    "SiteState",
    "SyncIntervals",
]

SHARE_SECONDS: Final = 15.0  # a worker that has not asked for so long has no share in a site's concurrency any more


class SyncIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker is to speak with a book. What takes a while or costs money there is asked seldom, and in time.

    `parts`: instants are taken as parts of rounds. `lead_seconds`: so long before its instants end it asks for the
    next. It speaks again after `hurry_seconds` when it has something to give, `owed_seconds` when slots are owed to it,
    `report_seconds` while things change, and `calm_seconds` at the latest. While another worker's probe is under way,
    a job looks after `probe_seconds` at the latest whether it has ended.
    """

    parts: bool = False
    lead_seconds: float = 0.01
    hurry_seconds: float = 0.01
    owed_seconds: float = 0.05
    report_seconds: float = 0.1
    calm_seconds: float = 0.8
    probe_seconds: float = 1.0


LOCAL_SYNC: Final = SyncIntervals()  # on this machine: an answer within a millisecond, for nothing
REMOTE_SYNC: Final = SyncIntervals(
    parts=True,
    lead_seconds=0.3,
    hurry_seconds=0.1,
    owed_seconds=0.4,
    report_seconds=1.0,
    calm_seconds=2.0,
    probe_seconds=5.0,
)


class SiteShareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker wants of a site, under the limits that hold for it there.

    `requests`: so many it would send at once; 0 to ask for no instants. `part`: it wants its part of a round, and
    `requests` is how many it could send in a second. `ceiling`: it has no more requests open than this until the answer
    says otherwise. `demand`: requests it has open or waiting. `returned`: instants of its parts that it will not use.
    Without a `concurrency` there is no share in it to be had (the bucket of a job).
    """

    rate: float
    requests: int = 0
    part: bool = False
    quiet_seconds: float = 60.0
    concurrency: int | None = None
    ceiling: int = 0
    demand: int = 0
    returned: tuple[RateSlice, ...] = ()


class SiteShareGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Like the slots of a job (domain/lease.py): never more than `slots` open, and down to `target`.

    They hold for `share_seconds` after the question. `more` are further instants, between those of the `slice`; those
    of the next round begin at `round_end`. Instants before `halved_from` were reserved before the rate was last halved.
    """

    slice: RateSlice | None = None
    more: tuple[RateSlice, ...] = ()
    slots: int = 0
    target: int = 0
    share_seconds: float = SHARE_SECONDS
    round_end: float = 0.0
    halved_from: float = 0.0


class CachedRobots(msgspec.Struct, frozen=True):
    """A robots.txt as it was fetched. `status` 0: nobody has it yet, the caller is to fetch it. Unix seconds."""

    status: int
    body: bytes = b""
    fetched_at: float = 0.0


class SiteHold(msgspec.Struct, frozen=True):
    """Why items of a site wait, and until when on the boot clock, where its circuit and its hours do not say so."""

    why: str
    until: float


class SiteSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A site as people see it. A `hold` that is over means nothing."""

    name: str
    bucket: TokenBucket
    circuit: SiteCircuit
    open_requests: int = 0
    tier: str | None = None
    hold: SiteHold | None = None


class SiteState(Protocol):
    """Shared by all workers. Names of sites and of other buckets are the caller's; one that is new starts afresh.

    Any method may raise StoreUnavailable, but for `glance`.
    """

    @property
    def tempo(self) -> SyncIntervals:
        """How it is to be spoken with."""
        ...

    async def ask(self, name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        """Reserves the next instants (domain/bucket.py) and grants a share of the concurrency, in one commit.

        The slots of all workers never add up to more than the limit (bounded by the circuit's ramp too), or after it
        was lowered, to more than before. Instants are given for slots: without one there is no slice, and as long as
        others have a share too, no more than one for each. An ask with no demand gives the share up. A share ends
        SHARE_SECONDS after the last ask.

        Who asks for a part gets it once in a round (domain/site_round.py), and of what is spare later; there may be
        nothing to be had before the next round. Its share may end sooner, as the answer says.
        """
        ...

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> TokenBucket:
        """The site answered 429 or 503 to a request that was sent at `sent_at`, on the boot clock."""
        ...

    def glance(self, name: str) -> SiteCircuit:
        """The circuit as it stands, read at once on the event loop; as last seen when that is not possible."""
        ...

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> CircuitAdmission:
        """Whether anything may be sent, or one probe that must end within `probe_seconds` (domain/site_circuit.py)."""
        ...

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        """The probe of that epoch of the circuit says nothing of the site: the next one may be sent at once."""
        ...

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        """Counts outcomes of what was sent in that epoch of the circuit; True is a good one."""
        ...

    async def robots(self, origin: str, fetch_seconds: float) -> CachedRobots | None:
        """What is known of an origin's robots.txt. None: somebody else is fetching it, ask again soon.

        When it is not known or too old, one caller is told to fetch it (status 0), and for `fetch_seconds` nobody else.
        """
        ...

    async def keep_robots(self, origin: str, kept: CachedRobots, seconds: float) -> None:
        """Shares it with everybody for so many seconds; for none, when the fetch came to nothing."""
        ...

    async def forget(self, worker_ids: Collection[str]) -> None:
        """These workers are gone: their shares are free, and other workers may send the probes that they had begun."""
        ...

    async def remember_tier(self, name: str, tier: str) -> None:
        """The step of the proxy ladder on which this site was last reached."""
        ...

    async def hold(self, name: str, hold: SiteHold) -> None:
        """Tells people why items of the site wait. It changes nothing for workers."""
        ...

    async def states(self) -> Mapping[str, SiteSnapshot]:
        """All sites that anybody has met, for people to look at; buckets without a concurrency are none."""
        ...

    async def close(self) -> None:
        """Lets go of whatever it holds open."""
        ...
