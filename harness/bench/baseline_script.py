"""What somebody would write for this one job: `python -m harness.bench.baseline_script TOOLS KEEP ORDER`.

It resumes after a kill, and that is all: no retries, no sessions, no classification.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import hashlib
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
import uvloop
import wreq
from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

__all__ = ["main"]

GROUP_ITEMS: Final = 100
GZIP_LEVEL, GZIP_WBITS = 1, 31
USUAL_GZIP_LEVEL: Final = 6

Get = Callable[[str], Awaitable[tuple[int, bytes]]]
Keep = Callable[[str, bytes, dict[str, str]], None]


class _Tools(NamedTuple):
    """What the script is made of beside selectolax and SQLite: event loop, HTTP client, gzip, JSON."""

    run: Callable[[Coroutine[Any, Any, None]], None]
    client: Callable[[], AbstractAsyncContextManager[Get]]
    pack: Callable[[bytes], bytes]
    encode: Callable[[dict[str, Any]], bytes]


@asynccontextmanager
async def _aiohttp() -> AsyncIterator[Get]:
    async with aiohttp.ClientSession() as session:

        async def get(url: str) -> tuple[int, bytes]:
            async with session.get(url) as answer:
                return answer.status, await answer.read()

        yield get


@asynccontextmanager
async def _wreq() -> AsyncIterator[Get]:
    client = wreq.Client(no_proxy=True, runtime=wreq.Runtime(workers=1))

    async def get(url: str) -> tuple[int, bytes]:
        answer = await client.get(url)
        return answer.status.as_int(), bytes(await answer.bytes())

    yield get


TOOLS: Final = {
    "usual": _Tools(
        run=asyncio.run,
        client=_aiohttp,
        pack=lambda body: gzip.compress(body, USUAL_GZIP_LEVEL),
        encode=lambda value: json.dumps(value).encode(),
    ),
    "tuned": _Tools(
        run=uvloop.run,
        client=_wreq,
        pack=lambda body: isal_zlib.compress(body, GZIP_LEVEL, GZIP_WBITS),
        encode=msgspec.json.encode,
    ),
}


class _Status:
    """Which items are done, durable in groups; `flush` comes before, so that what is said to be done is there."""

    def __init__(self, file: Path, ids: list[str], flush: Callable[[], None]) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, done INTEGER NOT NULL) WITHOUT ROWID")
        self._write("INSERT OR IGNORE INTO items VALUES (?, 0)", ids)
        self._flush = flush
        self._group: list[str] = []

    def left(self) -> list[str]:
        return [item_id for (item_id,) in self._db.execute("SELECT id FROM items WHERE done = 0")]

    def done(self, item_id: str) -> None:
        self._group.append(item_id)
        if len(self._group) == GROUP_ITEMS:
            self.commit()

    def commit(self) -> None:
        self._flush()
        self._write("UPDATE items SET done = 1 WHERE id = ?", self._group)
        self._group = []

    def _write(self, statement: str, ids: list[str]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(statement, [(item_id,) for item_id in ids])
        self._db.execute("COMMIT")


def main(tools_name: str, keep: str, order_file: Path) -> None:
    """Runs the order in its folder."""
    order, folder, tools = json.loads(order_file.read_bytes()), order_file.parent, TOOLS[tools_name]
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        ids = [row["parcel_id"] for row in csv.DictReader(file)]
    with (folder / "records.jsonl").open("ab") as records, (folder / "pages.gz").open("ab") as segment:

        def put_segment(_: str, body: bytes, record: dict[str, str]) -> None:
            segment.write(tools.pack(body))
            records.write(tools.encode(record) + b"\n")

        def put_files(item_id: str, body: bytes, record: dict[str, str]) -> None:
            _write_files(tools, folder / "items" / item_id, body, record)

        def flush() -> None:
            records.flush()
            segment.flush()

        keepers: dict[str, Keep] = {"segment": put_segment, "files": put_files}
        status = _Status(folder / "status.db", ids, flush)
        tools.run(_scrape(tools, order, status, keepers[keep]))
        status.commit()


async def _scrape(tools: _Tools, order: dict[str, Any], status: _Status, keep: Keep) -> None:
    left = iter(status.left())
    async with tools.client() as get, asyncio.TaskGroup() as tasks:
        for _ in range(order["concurrency"]):
            tasks.create_task(_work(get, order, left, status, keep))


async def _work(get: Get, order: dict[str, Any], left: Iterator[str], status: _Status, keep: Keep) -> None:
    url, fields = order["url"], order["fields"]
    for item_id in left:
        code, body = await get(url + item_id)
        if code != 200:
            raise SystemExit(f"{item_id}: {code}")
        tree = LexborHTMLParser(body)
        record = {}
        for name, selector in fields.items():
            node = tree.css_first(selector)
            record[name] = "" if node is None else node.text().strip()
        keep(item_id, body, record)
        status.done(item_id)


def _write_files(tools: _Tools, folder: Path, body: bytes, record: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    about = {"item_id": folder.name, "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    for name, data in (
        ("html.html.gz", tools.pack(body)),
        ("data.json", tools.encode(record)),
        ("metadata.json", tools.encode(about)),
        ("manifest.json", tools.encode({"item_id": folder.name, "state": "success"})),
    ):
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
