"""Counts what came of a soak by plain SQL, without the product: every row of the file once, with its own record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from swath.testing.soak.job import JOB_ID, SoakJob, data_of, item_ids

__all__ = ["part_checksums", "problems"]

FILES_PER_ITEM: Final = 2  # data.json and metadata.json: `keep: data` keeps no pages


def problems(job: SoakJob) -> list[str]:
    """What is not as it must be; empty when nothing was lost, doubled or left about."""
    store, results = _open(job.database), _open(job.results)
    items = job.items
    expected = {
        "items": (store, "SELECT count(*) FROM items", items),
        "different ids": (store, "SELECT count(DISTINCT item_id) FROM items", items),
        "items that succeeded": (store, "SELECT count(*) FROM items WHERE state = 1", items),
        "outcomes": (store, "SELECT count(*) FROM outcomes", items),
        "the counter of successes": (store, "SELECT success FROM jobs WHERE state = 'completed'", items),
        "all other counters": (store, "SELECT not_found + failed + skipped + cancelled FROM jobs", 0),
        "leases left": (store, "SELECT count(*) FROM leases", 0),
        "items left waiting": (store, "SELECT count(*) FROM waiting", 0),
        "files of items": (results, _documents("items/"), FILES_PER_ITEM * items),
        "entries in the manifest": (results, _documents("manifests/items/"), items),
        "files left staged": (results, "SELECT count(*) FROM staged", 0),
        "rooms left": (results, "SELECT count(*) FROM rooms", 0),
    }
    found = []
    for what, (db, query, right) in expected.items():
        answer = db.execute(query).fetchone()
        if answer != (right,):
            found.append(f"{what}: {'none' if answer is None else answer[0]}, not {right}")
    found += _wrong_records(job, results)
    found += _wrong_lists(job, results)
    return found


def _documents(prefix: str) -> str:
    where = f"job = '{JOB_ID}' AND key >= '{prefix}' AND key < '{prefix}~'"
    return f"SELECT count(*) FROM documents WHERE {where}"  # noqa: S608 our own words


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _wrong_records(job: SoakJob, results: sqlite3.Connection) -> list[str]:
    """Every id of the file must have its own record, byte by byte."""
    query = "SELECT data FROM documents WHERE job = ? AND key = ?"
    wrong = [
        item_id
        for item_id in item_ids(job.items)
        if results.execute(query, (JOB_ID, f"items/{item_id}/data.json")).fetchone() != (data_of(item_id),)
    ]
    return [f"{len(wrong)} items without their own record, first {wrong[0]}"] if wrong else []


def _wrong_lists(job: SoakJob, results: sqlite3.Connection) -> list[str]:
    """The lists must name every id of the file once, in its order."""
    found = []
    for name in ("full", "success"):
        listed = _listed(results, name)
        if any(item_id != next(listed, None) for item_id in item_ids(job.items)) or next(listed, None) is not None:
            found.append(f"the list {name!r} is not the items of the file in their order")
    return found


def _listed(results: sqlite3.Connection, name: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        query = "SELECT data FROM documents WHERE job = ? AND key = ?"
        found = results.execute(query, (JOB_ID, f"manifests/{name}/part-{number}.json")).fetchone()
        if found is None:
            return
        for entry in json.loads(found[0])["items"]:
            yield entry["item_id"]


def part_checksums(job: SoakJob) -> dict[str, str]:
    """Of every manifest part, as the product says that it wrote it."""
    query = "SELECT data FROM documents WHERE job = ? AND key = 'job_metadata.json'"
    (document,) = _open(job.results).execute(query, (JOB_ID,)).fetchone()
    lists = json.loads(document)["parts"].values()
    return {part["artifact"]["key"]: part["artifact"]["sha256"] for parts in lists for part in parts}
