"""Counts what came of a soak by plain SQL and json, without the product: every row once, with its own record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.soak.job import SoakJob, data_of, item_ids

__all__ = ["FILES_PER_ITEM", "part_checksums", "problems"]

FILES_PER_ITEM: Final = 2  # data.json and metadata.json, in one line: `keep: data` keeps no pages


def problems(job: SoakJob) -> list[str]:
    """What is not as it must be; empty when nothing was lost, doubled or left about."""
    store = sqlite3.connect(f"{job.database.as_uri()}?mode=ro", uri=True)
    items = job.items
    expected = {
        "items": ("SELECT count(*) FROM items", items),
        "different ids": ("SELECT count(DISTINCT item_id) FROM items", items),
        "items that succeeded": ("SELECT count(*) FROM items WHERE state = 1", items),
        "outcomes": ("SELECT count(*) FROM outcomes", items),
        "the counter of successes": ("SELECT success FROM jobs WHERE state = 'completed'", items),
        "all other counters": ("SELECT not_found + failed + skipped + cancelled FROM jobs", 0),
        "leases left": ("SELECT count(*) FROM leases", 0),
        "items left waiting": ("SELECT count(*) FROM waiting", 0),
    }
    found = []
    for what, (query, right) in expected.items():
        answer = store.execute(query).fetchone()
        if answer != (right,):
            found.append(f"{what}: {'none' if answer is None else answer[0]}, not {right}")
    rooms = list((job.results / ".leases").glob("*"))
    if rooms:
        found.append(f"rooms left: {len(rooms)}, not 0")
    return found + _wrong_records(job, store) + _wrong_lists(job)


def _wrong_records(job: SoakJob, store: sqlite3.Connection) -> list[str]:
    """Every id of the file must have its own record, byte by byte, where its end says that it lies; and the packs must
    hold nothing else."""
    wrong, lines = [], 0
    packs = {pack.name: pack.read_bytes() for pack in (job.results / "packs").iterdir()}
    query = "SELECT i.item_id, o.ended FROM items AS i JOIN outcomes AS o ON o.job_no = i.job_no AND o.seq = i.seq"
    seen = set()
    for item_id, ended in store.execute(query):
        record = _record(packs, [file["key"] for file in json.loads(ended)["artifacts"]])
        if record is None or (record["item_id"], json.dumps(record["data"], separators=(",", ":")).encode()) != (
            item_id,
            data_of(item_id),
        ):
            wrong.append(item_id)
        seen.add(item_id)
    lines = sum(body.count(b"\n") for name, body in packs.items() if name.endswith(".jsonl"))
    found = [f"{len(wrong)} items without their own record, first {min(wrong)}"] if wrong else []
    missing = [item_id for item_id in item_ids(job.items) if item_id not in seen]
    found += [f"{len(missing)} items without an end, first {missing[0]}"] if missing else []
    return found + ([f"lines in packs: {lines}, not {job.items}"] if lines != job.items else [])


def _record(packs: dict[str, bytes], keys: list[str]) -> dict[str, Any] | None:
    """The line that both files of an item are in; None when they do not agree, or it is none."""
    places = {key.removeprefix("packs/").rpartition("/")[0] for key in keys}
    if len(keys) != FILES_PER_ITEM or len(places) != 1:
        return None
    name, _, span = places.pop().partition("@")
    start, _, length = span.partition("+")
    try:
        record: dict[str, Any] = json.loads(packs[name][int(start) : int(start) + int(length)])
    except (KeyError, ValueError):
        return None
    return record


def _wrong_lists(job: SoakJob) -> list[str]:
    """The lists must name every id of the file once, in its order."""
    found = []
    for name in ("full", "success"):
        listed = _listed(job.results / "manifests" / name)
        if any(item_id != next(listed, None) for item_id in item_ids(job.items)) or next(listed, None) is not None:
            found.append(f"the list {name!r} is not the items of the file in their order")
    return found


def _listed(folder: Path) -> Iterator[str]:
    number = 1
    while (part := folder / f"part-{number}.json").exists():
        for entry in json.loads(part.read_bytes())["items"]:
            yield entry["item_id"]
        number += 1


def part_checksums(job: SoakJob) -> dict[str, str]:
    """Of every manifest part, as the product says that it wrote it."""
    lists = json.loads((job.results / "job_metadata.json").read_bytes())["parts"].values()
    return {part["artifact"]["key"]: part["artifact"]["sha256"] for parts in lists for part in parts}
