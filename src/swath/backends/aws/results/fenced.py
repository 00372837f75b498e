"""Documents that only the holder of a lease may write: manifests, written by whoever ends a job.

S3 cannot rename, so each document is written at its key on a condition. An object notes the fence of the lease that
wrote it; a holder reads the object's entity tag and fence, gives up when the fence is later than its own, and writes
with `If-Match` (or `If-None-Match` where there is none). S3 checks the condition and writes in one step: a holder that
was stopped between reading and writing, and has lost its lease, finds another object and reads again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from swath.backends.aws.results.files import File, Files
from swath.backends.aws.results.objects import Objects, all_ended
from swath.domain.errors import LeaseLost, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.observe.crash_points import reach

__all__ = ["FencedDocuments"]

_FENCE: Final = "swath-fence"  # in the object's metadata
_MOST_TRIES: Final = 20  # each follows a write of somebody else, or a lost answer


class FencedDocuments:
    """Jobs are given by their folder."""

    def __init__(self, objects: Objects, files: Files) -> None:
        self._objects = objects
        self._files = files

    async def put(self, job: str, fence: int, files: Sequence[File]) -> None:
        """Writes all of them. The first one shows whether they are likely to be new, which saves reading their tags.

        Raises LeaseLost when a later lease wrote one of them.
        """
        if not files:
            return
        first, *rest = files
        new = await self._put(job, fence, first, try_new=True)
        await all_ended([self._put(job, fence, file, try_new=new) for file in rest])

    async def replace(self, job: str, fence: int, files: Sequence[File]) -> None:
        """The same, only for those that are there."""
        await all_ended([self._put(job, fence, file, try_new=False, only_present=True) for file in files])

    async def _put(self, job: str, fence: int, file: File, *, try_new: bool, only_present: bool = False) -> bool:
        """Whether it was new, and was tried as such."""
        path, headers = await self._files.named(job, file), self._files.headers(file) | {_FENCE: str(fence)}
        if try_new:
            reach("before_document")
            if await self._objects.put_if(path, file.data, headers, None):
                return True
        for _ in range(_MOST_TRIES):
            found = await self._objects.tag_and_headers(path)
            if found is None and only_present:
                return False
            tag, written = found or (None, {})
            if _fence_of(written) > fence:
                raise LeaseLost(f"lease {fence} was taken away: a later one wrote {file.key}")
            reach("before_withdrawal" if only_present else "before_document")
            if await self._objects.put_if(path, file.data, headers, tag):
                return False
        raise StoreUnavailable(f"S3 never has the same {file.key} twice: others keep writing it", WaitingFor.DISK)


def _fence_of(headers: Mapping[str, str]) -> int:
    """0 for an object of an older release, which noted none."""
    noted = headers.get(_FENCE, "")
    return int(noted) if noted.isdecimal() else 0
