"""Exports a job's records to a format that other tools read, streamed, with the provenance of each record.

Formats with columns take two passes: the first finds the columns. The format `files` writes the files layout, as a
folder or a tar archive.
"""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Conflict
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.result import Artifact
from swath.domain.storage_keys import encode_key, page_file_name
from swath.observability.crash_points import reach
from swath.pipeline.formats.artifacts import DATA_FILE, METADATA_FILE, encode_json, page_file
from swath.pipeline.formats.manifests import entry_line, item_key
from swath.pipeline.formats.stored_files import group_by_bytes, read_files_of_items
from swath.pipeline.results.export.columns import Columns, ColumnSurvey
from swath.pipeline.results.export.formats import (
    CsvText,
    JsonLinesText,
    ParquetTable,
    SqliteTable,
    Table,
    TextFormat,
    check_parquet,
)
from swath.pipeline.results.export.output_file import check_target, open_output
from swath.pipeline.results.records import CurrentItem, RecordRow, current_items, read_rows
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = [
    "ARCHIVE_END",
    "Export",
    "ExportFormat",
    "ExportRequest",
    "ExportResult",
    "archive_piece",
    "check_ended",
    "read_files_layout",
    "write_files",
]

ARCHIVE_END: Final = bytes(2 * tarfile.BLOCKSIZE)


async def read_files_layout(
    store: JobStore, storage: ResultStorage, status: JobStatus
) -> AsyncGenerator[tuple[int, dict[str, bytes]], None]:
    """All files by their keys, some items at a time; and how many items these are."""
    async for items in current_items(store, status):
        for group in group_by_bytes((item, _size(item)) for item in items):
            plain = await _plain_files(storage, group)
            yield len(group), await asyncio.to_thread(_stored_files, group, plain)


def write_files(folder: Path, files: Mapping[str, bytes]) -> int:
    """Puts them into a folder; answers with how many bytes."""
    for key, data in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return sum(map(len, files.values()))


def archive_piece(files: Mapping[str, bytes], written_at: float) -> bytes:
    """A piece of an archive. `written_at`, in Unix seconds, is the time that the files get."""
    parts = []
    for key, data in files.items():
        about = tarfile.TarInfo(key)
        about.size, about.mtime = len(data), int(written_at)
        parts += [about.tobuf(tarfile.PAX_FORMAT), data, bytes(-len(data) % tarfile.BLOCKSIZE)]
    return b"".join(parts)


def _size(item: CurrentItem) -> int:
    return sum(artifact.size for artifact in item.first.artifacts)


async def _plain_files(storage: ResultStorage, items: Sequence[CurrentItem]) -> list[dict[str, bytes]]:
    """Pages and downloads are those of version 1; what was read from them is that of the item's version."""
    files = await _read(storage, [(item.first_job_id, item.first) for item in items])
    newer = [at for at, item in enumerate(items) if item.version > 1]
    read = await _read(storage, [(items[at].job.job_id, items[at].record) for at in newer])
    for at, found in zip(newer, read, strict=True):
        kept = {name: data for name, data in files[at].items() if name not in (DATA_FILE, METADATA_FILE)}
        files[at] = kept | found
    return files


async def _read(storage: ResultStorage, wanted: Sequence[tuple[str, ItemRecord]]) -> list[dict[str, bytes]]:
    """All files of these items, each out of the job that has it."""
    found: dict[int, dict[str, bytes]] = {}
    for job_id in dict.fromkeys(job_id for job_id, _ in wanted):
        here = [(at, record) for at, (owner, record) in enumerate(wanted) if owner == job_id]
        contents = await read_files_of_items(storage, job_id, [(one.item_id, one.artifacts) for _, one in here])
        found |= {at: files for (at, _), files in zip(here, contents, strict=True)}
    return [found[at] for at in range(len(wanted))]


