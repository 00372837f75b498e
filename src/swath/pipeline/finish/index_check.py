"""Checks the indexes of packs against what the items' own metadata says, a few of them in memory at a time.

Called by pack_check.py for each row: leases are slices of a job, so the rows of one come near each other.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from typing import Final

from swath.pipeline.finish.pack_index import index_document, index_key
from swath.pipeline.finish.report import Findings, ProblemCode
from swath.ports.result_storage import ResultStorage

__all__ = ["IndexCheck"]

_KEPT: Final = 8


class IndexCheck:
    """`expect` the lines of each item, then `end`."""

    def __init__(self, job_id: str, storage: ResultStorage) -> None:
        self._job_id = job_id
        self._storage = storage
        self._read: OrderedDict[int, frozenset[str]] = OrderedDict()
        self._listed: dict[int, int | None] = {}  # lines of each index; None where there is none
        self._expected: Counter[int] = Counter()
        self._lacking: Counter[int] = Counter()
        self._disordered: set[int] = set()
        self._unsure: set[int] = set()

    @property
    def fences(self) -> Collection[int]:
        """The leases that need an index, or may."""
        return self._listed.keys() | self._unsure

    def pass_over(self, fence: int) -> None:
        """An item of this lease cannot say what the index should have of it."""
        self._unsure.add(fence)

    async def expect(self, fence: int, lines: Sequence[str], findings: Findings) -> None:
        """The index of the lease must list these."""
        if not lines:
            return
        listed = await self._lines(fence, findings)
        self._expected[fence] += len(lines)
        self._lacking[fence] += sum(line not in listed for line in lines)

    def end(self, findings: Findings, *, exact: bool) -> None:
        """Notes the indexes that lack something or, if they are to be `exact`, have something besides."""
        for fence, listed in self._listed.items():
            if listed is None:
                continue
            expected, lacking = self._expected[fence], self._lacking[fence]
            if fence in self._disordered:
                message = "its lines are not in order, or the last one is cut off"
            elif lacking:
                message = f"it does not list {lacking} of {expected} pages as they lie there"
            elif exact and listed != expected and fence not in self._unsure:
                message = f"it lists {listed} pages, and the items have {expected}"
            else:
                continue
            findings.add(ProblemCode.ARTIFACT_CHANGED, index_key(fence), message)

    async def _lines(self, fence: int, findings: Findings) -> frozenset[str]:
        if fence in self._read:
            self._read.move_to_end(fence)
            return self._read[fence]
        try:
            document = await self._storage.get(self._job_id, index_key(fence))
        except KeyError:
            if fence not in self._listed:
                findings.add(ProblemCode.ARTIFACT_MISSING, index_key(fence), "the index of a pack is not there")
            self._listed[fence] = None
            return frozenset()
        lines = [f"{line}\n" for line in document.decode("utf-8", "replace").removesuffix("\n").split("\n")]
        if index_document(lines) != document:
            self._disordered.add(fence)
        self._listed[fence] = len(lines)
        self._read[fence] = frozenset(lines)
        if len(self._read) > _KEPT:
            self._read.popitem(last=False)
        return self._read[fence]
