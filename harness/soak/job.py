"""SoakJob: where everything of a soak lies, which items it has, and how its processes are started.

The rows foretell what must come out of them, so that whoever counts in the end needs nothing of the product.
"""

from __future__ import annotations

import csv
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["COLUMN", "JOB_ID", "SoakJob", "data_of", "item_id_of", "item_ids"]

JOB_ID: Final = "soak"
COLUMN: Final = "parcel_id"
CONCURRENCY: Final = 64


def item_id_of(number: int) -> str:
    """`000-00-001` and so on."""
    return f"{number // 100_000:03}-{number // 1_000 % 100:02}-{number % 1_000:03}"


def item_ids(items: int, *, shuffled: bool = False) -> Iterator[str]:
    """All of them; shuffled, they come in no order, which is what an index of ids likes least."""
    numbers = list(range(items)) if shuffled else range(items)
    if isinstance(numbers, list):
        random.Random(items).shuffle(numbers)  # noqa: S311 the same file every time
    yield from map(item_id_of, numbers)


def data_of(item_id: str) -> bytes:
    """The record that `example-mock` makes of a row, as it must be stored."""
    return json.dumps({"fields": {COLUMN: item_id}, "count": 1}, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class SoakJob:
    """One job in a folder of its own."""

    folder: Path
    items: int

    @property
    def data(self) -> Path:
        """SWATH_DATA of its processes."""
        return self.folder / "data"

    @property
    def database(self) -> Path:
        """The store."""
        return self.data / "swath.db"

    @property
    def results(self) -> Path:
        """What the job produces: manifests, and records in packs."""
        return self.data / "results" / JOB_ID

    @property
    def items_file(self) -> Path:
        """One id a row."""
        return self.folder / "items.csv"

    def log_bytes(self) -> int:
        """How long the store's write-ahead log is now."""
        try:
            return self.database.with_name(self.database.name + "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def write_items(self, *, shuffled: bool = False) -> None:
        """Makes the folder and the file."""
        self.data.mkdir(parents=True)
        with self.items_file.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([COLUMN])
            rows.writerows([item_id] for item_id in item_ids(self.items, shuffled=shuffled))

    def command(self, step: str) -> list[str]:
        """A step of steps.py in a process of its own."""
        return [sys.executable, "-m", "harness.soak.steps", step, str(self.folder), str(self.items)]

    def environment(self) -> dict[str, str]:
        """Ours without its SWATH_* variables; every setting is the default but for the folder."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        return inherited | {"SWATH_DATA": str(self.data)}
