"""`make bench-export`: a million records in a real store, packed, and what each format of export costs (R5, Z8).

The items are loaded, leased, packed and ended by the product's own parts, without a scraper and without pages. Then
the real command exports them, format after format, in a process of its own that is looked at from outside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from harness.bench.cost import measured
from harness.tables import Row, as_text, put_into
from swath.backends.clock import SystemClock
from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import Attempt, EndedItem, Item, SuccessOutcome, TryCounts
from swath.domain.job import Job
from swath.domain.lease import Lease, LeasedItem, SlotReport
from swath.domain.result import Page, Result
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.outcome_buffer import Outcome
from swath.pipeline.worker.result_writer import result_writer_for
from swath.ports.job_store import ItemBatch

__all__ = ["main"]

T = TypeVar("T")

JOB_ID: Final = "export"
WORKER: Final = "bench"
BATCH_ROWS: Final = 10_000
MOST_BYTES: Final = 250 << 20
FORMATS: Final = ("csv", "jsonl", "sqlite", "parquet")
_HEAD: Final = ("format", "records/s", "most memory", "file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each format; 1 if one of them took more memory than it may."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.export", description="make bench-export")
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N", help="how many (1000000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="swath-bench-export-") as folder:
        asyncio.run(fill(Path(folder), options.records))
        figures = [exported(Path(folder), form, options.records) for form in FORMATS]
    section = (_HEAD, [row for row, _ in figures])
    print(as_text([section]))
    if options.page:
        put_into(options.page, [section], "export")
    return int(any(peak_bytes > MOST_BYTES for _, peak_bytes in figures))


def exported(folder: Path, form: str, records: int) -> tuple[Row, int]:
    """One format's line, and the most memory that it had. Raises SystemExit when a record is missing."""
    log, target = folder / f"{form}.log", folder / f"out.{form}"
    command = [sys.executable, "-m", "swath.entrypoints.cli.main", "jobs", "export", JOB_ID, "--json"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    cost = measured([*command, "--output", str(target)], kept | {"SWATH_DATA": str(folder)}, log)
    said = log.read_text(encoding="utf-8")
    told: dict[str, Any] = json.loads(said[said.index("{") :])
    if told["records"] != records:
        raise SystemExit(f"{form}: {told['records']:,} of {records:,} records were exported")
    size = target.stat().st_size
    target.unlink()
    rate, peak = f"{records / cost.seconds:,.0f}", f"{cost.peak_bytes / 2**20:,.0f} MiB"
    return (form, rate, peak, f"{size / 2**20:,.1f} MiB"), cost.peak_bytes


async def fill(folder: Path, records: int) -> None:
    """A packed job that has ended with so many records."""
    clock = SystemClock()
    store, storage = SqliteStore.open(folder, clock), FolderResults(folder / "results")
    throttling = {"max_concurrent_workers": 1_000}
    policy = ExecutionPolicy.model_validate({"throttling": throttling, "keep": "data"})
    await store.submit(Job(job_id=JOB_ID, scraper_id="example-mock", policy=policy, layout=Layout.WARC))
    for number, first in enumerate(range(1, records + 1, BATCH_ROWS)):
        rows = range(first, min(first + BATCH_ROWS, records + 1))
        items = tuple(Item(row, f"p-{row:07}", {"parcel_id": f"p-{row:07}"}) for row in rows)
        await store.load(JOB_ID, ItemBatch(number, first, len(items), str(first), items))
    await store.seal(JOB_ID, -(-records // BATCH_ROWS))
    while (lease := await store.claim(WORKER, JOB_ID)) is not None:
        await _end(store, storage, lease)
    await Finisher(store, store, storage, clock, WORKER).run_once()
    await storage.close()
    await store.close()


async def _end(store: SqliteStore, storage: FolderResults, lease: Lease) -> None:
    await storage.open_lease(JOB_ID, lease.fence, lease.items)
    keeper = result_writer_for(lease, storage)
    outcomes = [_outcome(item) for item in lease.items]
    await store.finish(lease, await keeper.store(outcomes, _at_once), (), SlotReport(ceiling=lease.slots, demand=0))
    await keeper.publish([outcome.item_id for outcome in outcomes])
    await keeper.settle()
    await store.release(lease.worker_id, lease.fence)


async def _at_once(call: Callable[[], Awaitable[T]], /) -> T:
    return await call()


def _outcome(item: LeasedItem) -> Outcome:
    page = Page(name="html", url=f"https://demo.local/{item.item_id}", status=200, body=b"<p></p>", fetched_at=1.7e9)
    end = EndedItem(
        seq=item.seq,
        state=ItemState.SUCCESS,
        finding=SuccessOutcome.FOUND,
        attempts=(Attempt(1.7e9, 1.7e9 + 0.2, WORKER, requests=1, bytes=20_000),),
        tries=TryCounts(own=1),
        scraper_version="1",
    )
    return Outcome(item.item_id, end, Result(pages=(page,), data=_record(item.seq, item.item_id)))


def _record(number: int, parcel_id: str) -> dict[str, Any]:
    return {
        "parcel_id": parcel_id,
        "owner": {"name": f"Owner {number}", "mail": {"street": f"{number % 900} Main St", "city": "Springfield"}},
        "land_use": "single family",
        "acres": number % 500 / 100,
        "year_built": 1900 + number % 120,
        "assessed": {"land": number % 90_000, "building": number % 400_000, "total": number % 490_000},
        "homestead": number % 3 == 0,
        "sales": [{"date": "2019-05-01", "price": number % 700_000}, {"date": "2003-11-12", "price": number % 300_000}],
        "tax": {"year": 2025, "due": number % 9_000 + 0.25, "paid": None},
    }


if __name__ == "__main__":
    sys.exit(main())
