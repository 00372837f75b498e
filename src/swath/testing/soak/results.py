"""OneFileResults: what a job produces as rows of one SQLite file: a soak is about the engine, and not about inodes.

Holds the contract of ports/result_storage.py (tests/soak runs the suite over it). Several processes may share the file.
A write survives the death of every process; like the product's folder without SWATH_FSYNC, not a power loss.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from swath.domain.errors import LeaseLost
from swath.domain.keys import encode
from swath.domain.layout import PACKS
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.ports.result_storage import Addition, StagedItem

__all__ = ["OneFileResults"]

T = TypeVar("T")

BUSY_SECONDS: Final = 60.0
CACHE_KIB: Final = 2 * 1024
PAGE_KEYS: Final = 10_000
GROUP_IDS: Final = 500  # below the number of variables that any SQLite takes
WAL_LIMIT_BYTES: Final = 64 << 20

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_FILE: Final = ""
_KEY: Final = re.compile(r"(?!\.)[^/\0]+(?:/(?!\.)[^/\0]+)*")

# Contents are kept out of the trees that are searched: SQLite reads a long row whole to compare its key.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rooms (job TEXT, fence INTEGER, PRIMARY KEY (job, fence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS staged (job TEXT, fence INTEGER, item_id TEXT, key TEXT, data BLOB);
CREATE INDEX IF NOT EXISTS staged_by_item ON staged (job, fence, item_id);
CREATE TABLE IF NOT EXISTS packs (job TEXT, fence INTEGER, key TEXT, data BLOB, UNIQUE (job, key));
CREATE TABLE IF NOT EXISTS documents (job TEXT, key TEXT, data BLOB, UNIQUE (job, key));
"""


