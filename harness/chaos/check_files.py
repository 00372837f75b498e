"""The files' half of the independent count: artifacts, manifests, and what lies about. Called by check.py.

Like there: sqlite3, json, gzip, hashlib and os, and nothing of the product.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from harness.chaos import expected as truth
from harness.chaos.findings import Findings, Kind

__all__ = ["FileCheck", "Known", "check_manifests"]

_METADATA: Final = "job_metadata.json"
_UNREADABLE: Final = (ValueError, OSError, EOFError, zlib.error)  # JSON, text and gzip that are none


class Known(NamedTuple):
    """What the store says of an item, as far as manifests repeat it. `crashes`: attempts whose browser died."""

    seq: int
    state: str
    fence: int
    outcome: str | None
    failure: str | None
    attempts: int
    crashes: int
    artifacts: tuple[tuple[str, int, str], ...]

    @property
    def poison(self) -> bool:
        """Whether it was given up because workers died of it; such an item has no attempt and no files."""
        return self.failure == "poison"

    @classmethod
    def of(cls, seq: int, state: str, fence: int, end: dict[str, Any], outcome: str = "finding") -> Known:
        """From an outcome or from an entry of a manifest, which calls the finding `outcome`."""
        return cls(
            seq,
            state,
            fence,
            end.get(outcome),
            (end.get("failure") or {}).get("kind"),
            len(end.get("attempts", ())),
            sum((tried.get("failure") or {}).get("kind") == "browser_crash" for tried in end.get("attempts", ())),
            tuple((file["key"], file["size"], file["sha256"]) for file in end.get("artifacts", ())),
        )


@dataclass
class FileCheck:
    """Reads files of a job's folder, and remembers which ones somebody refers to. `page` is what an item must have."""

    folder: Path
    findings: Findings
    page: Callable[[str], bytes] = truth.page
    has_entries: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.referred: set[str] = set()

    def load(self, key: str) -> bytes:
        """The bytes that a key stands for."""
        self.referred.add(key)
        return (self.folder / key).read_bytes()

    def read(self, key: str, size: int | None = None, sha256: str | None = None) -> bytes | None:
        """The bytes, if they are there and are what they should be."""
        try:
            body = self.load(key)
        except OSError as error:
            self.findings.add(Kind.LOST, key, f"the file is not there: {error.strerror}")
            return None
        if (size is not None and len(body) != size) or (sha256 and hashlib.sha256(body).hexdigest() != sha256):
            self.findings.add(Kind.TORN, key, f"{len(body)} bytes that do not match the {size} bytes on record")
            return None
        return body

    def read_json(self, key: str, size: int | None = None, sha256: str | None = None) -> Any:
        """The document, or None when there is no good one."""
        body = self.read(key, size, sha256)
        try:
            return None if body is None else json.loads(body)
        except _UNREADABLE as error:
            self.findings.add(Kind.TORN, key, f"no JSON: {error}")
            return None

    def check_item(self, item_id: str, item: Known) -> None:
        """All files of an item, against the store's hashes and against what the item must have."""
        seen = set()
        for key, size, sha256 in item.artifacts:
            body = self.read(key, size, sha256)
            name = key.rpartition("/")[2].removesuffix(".gz")
            seen.add(name)
            if body is not None:
                self._check_content(item_id, item, key, name, body)
        must = set() if item.poison else {"metadata.json"}
        must |= {"html.html", "data.json"} if item.outcome == "found" else set()
        self.findings.expect(seen == must, Kind.LOST, item_id, f"it has {sorted(seen)} and must have {sorted(must)}")

    def _check_content(self, item_id: str, item: Known, key: str, name: str, body: bytes) -> None:
        try:
            if name == "html.html":
                right = (gzip.decompress(body) if key.endswith(".gz") else body) == self.page(item_id)
            elif name == "data.json":
                right = json.loads(body) == truth.record(item_id)
            else:
                about = json.loads(body)
                right = (about["item_id"], about["state"], about["outcome"]) == (item_id, item.state, item.outcome)
        except _UNREADABLE as error:
            self.findings.add(Kind.TORN, key, f"it cannot be read: {error}")
        else:
            self.findings.expect(right, Kind.TORN, key, f"it is not what belongs to {item_id}")

    def find_strays(self) -> None:
        """Everything in the job's folder must have been referred to."""
        for folder, folders, files in os.walk(self.folder):
            place = os.path.relpath(folder, self.folder)
            if place in (".leases", ".writing"):
                for name in folders + files:
                    self.findings.add(Kind.STRAY, f"{place}/{name}", "it was left behind")
                folders.clear()
                continue
            for name in files:
                key = os.path.normpath(f"{place}/{name}")
                self.findings.expect(key in self.referred, Kind.STRAY, key, "nobody refers to it")


