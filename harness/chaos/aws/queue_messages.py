"""What became of the queue messages of a run, from the notes of all processes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.chaos.findings import Findings, Kind

__all__ = ["Messages", "injected"]


@dataclass(frozen=True, kw_only=True)
class Messages:
    """`lost`, `doubled` and `late` on their way to the queue; `repeated` and `reordered` on their way to a worker."""

    sent: int
    lost: int
    doubled: int
    late: int
    received: int
    repeated: int
    reordered: int
    lost_deletes: int

    @classmethod
    def of(cls, faults: Counter[str]) -> Messages:
        """From what was injected."""
        return cls(
            sent=faults["messages sent"],
            lost=faults["lost"],
            doubled=faults["duplicated"],
            late=faults["late"],
            received=faults["messages received"],
            repeated=faults["repeated"],
            reordered=faults["reordered"],
            lost_deletes=faults["lost_delete"],
        )

    def judge(self, findings: Findings) -> None:
        """A run without any has shown nothing about them."""
        for what, count in (("lost", self.lost), ("doubled", self.doubled)):
            findings.expect(count > 0, Kind.WRONG, "messages", f"none of {self.sent:,} was {what}: nothing is shown")


def injected(folder: Path) -> Counter[str]:
    """By all processes together; of one that was killed up to its last half second."""
    total: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        total.update(json.loads(file.read_text(encoding="ascii")))
    return total
