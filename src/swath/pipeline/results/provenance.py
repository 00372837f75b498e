"""Traces each value of an item's record back to the pages it was extracted from.

Extraction sees all pages of an item at once. Of several pages those that contain the value's text are named, which
does
not prove that it was read there.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from swath.domain.errors import BadInput, StoreDamaged
from swath.domain.failure import Failure
from swath.domain.item import ItemRecord, SuccessOutcome
from swath.domain.job import JobStatus
from swath.domain.result import Artifact, Page
from swath.domain.storage_keys import artifact_file_name
from swath.domain.transitions import ItemState
from swath.pipeline.formats.artifacts import DATA_FILE, METADATA_FILE, StoredPage, parse_metadata
from swath.pipeline.formats.stored_files import read_item_files
from swath.pipeline.results.flatten import Scalar, flatten
from swath.pipeline.results.records import CurrentItem, current_item
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Evidence", "EvidencePage", "EvidenceValue", "can_occur", "find_evidence", "occurs_in", "searchable_texts"]

# None of these looks further than the next bracket, so a hostile page costs no more than its length.
_TAG: Final = re.compile(r"<[^<>]*>")
_INSIDE_WORDS: Final = re.compile(
    r"<!--[^<>]*-->|</?(?:a|b|em|font|i|mark|small|span|strong|sub|sup|u|wbr)(?:\s[^<>]*)?>", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"\s+")
# Amounts are stored as text, with neither currency nor commas; what begins with a zero is an identifier.
_AMOUNT: Final = re.compile(r"(?P<minus>-?)(?P<whole>0|[1-9][0-9]{0,30})(?P<cents>(?:\.[0-9]+)?)", re.ASCII)
_NEGATIVE: Final = ("-{}", "-${}", "\u2212{}", "\u2212${}", "({})", "(${})")


def can_occur(value: Scalar) -> bool:
    """Nothing, yes and no have no text of their own."""
    return not isinstance(value, bool) and value is not None and value != ""


def searchable_texts(text: str) -> tuple[str, ...]:
    """A page as it came, and what of it can be read: neither entities nor line breaks must hide a value."""
    return _plain(text), _plain(_TAG.sub(" ", _INSIDE_WORDS.sub("", text)))


def occurs_in(value: Scalar, texts: tuple[str, ...]) -> bool:
    """In any of the forms in which people write it."""
    return any(pattern.search(text) for pattern in map(_pattern, _forms(value)) for text in texts)


def _plain(text: str) -> str:
    return _BLANKS.sub(" ", html.unescape(text))


def _forms(value: Scalar) -> Iterator[str]:
    if isinstance(value, str):
        text = _BLANKS.sub(" ", value).strip()
        yield text
        amount = _AMOUNT.fullmatch(text)
        if amount is not None:
            whole, cents = amount["whole"], amount["cents"]
            yield from _signed((whole + cents, f"{int(whole):,}{cents}"), negative=amount["minus"] != "")
    elif isinstance(value, (int, float)):
        size = abs(value)
        forms = (str(size), f"{size:,}", f"{size:.2f}", f"{size:,.2f}", f"{size:g}")
        yield from _signed(forms, negative=value < 0)


def _signed(forms: Iterable[str], *, negative: bool) -> Iterator[str]:
    for form in dict.fromkeys(forms):
        yield from (how.format(form) for how in _NEGATIVE) if negative else (form,)


def _pattern(form: str) -> re.Pattern[str]:
    before = r"(?<!\w)(?<!\d[.,])" if form[:1].isalnum() else ""
    after = r"(?!\w)(?![.,]\d)" if form[-1:].isalnum() else ""
    return re.compile(before + re.escape(form) + after) if form else re.compile(r"(?!)")


_PAGE_SUFFIXES: Final = (".html", ".html.gz")  # a download never ends so
_Texts = Mapping[str, tuple[str, ...]]  # of pages by name


class EvidencePage(msgspec.Struct, frozen=True, kw_only=True):
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


class EvidenceValue(msgspec.Struct, frozen=True, kw_only=True):
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
    outcome: SuccessOutcome | None
    failure: Failure | None
    reason: str | None
    job_id: str
    generation: int | None
    proxy_tier: str | None
    pages: tuple[EvidencePage, ...] = ()
    values: tuple[EvidenceValue, ...] = ()
    damage: tuple[str, ...] = ()


async def find_evidence(store: JobStore, storage: ResultStorage, status: JobStatus, item_id: str) -> Evidence:
    """Raises UnknownName when the job has no such item. What is damaged is told, and hides nothing else."""
    item = await current_item(store, status, item_id)
    record = item.record
    files, damage = await _files(storage, item.first_job_id, item.first, METADATA_FILE, pages=True)
    stored = parse_metadata(files[METADATA_FILE]).pages if METADATA_FILE in files else ()
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
        pages=tuple(_evidence_page(item, page) for page in stored),
        values=values,
        damage=(*damage, *no_data),
    )


async def _files(
    storage: ResultStorage, job_id: str, record: ItemRecord, file: str, *, pages: bool = False
) -> tuple[dict[str, bytes], list[str]]:
    """That file, and pages if they are wanted, as far as they can be read; and what is wrong with the others."""
    by_name = {artifact_file_name(record.item_id, artifact.key): artifact for artifact in record.artifacts}
    wanted = {name: one for name, one in by_name.items() if name == file or (pages and name.endswith(_PAGE_SUFFIXES))}
    try:
        return await read_item_files(storage, job_id, record.item_id, list(wanted.values())), []
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
            files |= await read_item_files(storage, job_id, item_id, [*about, wanted[name]])
        except StoreDamaged as error:
            damage.append(str(error))
        else:
            about = [wanted[name]] if name == METADATA_FILE else about
    return files, damage


def _evidence_page(item: CurrentItem, page: StoredPage) -> EvidencePage:
    keys = {artifact_file_name(item.first.item_id, artifact.key): artifact.key for artifact in item.first.artifacts}
    plain = None if page.file is None else page.file.removesuffix(".gz")
    return EvidencePage(
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


def _values(data: bytes | None, stored: Sequence[StoredPage], files: Mapping[str, bytes]) -> tuple[EvidenceValue, ...]:
    if data is None:
        return ()
    texts = dict(_texts(stored, files))
    names = tuple(page.name for page in stored)
    return tuple(
        EvidenceValue(record=number, field=field, value=value, pages=names, found_in=_found_in(value, names, texts))
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
            yield page.name, searchable_texts(as_fetched.text)


def _found_in(value: Scalar, names: Sequence[str], texts: _Texts) -> tuple[str, ...] | None:
    """Not looked for where a page cannot be read: it might be the one."""
    if not can_occur(value) or not names or any(name not in texts for name in names):
        return None
    return tuple(name for name in names if occurs_in(value, texts[name]))
