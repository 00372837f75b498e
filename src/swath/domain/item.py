"""Item: one input of a job, as it is loaded and as it is shown."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from swath.domain.attempt import Attempt, Ended, Finding, Tries
from swath.domain.failure import Failure
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState

__all__ = ["ITEM_ID_LIMIT", "Item", "ItemFilter", "ItemRecord", "PastEnd", "derive_item_id"]

ITEM_ID_LIMIT = 1_000  # characters; keys stay below every file system's limits by splitting


class Item(msgspec.Struct, frozen=True, gc=False):
    """One input on its way into a job. `seq` is the number of its row in the source, from 1, gaps allowed."""

    seq: int
    item_id: str
    input: dict[str, Any]


class PastEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an item ended in an earlier generation. `ended_at` in Unix seconds."""

    generation: int
    ended_at: float
    end: Ended


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that the store knows of an item. `not_before` is in Unix seconds and set only while it waits.

    `generation` and `ended_at` are those of its end, once it has ended. `earlier` are its ends in generations before
    the one it is in now, the oldest first; only a look at a single item has them.
    """

    seq: int
    item_id: str
    input: dict[str, Any]
    state: ItemState
    fence: int = 0
    finding: Finding | None = None
    failure: Failure | None = None
    reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tries: Tries = Tries()
    not_before: float | None = None
    scraper_version: str = ""
    generation: int = 0
    ended_at: float | None = None
    suspect: bool = False
    earlier: tuple[PastEnd, ...] = ()


class ItemFilter(msgspec.Struct, frozen=True):
    """Which items somebody wants to see: those in `state`, and those that ended by `kind` of failure, as far as given.

    `kind` may be `not_found`, too.
    """

    state: ItemState | None = None
    kind: str | None = None

    def takes(self, record: ItemRecord) -> bool:
        """Whether the item is among them."""
        if self.state is not None and record.state is not self.state:
            return False
        found = record.failure.kind.value if record.failure is not None else record.finding
        return self.kind is None or (record.state.terminal and found == self.kind)


def derive_item_id(input_: dict[str, Any]) -> str:
    """Names an item after its input: the value itself when there is one plain field, else a hash of the whole."""
    if len(input_) == 1:
        (value,) = input_.values()
        if isinstance(value, (str, int)) and not isinstance(value, bool) and 0 < len(str(value)) <= ITEM_ID_LIMIT:
            return str(value)
    canonical = msgspec.json.encode(input_, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:20]
