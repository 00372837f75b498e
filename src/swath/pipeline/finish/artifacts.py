"""The files of one item (R1): pages, downloads, data and metadata as stored bytes, and pages back from them.

Before: an attempt's Result. After: result storage keeps the files as they are; re-extraction reads the pages again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from isal import isal_zlib

from swath.domain.errors import BadInput
from swath.domain.job import Job
from swath.domain.keys import download_name, page_name
from swath.domain.page import Page
from swath.domain.policy import Keep
from swath.domain.result import Result

__all__ = ["DATA_FILE", "METADATA_FILE", "StoredPage", "files_of", "pages_of"]

DATA_FILE: Final = "data.json"
METADATA_FILE: Final = "metadata.json"

_PLAIN_BYTES: Final = 1_024  # pages up to this size are not compressed
_GZIP_LEVEL: Final = 1  # of isal; five times as fast as zlib's 6 at nearly the same size
_GZIP_WBITS: Final = 31  # a gzip header, which isal writes without time or name: the same page gives the same bytes
_GzipError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance


class StoredPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as `metadata.json` lists it. `file` is None when only the data was to be kept; the hash is of the body."""

    name: str
    file: str | None
    url: str
    status: int
    content_type: str
    charset: str
    fetched_at: float
    sha256: str
    size: int


class _Metadata(msgspec.Struct, frozen=True):
    pages: tuple[StoredPage, ...]


_decode_metadata: Final = msgspec.json.Decoder(_Metadata).decode


def files_of(job: Job, item_id: str, result: Result | None, keep: Keep, about: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of an item by name. `about` goes into the metadata beside ours: scraper version, outcome, times.

    Raises ValueError when two pages or two downloads have the same name.
    """
    result = result or Result()
    files: dict[str, bytes] = {}
    for names in ([page.name for page in result.pages], [name for name, _ in result.downloads]):
        if len(set(names)) < len(names):
            raise ValueError(f"two files of one item have the same name: {', '.join(names)}")
    pages = [_keep_page(files, page, keep) for page in result.pages]
    downloads = {name: download_name(name) for name, _ in result.downloads}
    files |= {downloads[name]: body for name, body in result.downloads}
    if keep.data and result.data is not None:
        files[DATA_FILE] = _json(result.data)
    metadata = {
        **about,
        "job_id": job.job_id,
        "item_id": item_id,
        "scraper_id": job.scraper_id,
        "pages": pages,
        "downloads": downloads,
    }
    files[METADATA_FILE] = _json(metadata)
    return files


def _keep_page(files: dict[str, bytes], page: Page, keep: Keep) -> StoredPage:
    file = None
    if keep.pages and len(page.body) > _PLAIN_BYTES:
        file = page_name(page.name) + ".gz"
        files[file] = isal_zlib.compress(page.body, _GZIP_LEVEL, _GZIP_WBITS)
    elif keep.pages:
        file = page_name(page.name)
        files[file] = page.body
    return StoredPage(
        name=page.name,
        file=file,
        url=page.url,
        status=page.status,
        content_type=page.content_type,
        charset=page.charset,
        fetched_at=page.fetched_at,
        sha256=page.sha256,
        size=len(page.body),
    )


def _json(value: Any) -> bytes:
    """JSON in UTF-8. Half characters, which a site's JSON can hold and no UTF-8 can, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(part) for part in value]
    return value


def pages_of(files: Mapping[str, bytes]) -> tuple[Page, ...]:
    """The pages as they were fetched, from an item's stored files; those that were not kept are left out.

    Raises BadInput when the files are not what their metadata says.
    """
    try:
        stored = _decode_metadata(files[METADATA_FILE]).pages
        return tuple(_page(page, _stored(files, page.file)) for page in stored if page.file is not None)
    except KeyError as missing:
        raise BadInput(f"the stored file {missing.args[0]} is missing; see `swath jobs verify`") from None
    except (msgspec.MsgspecError, _GzipError) as error:
        raise BadInput(f"the stored files cannot be read: {error}; see `swath jobs verify`") from error


def _stored(files: Mapping[str, bytes], name: str) -> bytes:
    """In a bucket a compressed page has the name of the page, and a header that says so."""
    plain = name.removesuffix(".gz")
    return files[plain] if name not in files and plain in files else files[name]


def _page(stored: StoredPage, body: bytes) -> Page:
    if stored.file is not None and stored.file.endswith(".gz"):
        body = isal_zlib.decompress(body, _GZIP_WBITS)
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
    )
