"""Evidence (R8): from each value of an item's record back to the pages that it was extracted from.

Before: the item has ended and its files are stored. After: `swath jobs item` and the API. Extraction sees all pages of
an item at once, so of several it is not known which one a value is from: those in which its text occurs are named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from swath.domain.attempt import Finding
from swath.domain.errors import BadInput, StoreDamaged
from swath.domain.failure import Failure
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.layout import file_of
from swath.domain.page import Page
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState
from swath.pipeline.finish.artifacts import DATA_FILE, METADATA_FILE, StoredPage, stored_in
from swath.pipeline.finish.stored import contents
from swath.pipeline.results.current import CurrentItem, current_item
from swath.pipeline.results.flatten import Scalar, flatten
from swath.pipeline.results.occurrence import can_occur, occurs, searchable
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Evidence", "Source", "Value", "evidence_of"]

_PAGES: Final = (".html", ".html.gz")  # a download never ends so
_Texts = Mapping[str, tuple[str, ...]]  # of pages by name


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the item. The hash is of the body as fetched; `artifact` is the key of the stored file, None when pages
    were not kept. `from_cache`: it came in answer to a request of another item of the job."""

    name: str
    url: str
    status: int
    fetched_at: float
    sha256: str
    size: int
    from_cache: bool = False
    file: str | None = None
    artifact: str | None = None


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a record, by its name as exports have it. `record` counts from 1 where an item has several.

    `pages` are those that the record was extracted from, all of them. `found_in` are those of them in which the text of
    the value occurs; None where that cannot be looked for.
    """

    record: int
    field: str
    value: Scalar
    pages: tuple[str, ...]
    found_in: tuple[str, ...] | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Of the current version: how it has ended there, and its values. `job_id` is the job that has the pages;
    `generation` and `proxy_tier` as CurrentItem has them. `damage` says which files cannot be read, one line each."""

    version: int
    scraper_id: str
    scraper_version: str
    state: ItemState
    outcome: Finding | None
    failure: Failure | None
    reason: str | None
    job_id: str
    generation: int | None
    proxy_tier: str | None
    pages: tuple[Source, ...] = ()
    values: tuple[Value, ...] = ()
    damage: tuple[str, ...] = ()


async def evidence_of(store: JobStore, storage: ResultStorage, status: JobStatus, item_id: str) -> Evidence:
    """Raises UnknownName when the job has no such item. What is damaged is told, and hides nothing else."""
    item = await current_item(store, status, item_id)
    record = item.record
    files, damage = await _files(storage, item.first_job_id, item.first, METADATA_FILE, pages=True)
    stored = stored_in(files[METADATA_FILE]).pages if METADATA_FILE in files else ()
    data, no_data = await _files(storage, item.job.job_id, record, DATA_FILE)
    values = await asyncio.to_thread(_values, data.get(DATA_FILE), stored, files)
    return Evidence(
        version=item.version,
        scraper_id=item.job.scraper_id,
        scraper_version=record.scraper_version,
        state=record.state,
        outcome=record.finding,
        failure=record.failure,
        reason=record.reason,
        job_id=item.first_job_id,
        generation=item.generation,
        proxy_tier=item.proxy_tier,
        pages=tuple(_source(item, page) for page in stored),
        values=values,
        damage=(*damage, *no_data),
    )


async def _files(
    storage: ResultStorage, job_id: str, record: ItemRecord, file: str, *, pages: bool = False
) -> tuple[dict[str, bytes], list[str]]:
    """That file, and pages if they are wanted, as far as they can be read; and what is wrong with the others."""
    by_name = {file_of(record.item_id, artifact.key): artifact for artifact in record.artifacts}
    wanted = {name: one for name, one in by_name.items() if name == file or (pages and name.endswith(_PAGES))}
    try:
        return await contents(storage, job_id, record.item_id, list(wanted.values())), []
    except StoreDamaged:
        return await _one_by_one(storage, job_id, record.item_id, wanted)


async def _one_by_one(
    storage: ResultStorage, job_id: str, item_id: str, wanted: Mapping[str, Artifact]
) -> tuple[dict[str, bytes], list[str]]:
    files: dict[str, bytes] = {}
    damage: list[str] = []
    about: list[Artifact] = []  # says how pages are stored, if it can be read itself
    for name in sorted(wanted, key=lambda name: name != METADATA_FILE):
        try:
            files |= await contents(storage, job_id, item_id, [*about, wanted[name]])
        except StoreDamaged as error:
            damage.append(str(error))
        else:
            about = [wanted[name]] if name == METADATA_FILE else about
    return files, damage


def _source(item: CurrentItem, page: StoredPage) -> Source:
    keys = {file_of(item.first.item_id, artifact.key): artifact.key for artifact in item.first.artifacts}
    plain = None if page.file is None else page.file.removesuffix(".gz")
    return Source(
        name=page.name,
        url=page.url,
        status=page.status,
        fetched_at=page.fetched_at,
        sha256=page.sha256,
        size=page.size,
        from_cache=page.from_cache,
        file=plain,
        artifact=None if page.file is None else keys.get(page.file) or keys.get(plain or ""),
    )


def _values(data: bytes | None, stored: Sequence[StoredPage], files: Mapping[str, bytes]) -> tuple[Value, ...]:
    if data is None:
        return ()
    texts = dict(_texts(stored, files))
    names = tuple(page.name for page in stored)
    return tuple(
        Value(record=number, field=field, value=value, pages=names, found_in=_found_in(value, names, texts))
        for number, record in enumerate(_records(data), start=1)
        for field, value in flatten(record).items()
    )


def _records(data: bytes) -> list[Any]:
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"the stored record cannot be read: {error}; see `swath jobs verify`") from None
    return decoded if isinstance(decoded, list) else [decoded]


def _texts(stored: Sequence[StoredPage], files: Mapping[str, bytes]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for page in stored:
        body = None if page.file is None else files.get(page.file.removesuffix(".gz"))
        if body is not None:
            as_fetched = Page(name=page.name, url=page.url, status=page.status, body=body, charset=page.charset)
            yield page.name, searchable(as_fetched.text)


def _found_in(value: Scalar, names: Sequence[str], texts: _Texts) -> tuple[str, ...] | None:
    """Not looked for where a page cannot be read: it might be the one."""
    if not can_occur(value) or not names or any(name not in texts for name in names):
        return None
    return tuple(name for name in names if occurs(value, texts[name]))
