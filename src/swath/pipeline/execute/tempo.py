"""Tempo: how often a worker speaks to the store about one job, over all its leases of that job. Pure.

Where many workers share a job their commits wait for each other; who waits longer gathers longer, so that the queue
stays short whatever the number of workers. Before: committer.py tells how long a word took. After: it asks when to
speak next.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Tempo"]

HUNGRY_SECONDS: Final = 0.05  # between words to the store while it owes us slots, or a part of the group time
HUNGRY_PART: Final = 0.25
EAGER_WORDS: Final = 4  # in vain, before we become patient: by then others have ended an item, if items are short
PATIENT_TIMES: Final = 8.0  # as long, at most, when asking has brought nothing
HUNGRY_WORDS: Final = 3.0  # and no more often than in so many times what a word takes
WORDS: Final = (
    12.0  # a group is gathered for so many times what a word takes, so that some 1/12 of the time is spent waiting
)
LEASE_PART: Final = 1.0 / 6.0  # of a lease's time, the longest between two words
NEWEST_PART: Final = 0.3  # of the average is the last word


class Tempo:
    """`group_seconds` and `report_seconds` as configured are the shortest, while the store answers at once."""

    def __init__(self) -> None:
        self._word_seconds = 0.0
        self._in_vain = 0

    def took(self, seconds: float) -> None:
        """A word was answered after so long, all waiting included."""
        self._word_seconds += NEWEST_PART * (seconds - self._word_seconds)

    def asked(self, *, in_vain: bool) -> None:
        """The store owed us slots, and has given some or none."""
        self._in_vain = min(self._in_vain + 1, 10) if in_vain else 0

    def gather_seconds(self, shortest: float, lease_seconds: float) -> float:
        """How long an end waits for others, or the next report for an end."""
        return max(shortest, min(WORDS * self._word_seconds, LEASE_PART * lease_seconds))

    def hungry_seconds(self, group_seconds: float, lease_seconds: float) -> float:
        """How long to wait before the store is asked again for slots that it owes us."""
        first = max(HUNGRY_SECONDS, HUNGRY_PART * group_seconds)
        patient = first * min(PATIENT_TIMES, 2.0 ** max(0, self._in_vain - EAGER_WORDS))
        return max(patient, min(HUNGRY_WORDS * self._word_seconds, LEASE_PART * lease_seconds))