class OneFileResults:
    """One connection and one thread of its own, in each process."""

    pack_seconds = 0.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", f"cache_size = -{CACHE_KIB}"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        self._db.executescript(SCHEMA)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="soak-results")

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def _write(self, act: Callable[[], T]) -> T:
        def transact() -> T:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                return act()

        return await self._do(transact)

    async def close(self) -> None:
        """Lets go of the file."""
        await self._do(self._db.close)
        self._thread.shutdown()

    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:  # noqa: ARG002 any may come
        """Notes the room; nothing is staged without one."""
        await self._write(lambda: self._db.execute("INSERT OR IGNORE INTO rooms VALUES (?, ?)", (job_id, fence)))

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """One commit for all of them."""
        keyed = [
            (item, {f"{_folder(item.item_id)}{name}": data for name, data in item.files.items()}) for item in items
        ]
        for _, files in keyed:
            _check(files)
        nothing = {_NO_FILE: b""}  # an item without files takes the place of its former ones too
        rows = [(job_id, fence, item.item_id, *file) for item, files in keyed for file in (files or nothing).items()]

        def act() -> None:
            if not self._has_room(job_id, fence):
                raise LeaseLost(f"lease {fence} was taken away: its room is gone")
            self._of_items("DELETE FROM staged WHERE job = ? AND fence = ?", job_id, fence, [i.item_id for i in items])
            self._db.executemany("INSERT INTO staged VALUES (?, ?, ?, ?, ?)", rows)

        await self._write(act)
        return [tuple(_artifact(key, data) for key, data in files.items()) for _, files in keyed]

    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """One commit for all of them."""
        await self._write(lambda: self._publish(job_id, fence, list(item_ids)))

    def _publish(self, job_id: str, fence: int, item_ids: Sequence[str]) -> None:
        staged = "FROM staged WHERE job = ? AND fence = ?"
        found = self._of_items(f"SELECT DISTINCT item_id {staged}", job_id, fence, item_ids)
        for (item_id,) in found:
            folder = _folder(item_id)
            self._db.execute("DELETE FROM documents WHERE job = ? AND key > ? AND key < ?", (job_id, *_range(folder)))
        files = f"{staged} AND key != '{_NO_FILE}'"
        self._of_items(f"INSERT INTO documents SELECT job, key, data {files}", job_id, fence, item_ids)
        self._of_items(f"DELETE {staged}", job_id, fence, item_ids)

    def _of_items(self, statement: str, job_id: str, fence: int, item_ids: Sequence[str]) -> list[tuple[str]]:
        """A statement over some items of a room, in groups that SQLite takes."""
        answer: list[tuple[str]] = []
        for at in range(0, len(item_ids), GROUP_IDS):
            group = item_ids[at : at + GROUP_IDS]
            marks = ", ".join("?" * len(group))
            answer += self._db.execute(f"{statement} AND item_id IN ({marks})", (job_id, fence, *group)).fetchall()
        return answer

    async def append(self, job_id: str, fence: int, additions: Mapping[str, Addition]) -> dict[str, tuple[str, int]]:
        """Every addition is a pack of its own: a row cannot be added to without writing all of it again."""
        _check(additions)

        def act() -> dict[str, tuple[str, int]]:
            if not self._has_room(job_id, fence):
                raise LeaseLost(f"lease {fence} was taken away: its room is gone")
            query = "SELECT count(*) FROM packs WHERE job = ? AND fence = ?"
            ((number,),) = self._db.execute(query, (job_id, fence))
            keys = {ending: f"{PACKS}{fence}-{number}.{ending}" for ending in additions}
            rows = [(job_id, fence, keys[ending], add.head + add.data) for ending, add in additions.items()]
            self._db.executemany("INSERT INTO packs VALUES (?, ?, ?, ?)", rows)
            return {ending: (key, len(additions[ending].head)) for ending, key in keys.items()}

        return await self._write(act)

    def _has_room(self, job_id: str, fence: int) -> bool:
        query = "SELECT 1 FROM rooms WHERE job = ? AND fence = ?"
        return self._db.execute(query, (job_id, fence)).fetchone() is not None

    async def packs(self, job_id: str, fence: int) -> list[str]:
        """The keys of the rows."""
        query = "SELECT key FROM packs WHERE job = ? AND fence = ?"
        return [key for (key,) in await self._do(lambda: self._db.execute(query, (job_id, fence)).fetchall())]

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = _NONE,
        documents: Mapping[str, bytes] = _NONE,
    ) -> None:
        """Publishes and forgets the room in one commit."""
        _check((*packs, *documents))

        def act() -> None:
            if not self._has_room(job_id, fence):
                return
            self._publish(job_id, fence, list(winners))
            self._put(job_id, documents)
            published = "INSERT INTO documents SELECT job, key, substr(data, 1, ?) FROM packs WHERE job = ? AND key = ?"
            self._db.executemany(published, [(length, job_id, key) for key, length in packs.items()])
            for table in ("staged", "packs", "rooms"):
                self._db.execute(f"DELETE FROM {table} WHERE job = ? AND fence = ?", (job_id, fence))  # noqa: S608 ours

        await self._write(act)

    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """One commit for all of them."""
        _check(documents)
        await self._write(lambda: self._put(job_id, documents))
        return [_artifact(key, data) for key, data in documents.items()]

    def _put(self, job_id: str, documents: Mapping[str, bytes]) -> None:
        rows = [(job_id, key, data) for key, data in documents.items()]
        self._db.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)

    async def get(self, job_id: str, key: str) -> bytes:
        """The bytes as they were given."""
        one = "SELECT data FROM {} WHERE job = ?1 AND key = ?2"
        query = f"{one.format('documents')} UNION ALL {one.format('packs')}"
        found = await self._do(lambda: self._db.execute(query, (job_id, key)).fetchone())
        if found is None:
            raise KeyError(key)
        return bytes(found[0])

    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """A piece of it."""
        return (await self.get(job_id, key))[start : start + length]

    async def link(self, job_id: str, key: str, seconds: int) -> str | None:  # noqa: ARG002 there is no way in
        """None."""
        _check([key])
        return None

    async def remove(self, job_id: str, prefix: str) -> None:
        """By the range of keys that begin so."""
        remove = "DELETE FROM documents WHERE job = ? AND key >= ? AND key < ?"
        await self._write(lambda: self._db.execute(remove, (job_id, *_range(prefix))))

    async def clear(self, job_id: str) -> None:
        """Every trace of the job."""

        def act() -> None:
            for table in ("staged", "packs", "rooms", "documents"):
                self._db.execute(f"DELETE FROM {table} WHERE job = ?", (job_id,))  # noqa: S608 names are ours

        await self._write(act)

    async def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """Page by page in order, so that no reading is long."""
        query = "SELECT key FROM documents WHERE job = ? AND key > ? AND key >= ? AND key < ? ORDER BY key LIMIT ?"
        last = ""
        while True:
            where = (job_id, last, *_range(prefix), PAGE_KEYS)
            page = await self._do(lambda where=where: self._db.execute(query, where).fetchall())  # type: ignore[misc]
            for (key,) in page:
                yield key
            if len(page) < PAGE_KEYS:
                return
            last = page[-1][0]

    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        query = "SELECT fence FROM rooms WHERE job = ? ORDER BY fence"
        return [fence for (fence,) in await self._do(lambda: self._db.execute(query, (job_id,)).fetchall())]

    def location(self, job_id: str) -> str:
        """The file, and which of its rows."""
        return f"{self._path}#{encode(job_id)}"


def _folder(item_id: str) -> str:
    return f"items/{encode(item_id)}/"


def _range(prefix: str) -> tuple[str, str]:
    """Keys that begin so lie from the first to before the second. Keys are ASCII, so nothing sorts above U+FFFF."""
    return prefix, prefix + "\uffff"


def _artifact(key: str, data: bytes) -> Artifact:
    return Artifact(key, len(data), hashlib.sha256(data).hexdigest())


def _check(keys: Iterable[str]) -> None:
    for key in keys:
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"{key!r} is no key inside a job")