def _stored_files(items: Sequence[CurrentItem], plain: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    all_files: dict[str, bytes] = {}
    for item, files in zip(items, plain, strict=True):
        base = f"items/{encode_key(item.record.item_id)}"
        stored = {f"{base}/{name}": data for name, data in _files_layout(files).items()}
        artifacts = tuple(Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in stored.items())
        entry = msgspec.structs.replace(item.record, artifacts=artifacts)
        all_files |= stored | {item_key(item.record.item_id): entry_line(item.job, entry)}
    return all_files


def _files_layout(files: dict[str, bytes]) -> dict[str, bytes]:
    """Large pages compressed, and the metadata naming each file as it is now."""
    if METADATA_FILE not in files:
        return files
    stored, about = dict(files), msgspec.json.decode(files[METADATA_FILE])
    changed = False
    for page in about["pages"]:
        plain = page_file_name(page["name"])
        if plain in files:
            del stored[plain]
            name, data = page_file(page["name"], files[plain])
            stored[name] = data
            changed = changed or page["file"] != name
            page["file"] = name
    if changed:
        stored[METADATA_FILE] = encode_json(about)
    return stored


class ExportFormat(StrEnum):
    """What an export can be."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    SQLITE = "sqlite"
    FILES = "files"

    @property
    def streams(self) -> bool:
        """Whether its bytes can be sent as they are made."""
        return self not in (ExportFormat.PARQUET, ExportFormat.SQLITE)

    @property
    def passes(self) -> int:
        """How often it goes through the records."""
        return 1 if self in (ExportFormat.JSONL, ExportFormat.FILES) else 2

    @classmethod
    def of_name(cls, name: str) -> ExportFormat | None:
        """The one that a file's name says."""
        return _ENDINGS.get(Path(name).suffix.lower())


_ENDINGS: Final = {
    ".csv": ExportFormat.CSV,
    ".jsonl": ExportFormat.JSONL,
    ".ndjson": ExportFormat.JSONL,
    ".parquet": ExportFormat.PARQUET,
    ".sqlite": ExportFormat.SQLITE,
    ".sqlite3": ExportFormat.SQLITE,
    ".db": ExportFormat.SQLITE,
}


class ExportRequest(msgspec.Struct, frozen=True):
    """What somebody wants. `raw`: CSV that is not made safe for spreadsheets; `everything`: also items that have no
    record; `partial`: also of a job that has not ended."""

    format: ExportFormat
    raw: bool = False
    everything: bool = False
    partial: bool = False


class ExportResult(msgspec.Struct, frozen=True):
    """What was written. In the format `files` each item counts as a record. `records` is None where a controller made
    the file."""

    records: int | None
    bytes: int


ExportProgress = Callable[[int], None]
"""Hears how many more items were gone through; each is, once a pass."""


def check_ended(status: JobStatus, wish: ExportRequest) -> None:
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
        self,
        store: JobStore,
        storage: ResultStorage,
        status: JobStatus,
        wish: ExportRequest,
        told: ExportProgress | None = None,
    ) -> None:
        check_ended(status, wish)
        if wish.format is ExportFormat.PARQUET:
            check_parquet()
        self._store = store
        self._storage = storage
        self._status = status
        self._wish = wish
        self._told = told or _no_progress
        self.records = 0

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The bytes of a format that streams, as they are made; of `files`, an archive. Raises Conflict when the job
        changes meanwhile."""
        return self._archive() if self._wish.format is ExportFormat.FILES else self._texts()

    async def _archive(self) -> AsyncGenerator[bytes, None]:
        written_at = self._status.ended_at or 0.0
        async with aclosing(self._files()) as groups:
            async for files in groups:
                yield await asyncio.to_thread(archive_piece, files, written_at)
        yield ARCHIVE_END

    async def _texts(self) -> AsyncGenerator[bytes, None]:
        made: TextFormat = JsonLinesText()
        columns = None
        if self._wish.format is ExportFormat.CSV:
            columns = await self._survey()
            made = CsvText(columns, raw=self._wish.raw)
        yield made.head()
        async with aclosing(self._rows(columns)) as batches:
            async for rows in batches:
                yield await asyncio.to_thread(made.encode, rows)
        await self._check_unchanged()

    async def to_file(self, target: Path, *, replace: bool = False) -> ExportResult:
        """Writes the file, or the folder, and gives it its name. Raises BadInput when it cannot be written there."""
        folder = self._wish.format is ExportFormat.FILES
        real = check_target(target, folder=folder, replace=replace)
        try:
            with open_output(real, folder=folder) as part:
                size = await self.to_part(part.path)
                await asyncio.to_thread(part.publish, replace=replace)
        except OSError as error:
            raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error
        return ExportResult(self.records, size)

    async def to_part(self, path: Path) -> int:
        """Writes to a path that is ours alone; answers with how many bytes."""
        if self._wish.format is ExportFormat.FILES:
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
        make = SqliteTable if self._wish.format is ExportFormat.SQLITE else ParquetTable
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
        async with aclosing(read_files_layout(self._store, self._storage, self._status)) as groups:
            async for items, files in groups:
                yield files
                self.records += items
                self._told(items)
        await self._check_unchanged()

    async def _survey(self) -> Columns:
        survey = ColumnSurvey()
        rows = read_rows(self._store, self._storage, self._status, everything=self._wish.everything)
        async with aclosing(rows) as batches:
            async for batch in batches:
                await asyncio.to_thread(_add_all, survey, batch.rows)
                self._told(batch.items)
        return survey.columns()

    async def _rows(self, columns: Columns | None) -> AsyncGenerator[list[RecordRow], None]:
        everything = self._wish.everything
        async with aclosing(read_rows(self._store, self._storage, self._status, everything=everything)) as batches:
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


def _no_progress(items: int) -> None:
    del items


def _add_all(survey: ColumnSurvey, rows: list[RecordRow]) -> None:
    for row in rows:
        survey.add(row)
