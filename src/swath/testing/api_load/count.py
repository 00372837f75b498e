"""Counts what a load left in the store by plain SQL, without the product: every row once, in its place, as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from swath.testing.api_load.rows import input_of
from swath.testing.soak.job import item_ids

__all__ = ["loaded_items", "problems"]


def problems(data: Path, items: int) -> list[str]:
    """What is not as it must be; empty when nothing was lost, doubled or changed."""
    with closing(_open(data)) as store:
        expected = {
            "rows of items": ("SELECT count(*) FROM items", items),
            "different ids": ("SELECT count(DISTINCT item_id) FROM items", items),
            "the counter of the job": ("SELECT total FROM jobs WHERE state = 'pending'", items),
            "the rows that it has loaded": ("SELECT loaded_rows FROM jobs", items),
            "the rows of its batches": ("SELECT sum(rows) FROM batches", items),
            "jobs": ("SELECT count(*) FROM jobs", 1),
        }
        found = []
        for what, (query, right) in expected.items():
            answer = store.execute(query).fetchone()
            if answer != (right,):
                found.append(f"{what}: {'none' if answer is None else answer[0]}, not {right}")
        rows = store.execute("SELECT seq, item_id, input FROM items ORDER BY seq")
        wrong = [one for seq, one in enumerate(item_ids(items), 1) if next(rows, None) != (seq, one, input_of(one))]
    return [*found, f"{len(wrong)} rows are not what was sent, first {wrong[0]}"] if wrong else found


def loaded_items(data: Path) -> int:
    """How many items the job has by now; 0 when there is no job yet."""
    with closing(_open(data)) as store:
        row = store.execute("SELECT total FROM jobs").fetchone()
    return int(row[0]) if row else 0


def _open(data: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(data / 'swath.db').as_uri()}?mode=ro", uri=True, timeout=30)
