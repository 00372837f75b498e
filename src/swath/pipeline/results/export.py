"""Export (R5): a job's records in the form that other tools read, streamed, with where each record comes from.

Before: rows.py. After: texts.py, tables.py and item_files.py make the bytes, part.py gives the file its name when it is
complete. Formats with columns take two passes: the first finds the columns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Conflict
from swath.domain.job import JobStatus
from swath.observe.crash_points import reach
from swath.pipeline.results.columns import Columns, Survey
from swath.pipeline.results.item_files import ARCHIVE_END, archived, item_files, write_files
from swath.pipeline.results.part import check_target, writing
from swath.pipeline.results.rows import Row, rows_of
from swath.pipeline.results.tables import ParquetTable, SqliteTable, Table, check_parquet
from swath.pipeline.results.texts import CsvText, JsonLines, TextFormat
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Export", "Exported", "Format", "Wish", "check_ended"]


class Format(StrEnum):
    """What an export can be."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    SQLITE = "sqlite"
    FILES = "files"

    @property
    def streams(self) -> bool:
        """Whether its bytes can be sent as they are made."""
        return self not in (Format.PARQUET, Format.SQLITE)

    @property
    def passes(self) -> int:
        """How often it goes through the records."""
        return 1 if self in (Format.JSONL, Format.FILES) else 2

    @classmethod
    def of_name(cls, name: str) -> Format | None:
        """The one that a file's name says."""
        return _ENDINGS.get(Path(name).suffix.lower())


_ENDINGS: Final = {
    ".csv": Format.CSV,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".parquet": Format.PARQUET,
    ".sqlite": Format.SQLITE,
    ".sqlite3": Format.SQLITE,
    ".db": Format.SQLITE,
}


class Wish(msgspec.Struct, frozen=True):
    """What somebody wants. `raw`: CSV that is not made safe for spreadsheets; `everything`: also items that have no
    record; `partial`: also of a job that has not ended."""

    format: Format
    raw: bool = False
    everything: bool = False
    partial: bool = False


class Exported(msgspec.Struct, frozen=True):
    """What was written. In the format `files` each item counts as a record. `records` is None where a controller made
    the file."""

    records: int | None
    bytes: int


Told = Callable[[int], None]
"""Hears how many more items were gone through; each is, once a pass."""


def check_ended(status: JobStatus, wish: Wish) -> None:
    """Raises Conflict for a job whose results are not complete, unless that is known."""
    job_id = status.job.job_id
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    if not status.state.terminal and not wish.partial:
        raise Conflict(
            f"job {job_id!r} is {status.state.value}; wait for its end, or take what is there with --partial"
        )


class Export:
    """One export of one job as it stands."""

    def __init__(
        self, store: JobStore, storage: ResultStorage, status: JobStatus, wish: Wish, told: Told | None = None
    ) -> None:
        check_ended(status, wish)
        if wish.format is Format.PARQUET:
            check_parquet()
        self._store = store
        self._storage = storage
        self._status = status
        self._wish = wish
        self._told = told or _silence
        self.records = 0

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The bytes of a format that streams, as they are made; of `files`, an archive. Raises Conflict when the job
        changes meanwhile."""
        return self._archive() if self._wish.format is Format.FILES else self._texts()

    async def _archive(self) -> AsyncGenerator[bytes, None]:
        written_at = self._status.ended_at or 0.0
        async with aclosing(self._files()) as groups:
            async for files in groups:
                yield await asyncio.to_thread(archived, files, written_at)
        yield ARCHIVE_END

    async def _texts(self) -> AsyncGenerator[bytes, None]:
        made: TextFormat = JsonLines()
        columns = None
        if self._wish.format is Format.CSV:
            columns = await self._survey()
            made = CsvText(columns, raw=self._wish.raw)
        yield made.head()
        async with aclosing(self._rows(columns)) as batches:
            async for rows in batches:
                yield await asyncio.to_thread(made.encode, rows)
        await self._check_unchanged()

    async def to_file(self, target: Path, *, replace: bool = False) -> Exported:
        """Writes the file, or the folder, and gives it its name. Raises BadInput when it cannot be written there."""
        folder = self._wish.format is Format.FILES
        real = check_target(target, folder=folder, replace=replace)
        try:
            with writing(real, folder=folder) as part:
                size = await self.to_part(part.path)
                await asyncio.to_thread(part.publish, replace=replace)
        except OSError as error:
            raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error
        return Exported(self.records, size)

    async def to_part(self, path: Path) -> int:
        """Writes to a path that is ours alone; answers with how many bytes."""
        if self._wish.format is Format.FILES:
            return await self._write_files(path)
        if self._wish.format.streams:
            await self._write_text(path)
        else:
            await self._write_table(path)
        return await asyncio.to_thread(lambda: path.stat().st_size)

    async def _write_text(self, path: Path) -> None:
        with path.open("wb") as file:
            async for piece in self._texts():
                await asyncio.to_thread(file.write, piece)
                reach("after_export_batch")

    async def _write_table(self, path: Path) -> None:
        columns = await self._survey()
        make = SqliteTable if self._wish.format is Format.SQLITE else ParquetTable
        table: Table = await asyncio.to_thread(make, path, columns)
        complete = False
        try:
            async with aclosing(self._rows(columns)) as batches:
                async for rows in batches:
                    await asyncio.to_thread(table.write, rows)
                    reach("after_export_batch")
            await self._check_unchanged()
            complete = True
        finally:
            await asyncio.to_thread(table.close, complete=complete)

    async def _write_files(self, folder: Path) -> int:
        size = 0
        async with aclosing(self._files()) as groups:
            async for files in groups:
                size += await asyncio.to_thread(write_files, folder, files)
                reach("after_export_batch")
        return size

    async def _files(self) -> AsyncGenerator[dict[str, bytes], None]:
        async with aclosing(item_files(self._store, self._storage, self._status)) as groups:
            async for items, files in groups:
                yield files
                self.records += items
                self._told(items)
        await self._check_unchanged()

    async def _survey(self) -> Columns:
        survey = Survey()
        rows = rows_of(self._store, self._storage, self._status, everything=self._wish.everything)
        async with aclosing(rows) as batches:
            async for batch in batches:
                await asyncio.to_thread(_add_all, survey, batch.rows)
                self._told(batch.items)
        return survey.columns()

    async def _rows(self, columns: Columns | None) -> AsyncGenerator[list[Row], None]:
        everything = self._wish.everything
        async with aclosing(rows_of(self._store, self._storage, self._status, everything=everything)) as batches:
            async for batch in batches:
                rows = batch.rows
                if columns is not None and not everything:
                    rows = [row for row in rows if columns.takes(row)]
                if rows:
                    yield rows
                self.records += len(rows)
                self._told(batch.items)

    async def _check_unchanged(self) -> None:
        before, now = self._status, await self._store.status(self._status.job.job_id)
        if (before.generation, before.current_version) != (now.generation, now.current_version) or now.deleting:
            raise Conflict(f"job {before.job.job_id!r} changed while it was exported; export it again")


def _silence(items: int) -> None:
    del items


def _add_all(survey: Survey, rows: list[Row]) -> None:
    for row in rows:
        survey.add(row)
