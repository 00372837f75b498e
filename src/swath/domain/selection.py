"""Selection: which items of an ended job run again as a new generation (J5)."""

from __future__ import annotations

import msgspec

from swath.domain.failure import FailureKind
from swath.domain.transitions import ItemState

__all__ = ["Selection"]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Items that fit any of the first four; `since` narrows them to what ended then or later.

    `since` alone takes everything that ended then or later, successes too. `not_run` is what was cancelled.
    """

    failed: bool = False
    kinds: frozenset[FailureKind] = frozenset()
    not_run: bool = False
    item_ids: frozenset[str] = frozenset()
    since: float | None = None

    @property
    def by_kind(self) -> bool:
        """Whether anything but the time decides."""
        return bool(self.failed or self.kinds or self.not_run or self.item_ids)

    @property
    def empty(self) -> bool:
        """Whether nothing was asked for."""
        return not self.by_kind and self.since is None

    def takes(self, item_id: str, state: ItemState, kind: FailureKind | None, ended_at: float) -> bool:
        """Whether an ended item is among them. `ended_at` in Unix seconds, as the store wrote its end."""
        if self.since is not None and ended_at < self.since:
            return False
        if not self.by_kind:
            return self.since is not None
        return (
            (self.failed and state is ItemState.FAILED)
            or (state is ItemState.FAILED and kind in self.kinds)
            or (self.not_run and state is ItemState.CANCELLED)
            or item_id in self.item_ids
        )
