"""The one table of state changes: which moves items and jobs may make.

Every back end calls `check_item` or `check_job` before it writes a state. `python -m swath.domain.transitions`
prints
the diagram in docs/explanation/states.md, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

__all__ = ["ITEM_MOVES", "JOB_MOVES", "ItemState", "JobState", "check_item", "check_job", "diagram"]


class ItemState(StrEnum):
    """`pending` until it has a slot, `queued` until its first request, `in_progress` until it ends."""

    PENDING = "pending"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the item has ended in this generation."""
        return self in _ITEM_ENDS


class JobState(StrEnum):
    """`loading` until its items are all in; terminal only after its manifest balances."""

    LOADING = "loading"
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended in this generation."""
        return self in _JOB_ENDS


_I, _J = ItemState, JobState
_JOB_ENDS: Final = frozenset({_J.COMPLETED, _J.PARTIALLY_COMPLETED, _J.FAILED, _J.CANCELLED})
_ITEM_ENDS: Final = frozenset({_I.SUCCESS, _I.FAILED, _I.SKIPPED, _I.CANCELLED})

# From queued and in_progress an item goes back to pending to wait for a retry, or when its worker dies or stops.
# A stored item is `pending` until it ends, and its lease says the rest, so every end is reachable from pending too.
# From an end the only way is a new generation: a retry makes the item pending again.
ITEM_MOVES: Final[Mapping[ItemState, frozenset[ItemState]]] = {
    _I.PENDING: frozenset({_I.QUEUED, *_ITEM_ENDS}),
    _I.QUEUED: frozenset({_I.IN_PROGRESS, _I.PENDING, *_ITEM_ENDS}),
    _I.IN_PROGRESS: frozenset({_I.PENDING, _I.SUCCESS, _I.FAILED, _I.SKIPPED}),
    **{end: frozenset({_I.PENDING}) for end in ItemState if end in _ITEM_ENDS},
}

JOB_MOVES: Final[Mapping[JobState, frozenset[JobState]]] = {
    _J.LOADING: frozenset({_J.PENDING, _J.CANCELLED}),
    _J.PENDING: frozenset({_J.RUNNING, _J.PAUSED, _J.FAILED, _J.CANCELLED}),  # failed: its circuit opened first
    _J.RUNNING: frozenset({_J.PAUSED, *_JOB_ENDS}),
    _J.PAUSED: frozenset({_J.RUNNING, _J.PENDING, *_JOB_ENDS}),  # its last running items may end all there is
    **{end: frozenset({_J.PENDING}) for end in JobState if end in _JOB_ENDS},  # a retry: the next generation
}


def check_item(old: ItemState, new: ItemState) -> None:
    """Raises ValueError on an illegal move: reaching it is a bug of the caller."""
    if new not in ITEM_MOVES[old]:
        raise ValueError(f"an item cannot go from {old} to {new}")


def check_job(old: JobState, new: JobState) -> None:
    """Raises ValueError on an illegal move: reaching it is a bug of the caller."""
    if new not in JOB_MOVES[old]:
        raise ValueError(f"a job cannot go from {old} to {new}")


def diagram() -> str:
    """Both tables as Mermaid state diagrams, in Markdown."""
    parts = []
    tables: tuple[tuple[str, Mapping[ItemState, frozenset[ItemState]] | Mapping[JobState, frozenset[JobState]]], ...]
    tables = (("Item", ITEM_MOVES), ("Job", JOB_MOVES))
    for title, moves in tables:
        lines = [f"    {old} --> {new}" for old, news in moves.items() for new in sorted(news)]
        lines += [f"    {old} --> [*]" for old in moves if old.terminal]
        parts.append("\n".join([f"## {title}", "", "```mermaid", "stateDiagram-v2", *lines, "```", ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    print(diagram())  # noqa: T201 the output of this command
