"""The ceiling: what somebody would write for this one job. `python -m swath.testing.bench.by_hand KEEP ORDER`.

It goes on where it was after a kill, and that is all: no retries, no sessions, no classification, no limits, no proof.
KEEP is `data` (records only), `segment` (pages packed into one file) or `files` (four files an item).
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
import wreq
from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

__all__ = ["main"]

GROUP_ITEMS: Final = 100
GZIP_LEVEL, GZIP_WBITS = 1, 31

Keep = Callable[[str, bytes, dict[str, str]], None]


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


def main(keep: str, order_file: Path) -> None:
    """Runs the order in its folder."""
    order = msgspec.json.decode(order_file.read_bytes())
    folder = order_file.parent
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        ids = [row["parcel_id"] for row in csv.DictReader(file)]
    with (folder / "records.jsonl").open("ab") as records, (folder / "pages.gz").open("ab") as segment:

        def put_record(_: str, __: bytes, record: dict[str, str]) -> None:
            records.write(msgspec.json.encode(record) + b"\n")

        def put_segment(item_id: str, body: bytes, record: dict[str, str]) -> None:
            segment.write(_packed(body))
            put_record(item_id, body, record)

        def put_files(item_id: str, body: bytes, record: dict[str, str]) -> None:
            _write_files(folder / "items", item_id, body, record)

        def flush() -> None:
            records.flush()
            segment.flush()

        keepers: dict[str, Keep] = {"data": put_record, "segment": put_segment, "files": put_files}
        status = _Status(folder / "status.db", ids, flush)
        uvloop.run(_scrape(order, status, keepers[keep]))
        status.commit()


async def _scrape(order: dict[str, Any], status: _Status, keep: Keep) -> None:
    client = wreq.Client(no_proxy=True, runtime=wreq.Runtime(workers=1))
    left = iter(status.left())
    async with asyncio.TaskGroup() as tasks:
        for _ in range(order["concurrency"]):
            tasks.create_task(_work(client, order, left, status, keep))


async def _work(client: wreq.Client, order: dict[str, Any], left: Iterator[str], status: _Status, keep: Keep) -> None:
    url, fields = order["url"], order["fields"]
    for item_id in left:
        answer = await client.get(url + item_id)
        body = bytes(await answer.bytes())
        if answer.status.as_int() != 200:
            raise SystemExit(f"{item_id}: {answer.status}")
        tree = LexborHTMLParser(body)
        record = {}
        for name, selector in fields.items():
            node = tree.css_first(selector)
            record[name] = "" if node is None else node.text().strip()
        keep(item_id, body, record)
        status.done(item_id)


def _packed(body: bytes) -> bytes:
    return isal_zlib.compress(body, GZIP_LEVEL, GZIP_WBITS)


def _write_files(folder: Path, item_id: str, body: bytes, record: dict[str, str]) -> None:
    item = folder / item_id
    item.mkdir(parents=True)
    about = {"item_id": item_id, "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    for name, data in (
        ("html.html.gz", _packed(body)),
        ("data.json", msgspec.json.encode(record)),
        ("metadata.json", msgspec.json.encode(about)),
        ("manifest.json", msgspec.json.encode({"item_id": item_id, "state": "success"})),
    ):
        (item / name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
