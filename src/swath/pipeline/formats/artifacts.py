"""The files of one item: pages, downloads, data and metadata as stored bytes, and pages read back from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import msgspec
from isal import isal_zlib

from swath.domain.errors import BadInput
from swath.domain.execution_policy import Keep
from swath.domain.job import Job
from swath.domain.result import Download, Page, Result
from swath.domain.storage_keys import REFUSED_PAGE, download_file_name, page_file_name

__all__ = [
    "DATA_FILE",
    "DEPTH_LIMIT",
    "METADATA_FILE",
    "REFUSED_PAGE",
    "StoredMetadata",
    "StoredPage",
    "check_unique_names",
    "encode_json",
    "make_item_files",
    "page_file",
    "parse_metadata",
    "read_pages",
    "record_of",
    "stored_download",
    "stored_page",
]

DATA_FILE: Final = "data.json"
METADATA_FILE: Final = "metadata.json"
DEPTH_LIMIT: Final = 200  # of lists and objects in a record

_UNCOMPRESSED_BYTES: Final = 1_024  # pages up to this size are not compressed
_GZIP_LEVEL: Final = 1  # of isal; five times as fast as zlib's 6 at nearly the same size
_TOO_DEEP: Final = f"it is nested more than {DEPTH_LIMIT} levels deep"
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET: Final = re.compile(rb"[][{}]")
_GZIP_WBITS: Final = 31  # a gzip header, which isal writes without time or name: the same page gives the same bytes


class StoredPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page or a download as `metadata.json` lists it. `file` is None when pages were not to be kept; the hash is of
    the body."""

    name: str
    file: str | None
    url: str
    status: int
    content_type: str
    charset: str
    fetched_at: float
    sha256: str
    size: int
    from_cache: bool = False


class StoredMetadata(msgspec.Struct, frozen=True):
    """What is stored of an item's pages and downloads, as its metadata lists them."""

    pages: tuple[StoredPage, ...] = ()
    downloads: tuple[StoredPage, ...] = ()


_decode_stored: Final = msgspec.json.Decoder(StoredMetadata).decode


def record_of(job: Job, item_id: str, stored: StoredMetadata, about: Mapping[str, Any]) -> bytes:
    """`metadata.json` of an item. `about` goes into it beside ours: scraper version, outcome, times."""
    ours = {"job_id": job.job_id, "item_id": item_id, "scraper_id": job.scraper_id}
    return encode_json({**about, **ours, "pages": stored.pages, "downloads": stored.downloads})


def stored_download(download: Download) -> StoredPage:
    """A download as the metadata lists it, by the name that the scraper gave."""
    named = msgspec.structs.replace(download.page, name=download.name)
    return stored_page(named, download_file_name(download.name))


def check_unique_names(result: Result) -> None:
    """Raises ValueError when two pages or two downloads have the same name."""
    if len(result.pages) < 2 and len(result.downloads) < 2:  # as most have it
        return
    for files in (result.pages, result.downloads):
        if len({file.name for file in files}) < len(files):
            names = [file.name for file in files]
            raise ValueError(f"two files of one item have the same name: {', '.join(names)}")


def make_item_files(
    job: Job, item_id: str, result: Result | None, keep: Keep, about: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of an item by name. Raises ValueError when two pages or two downloads have the same name."""
    result = result or Result()
    check_unique_names(result)
    files: dict[str, bytes] = {}
    pages = [_keep_page(files, page, keep) for page in result.pages]
    files |= {download_file_name(download.name): download.body for download in result.downloads}
    if keep.data and result.data is not None:
        files[DATA_FILE] = encode_json(result.data)
    stored = StoredMetadata(tuple(pages), tuple(map(stored_download, result.downloads)))
    files[METADATA_FILE] = record_of(job, item_id, stored, about)
    return files


def _keep_page(files: dict[str, bytes], page: Page, keep: Keep) -> StoredPage:
    if not keep.pages:
        return stored_page(page, None)
    file, stored = page_file(page.name, page.body)
    files[file] = stored
    return stored_page(page, file)


def page_file(name: str, body: bytes) -> tuple[str, bytes]:
    """The file of a page that lies by itself, and its bytes: large ones are compressed."""
    if len(body) <= _UNCOMPRESSED_BYTES:
        return page_file_name(name), body
    return f"{page_file_name(name)}.gz", isal_zlib.compress(body, _GZIP_LEVEL, _GZIP_WBITS)


def stored_page(page: Page, file: str | None) -> StoredPage:
    """A page as the metadata lists it."""
    return StoredPage(
        name=page.name,
        file=file,
        url=page.url,
        status=page.status,
        content_type=page.content_type,
        charset=page.charset,
        fetched_at=page.fetched_at,
        sha256=page.sha256,
        size=page.size,
        from_cache=page.from_cache,
    )


def encode_json(value: Any) -> bytes:
    """JSON in UTF-8. Half characters, which a site's JSON can hold and no UTF-8 can, become U+FFFD.

    Raises ValueError for what is nested so deep that others could not read it: they have less of the stack left.
    """
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_without_lone_surrogates(msgspec.to_builtins(value)))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if encoded.count(b"[") + encoded.count(b"{") > DEPTH_LIMIT and _depth_of(encoded) > DEPTH_LIMIT:
        raise ValueError(_TOO_DEEP)
    return encoded


def _depth_of(encoded: bytes) -> int:
    brackets = _BRACKET.findall(_STRING.sub(b"", encoded))
    return max(accumulate([1 if bracket in (b"[", b"{") else -1 for bracket in brackets]), default=0)


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_lone_surrogates(part) for part in value]
    return value


def parse_metadata(metadata: bytes) -> StoredMetadata:
    """What an item's `metadata.json` lists. Raises BadInput."""
    try:
        return _decode_stored(metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"the stored metadata cannot be read: {error}; see `swath jobs verify`") from error


def read_pages(files: Mapping[str, bytes]) -> tuple[Page, ...]:
    """The pages as they were fetched, from an item's unpacked files (stored.py); those not kept are left out.

    Raises BadInput when the files are not what their metadata says.
    """
    try:
        stored = parse_metadata(files[METADATA_FILE]).pages
        return tuple([_page(page, files[page.file.removesuffix(".gz")]) for page in stored if page.file is not None])
    except KeyError as missing:
        raise BadInput(f"the stored file {missing.args[0]} is missing; see `swath jobs verify`") from None


def _page(stored: StoredPage, body: bytes) -> Page:
    if len(body) != stored.size:
        raise BadInput(
            f"the stored page {stored.file} has {len(body)} bytes, not {stored.size}; see `swath jobs verify`"
        )
    return Page(
        name=stored.name,
        url=stored.url,
        status=stored.status,
        body=body,
        content_type=stored.content_type,
        charset=stored.charset,
        fetched_at=stored.fetched_at,
        from_cache=stored.from_cache,
        digest=stored.sha256,
    )
