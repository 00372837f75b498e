"""The bare loops that the product is measured against: the least that a script could do to get the same rows or files.

They check nothing, remember nothing and survive nothing; they use nothing of the product.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["load", "manifests"]

READ_ROWS: Final = 1_000
PART_ITEMS: Final = 1_000

TABLE: Final = """
CREATE TABLE items (
    job_no INTEGER NOT NULL, seq INTEGER NOT NULL, item_id TEXT NOT NULL, input BLOB NOT NULL,
    state INTEGER NOT NULL DEFAULT 0, generation INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0,
    progress BLOB, due REAL, PRIMARY KEY (job_no, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX items_by_id ON items (job_no, item_id);
"""


def load(source: Path, database: Path) -> int:
    """csv.reader → executemany, in one transaction, into a table like the store's. The row itself is its input."""
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(TABLE)
    with source.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        rows = ((1, seq, row[0], row[0]) for seq, row in enumerate(reader, start=1))
        db.execute("BEGIN")
        loaded = db.executemany("INSERT INTO items (job_no, seq, item_id, input) VALUES (?, ?, ?, ?)", rows).rowcount
        db.execute("COMMIT")
    db.close()
    return loaded


def manifests(database: Path, folder: Path) -> dict[str, str]:
    """Reads the rows of the one job of a store and writes the same manifest parts; answers with their checksums."""
    folder.mkdir()
    db = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    (spec,) = db.execute("SELECT spec FROM jobs").fetchone()
    job = json.loads(spec)
    parts: dict[str, list[bytes]] = {"full": [], "success": [], "errors": []}
    written: dict[str, int] = dict.fromkeys(parts, 0)
    checksums = {}

    def write(name: str) -> None:
        written[name] += 1
        head = b'{"job_id":"%s","list":"%s","part":%d' % (job["job_id"].encode(), name.encode(), written[name])
        document = b'%s,"items":[\n%s\n]}\n' % (head, b",\n".join(parts[name]))
        (folder / f"{name}-{written[name]}.json").write_bytes(document)
        checksums[f"manifests/{name}/part-{written[name]}.json"] = hashlib.sha256(document).hexdigest()
        parts[name] = []

    for group in _entries(db, job):
        for state, line in group:
            for name in ("full", "success" if state == 1 else "errors"):
                parts[name].append(line)
                if len(parts[name]) == PART_ITEMS:
                    write(name)
    for name, lines in parts.items():
        if lines:
            write(name)
    db.close()
    return checksums


STATES: Final = {1: "success", 2: "failed", 3: "skipped", 4: "cancelled"}


def _entries(db: sqlite3.Connection, job: dict[str, Any]) -> Iterator[list[tuple[int, bytes]]]:
    """State and entry of each item, by keyset, through the fastest JSON there is."""
    decode, encode = msgspec.json.decode, msgspec.json.Encoder(order="deterministic").encode
    query = (
        "SELECT i.seq, i.item_id, i.input, i.state, i.fence, o.ended FROM items AS i "
        "JOIN outcomes AS o ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation "
        "WHERE i.job_no = 1 AND i.seq > ? ORDER BY i.seq LIMIT ?"
    )
    after = 0
    while rows := db.execute(query, (after, READ_ROWS)).fetchall():
        group = []
        for seq, item_id, input_, state, fence, ended in rows:
            end = decode(ended)
            line = encode(
                {
                    "job_id": job["job_id"],
                    "item_id": item_id,
                    "seq": seq,
                    "input": decode(input_),
                    "state": STATES[state],
                    "outcome": end["finding"],
                    "failure": end["failure"],
                    "reason": end["reason"],
                    "scraper_id": job["scraper_id"],
                    "scraper_version": end["scraper_version"],
                    "fence": fence,
                    "tries": end["tries"],
                    "attempts": end["attempts"],
                    "artifacts": end["artifacts"],
                }
            )
            group.append((state, line))
        yield group
        after = rows[-1][0]