def check_manifests(files: FileCheck, known: dict[str, Known], generation: int, findings: Findings) -> None:
    """The job's metadata, every part of every list, and every item's own entry, against the store."""
    metadata = files.read_json(_METADATA)
    if metadata is None:
        return
    for former in range(1, generation):
        kept = files.read_json(f"manifests/generations/{former}.json") or {}
        said = kept.get("generation")
        findings.expect(said == former, Kind.LOST, f"generation {former}", f"its metadata say {said}")
    said = metadata["generation"]
    findings.expect(said == generation, Kind.STALE, _METADATA, f"it is of generation {said}, the job of {generation}")
    sums = Counter(item.state for item in known.values())
    sums["total"], sums["not_found"] = len(known), sum(item.outcome == "not_found" for item in known.values())
    for name, count in metadata["counts"].items():
        what = f"{_METADATA} says {count}, rows {sums[name]}"
        findings.expect(count == sums[name], Kind.COUNTED_TWICE, name, what)
    lists = {
        "full": set(known),
        "success": {item_id for item_id, item in known.items() if item.state == "success"},
        "errors": {item_id for item_id, item in known.items() if item.state != "success"},
    }
    for name, expected in lists.items():
        _check_list(name, metadata["parts"].get(name, []), expected, known, files)
    _check_entries(set(known) if files.has_entries else set(), known, files)


def _check_list(
    name: str, parts: list[dict[str, Any]], expected: set[str], known: dict[str, Known], files: FileCheck
) -> None:
    listed: Counter[str] = Counter()
    for part in parts:
        artifact = part["artifact"]
        document = files.read_json(artifact["key"], artifact["size"], artifact["sha256"])
        if document is None and (document := _stale(artifact["key"], known, files)) is not None:
            files.findings.add(Kind.STALE, artifact["key"], "it is of a former generation")
        entries = [] if document is None else document["items"]
        what = f"{len(entries)} items where {part['items']} should be"
        files.findings.expect(len(entries) == part["items"], Kind.COUNTED_TWICE, artifact["key"], what)
        for entry in entries:
            listed[entry["item_id"]] += 1
            _check_entry(artifact["key"], entry, known, files.findings)
    _check_once(name, listed, expected, files.findings)


def _check_entries(expected: set[str], known: dict[str, Known], files: FileCheck) -> None:
    """The entries that lie by themselves; found by walking, so that no knowledge of their names is needed."""
    listed: Counter[str] = Counter()
    for folder, _, names in os.walk(files.folder / "manifests" / "items"):
        for name in names:
            key = os.path.relpath(f"{folder}/{name}", files.folder)
            entry = files.read_json(key)
            if entry is not None:
                listed[entry["item_id"]] += 1
                _check_entry(key, entry, known, files.findings)
    _check_once("items", listed, expected, files.findings)


def _check_entry(key: str, entry: dict[str, Any], known: dict[str, Known], findings: Findings) -> None:
    item = known.get(entry["item_id"])
    if item is not None:
        said = Known.of(entry["seq"], entry["state"], entry["fence"], entry, "outcome")
        kind = Kind.STALE if entry["fence"] < item.fence else Kind.WRONG
        findings.expect(said == item, kind, key, f"{entry['item_id']} is listed as {said}, the store has {item}")


def _stale(key: str, known: dict[str, Known], files: FileCheck) -> dict[str, Any] | None:
    """The part that lies there, if it is whole and says of some item what an earlier lease made of it."""
    try:
        document: dict[str, Any] = json.loads(files.load(key))
        of_former = any(entry["fence"] < known[entry["item_id"]].fence for entry in document["items"])
    except (*_UNREADABLE, KeyError, TypeError):
        return None
    return document if of_former else None


def _check_once(name: str, listed: Counter[str], expected: set[str], findings: Findings) -> None:
    for item_id in expected:
        times = listed[item_id]
        if times != 1:
            kind = Kind.COUNTED_TWICE if times else Kind.LOST
            findings.add(kind, item_id, f"it is {times} times in the manifest list {name!r}")
    for item_id in listed.keys() - expected:
        findings.add(Kind.WRONG, item_id, f"it is in the manifest list {name!r}, where it does not belong")
