"""Reads, writes, lists and removes the files of a job by key, with the headers a browser needs and names of any length.

What a shortened name stands for is kept in `.long/`, so that a listing gives the key back. S3 cannot rename, so a
file
that only a lease holder may write is written on a condition: each object notes the fence of its writer; a holder
reads
entity tag and fence, gives up when the fence is later than its own, and writes with `If-Match` (or `If-None-Match`
where there is no object). S3 checks and writes in one step, so a former holder always finds another object.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from swath.backends.aws.s3.bucket import IsAbandoned
from swath.backends.aws.s3.object_names import LEASES, LONG, ItemPrefix, complete_part, long_pieces, shorten, tombstone
from swath.backends.aws.s3.objects import Objects, gather_all
from swath.domain.errors import LeaseLost, StoreUnavailable, UserError
from swath.domain.job import WaitingFor
from swath.domain.storage_keys import WARC_SUFFIX
from swath.observability.crash_points import reach

__all__ = ["FencedDocuments", "JobFile", "JobFiles"]

_log = logging.getLogger("swath.results")

_TYPES: Final = {
    "cdxj": "text/x-cdxj",
    "csv": "text/csv",
    "gif": "image/gif",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "xml": "application/xml",
    "zip": "application/zip",
}
_WARC_TYPE: Final = "application/warc"  # and never gzip by its header: its members are read one by one
_CUT: Final = re.compile(r"[^/]*~=[0-9a-f]{40}")
_MOST_NAMES: Final = 10_000
_LONGEST_NAME: Final = 100
_CLOCKS_APART: Final = timedelta(seconds=5)  # those of S3; no sleeper loses its right to delete so soon


class JobFile(NamedTuple):
    """A file on its way: `packed` when its bytes are gzip of what its name promises."""

    key: str
    data: bytes
    packed: bool = False


class JobFiles:
    """Jobs are given by their folder; keys are whole, as people and the store know them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._long: dict[tuple[str, str], str] = {}
        self._deleted: set[str] = set()
        self._warned = False

    async def put(self, job: str, file: JobFile) -> None:
        """Writes one object."""
        await self._objects.put(await self.named(job, file), file.data, self.headers(file))

    async def named(self, job: str, file: JobFile) -> str:
        """The path of a file that is about to be written, after the names that do not fit into it are stored."""
        for cut, name in long_pieces(file.key).items():
            if (job, cut) not in self._long:
                await self._objects.put(f"{job}/{LONG}/{cut}", name.encode("utf-8", "surrogatepass"))
                self._remember(job, cut, name)
        return _path(job, file.key)

    def headers(self, file: JobFile) -> dict[str, str]:
        """What a browser needs to know of it."""
        headers = {"Content-Type": _type(file.key)}
        if file.packed:
            headers["Content-Encoding"] = "gzip"
        return headers

    async def get(self, job: str, key: str) -> bytes:
        """Raises KeyError when there is nothing under the key."""
        try:
            return await self._objects.get(_path(job, key))
        except KeyError:
            raise KeyError(key) from None

    async def exists(self, job: str, key: str) -> bool:
        """Whether there is anything under the key."""
        return await self._objects.exists(_path(job, key))

    async def read(self, job: str, key: str, start: int, length: int) -> bytes:
        """A piece of it. Raises as `get`."""
        try:
            return await self._objects.read(_path(job, key), start, length)
        except KeyError:
            raise KeyError(key) from None

    async def delete(self, job: str, keys: Collection[str]) -> None:
        """Removes these; a name of theirs that was cut stays known."""
        await self._objects.delete([_path(job, key) for key in keys])

    async def delete_place(self, job: str, place: ItemPrefix) -> None:
        """Removes whatever one lease wrote for one item."""
        async for found in self.pages(job, place.folder):
            await self.delete(job, [key for key in found if ItemPrefix.of_key(key) == place])

    async def delete_former(self, job: str, place: ItemPrefix) -> None:
        """Removes what leases before that of the place wrote for its item."""
        async for found in self.pages(job, place.item_folder):
            places = [(key, ItemPrefix.of_key(key)) for key in found]
            await self.delete(job, [key for key, other in places if other is not None and other.fence < place.fence])

    async def pages(self, job: str, prefix: str) -> AsyncIterator[list[str]]:
        """The keys that begin so, some at a time. No segment of a key begins with a dot, so rooms are none."""
        async for paths in self._objects.pages(f"{job}/{shorten(complete_part(prefix))}"):
            keys = [path.removeprefix(f"{job}/") for path in paths]
            keys = [key if "~=" not in key else await self._key(job, key) for key in keys]
            yield [key for key in keys if key.startswith(prefix) and not key.startswith(".")]

    async def clear(self, job: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        """Removes everything of the job: the rooms first, so that nobody who looks finds one to write under.

        Who has looked before may still write, so a tombstone says first that the plain keys are not to be used again.
        What is younger than that belongs to a job ordered anew while we slept. Whoever slept before that is told by
        `confirm`.
        """
        await self._objects.put(tombstone(job), b"")
        until = await self._objects.written_at(tombstone(job)) + _CLOCKS_APART
        if confirm is not None:
            await confirm()
        reach("before_removal")
        await self._remove(f"{job}/{LEASES}", until)
        await self.abort_uploads(job, lambda _, begun_at: begun_at <= until)
        await self._remove(job, until)
        self.forget_names(job)

    async def _remove(self, folder: str, until: datetime) -> None:
        async for paths in self._objects.pages(folder, until):
            await self._objects.delete(paths)

    async def abort_uploads(self, job: str, is_left: IsAbandoned) -> None:
        """Ends uploads of the job that were never finished. Only a warning if S3 does not allow it: they are in
        nobody's way, and cost what their parts take up."""
        try:
            await self._objects.abort_uploads(job, is_left)
        except UserError as error:
            if not self._warned:
                _log.warning("unfinished uploads stay where they are: %s", error)
            self._warned = True

    async def was_deleted(self, job: str) -> bool:
        """Whether a job in this folder was deleted. Only a yes is remembered: a no may be over at the next lease."""
        if job in self._deleted:
            return True
        if not await self._objects.exists(tombstone(job)):
            return False
        if len(self._deleted) >= _MOST_NAMES:
            self._deleted.clear()
        self._deleted.add(job)
        return True

    def forget_names(self, job: str) -> None:
        """Another process may have deleted the job, and what its cut names stood for."""
        for known in [known for known in self._long if known[0] == job]:
            del self._long[known]

    async def link(self, job: str, key: str, seconds: int) -> str:
        """A link by which S3 hands out the file as plain text to be saved, whatever it is: what a site has sent is
        never to run in the name of a bucket."""
        name = re.sub(r"[^A-Za-z0-9._-]", "_", key.rpartition("/")[2])[-_LONGEST_NAME:].lstrip(".")
        return await self._objects.link(
            _path(job, key),
            seconds,
            {
                "response-content-disposition": f'attachment; filename="{name}"',
                "response-content-type": "text/plain; charset=utf-8",
            },
        )

    async def _key(self, job: str, path: str) -> str:
        """The key whose object this is, from a path with cut names."""
        for cut in _CUT.findall(path):
            if (job, cut) not in self._long:
                try:
                    name = await self._objects.get(f"{job}/{LONG}/{cut}")
                except KeyError:  # of an object that was not written by us
                    continue
                self._remember(job, cut, name.decode("utf-8", "surrogatepass"))
        return _CUT.sub(lambda cut: self._long.get((job, cut[0]), cut[0]), path)

    def _remember(self, job: str, cut: str, name: str) -> None:
        if len(self._long) >= _MOST_NAMES:
            self._long.clear()
        self._long[job, cut] = name


def _type(key: str) -> str:
    if key.endswith(f".{WARC_SUFFIX}"):
        return _WARC_TYPE
    return _TYPES.get(key.rpartition(".")[2].lower(), "application/octet-stream")


def _path(job: str, key: str) -> str:
    return f"{job}/{shorten(key)}"


_FENCE: Final = "swath-fence"  # in the object's metadata
_MOST_TRIES: Final = 20  # each follows a write of somebody else, or a lost answer


class FencedDocuments:
    """Jobs are given by their folder."""

    def __init__(self, objects: Objects, files: JobFiles) -> None:
        self._objects = objects
        self._files = files

    async def put(self, job: str, fence: int, files: Sequence[JobFile]) -> None:
        """Writes all of them. The first one shows whether they are likely to be new, which saves reading their tags.

        Raises LeaseLost when a later lease wrote one of them.
        """
        if not files:
            return
        first, *rest = files
        new = await self._put(job, fence, first, try_new=True)
        await gather_all([self._put(job, fence, file, try_new=new) for file in rest])

    async def replace(self, job: str, fence: int, files: Sequence[JobFile]) -> None:
        """The same, only for those that are there."""
        await gather_all([self._put(job, fence, file, try_new=False, only_present=True) for file in files])

    async def _put(self, job: str, fence: int, file: JobFile, *, try_new: bool, only_present: bool = False) -> bool:
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
