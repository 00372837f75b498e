"""What one run of one contestant has to do, written into a fresh folder as `order.json` and `items.csv`."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from harness.bench.pages import FIELDS, body_of, item_ids, truth_of
from harness.bench.site import PATH

__all__ = ["CONCURRENCY", "MEMORY_PAGES", "Order"]

CONCURRENCY: Final = 32
MEMORY_PAGES: Final = 64


@dataclass(frozen=True, kw_only=True)
class Order:
    """So many items. Without a base URL the pages come from memory, and an item's page is chosen by its id."""

    folder: Path
    items: int
    base_url: str = ""
    concurrency: int = CONCURRENCY

    @property
    def host(self) -> str:
        """With its port."""
        return self.base_url.removeprefix("http://")

    @property
    def log(self) -> Path:
        """What the contestant says."""
        return self.folder / "log.txt"

    @property
    def items_file(self) -> Path:
        """One id a row, under `parcel_id`."""
        return self.folder / "items.csv"

    @property
    def order_file(self) -> Path:
        """Everything else."""
        return self.folder / "order.json"

    def write(self) -> None:
        """Makes the folder."""
        self.folder.mkdir(parents=True)
        with self.items_file.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["parcel_id"])
            rows.writerows([item_id] for item_id in item_ids(self.items))
        said = {
            "url": f"{self.base_url}{PATH}",
            "fields": FIELDS,
            "concurrency": self.concurrency,
            "memory_pages": MEMORY_PAGES,
        }
        self.order_file.write_text(json.dumps(said), encoding="utf-8")
        if not self.base_url:
            for number, item_id in enumerate(item_ids(MEMORY_PAGES)):
                (self.folder / f"page-{number}.html").write_bytes(body_of(item_id))

    def environment(self, **more: str) -> dict[str, str]:
        """Ours, without the variables of those who compete."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SWATH_", "SCRAPY_", "CRAWLEE_"))
        }
        return inherited | {"PWD": str(self.folder)} | more

    def truths(self) -> dict[str, dict[str, str]]:
        """The record that each item must have."""
        if self.base_url:
            return {item_id: truth_of(item_id) for item_id in item_ids(self.items)}
        shown = [truth_of(item_id) for item_id in item_ids(MEMORY_PAGES)]
        return {item_id: shown[crc32(item_id.encode()) % MEMORY_PAGES] for item_id in item_ids(self.items)}
