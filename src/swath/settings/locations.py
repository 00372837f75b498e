"""Where store, queue and results are, each given as a URL.

No URL carries credentials; those are AWS's own business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from swath.domain.errors import BadInput

__all__ = [
    "DynamoLocation",
    "FolderLocation",
    "ResultsLocation",
    "S3Location",
    "SqliteLocation",
    "SqsLocation",
    "StorageLocations",
    "StoreLocation",
    "parse_queue",
    "parse_results",
    "parse_store",
]

STORE_FILE: Final = "swath.db"
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_QUEUE: Final = re.compile(r"[A-Za-z0-9_-]{1,70}")  # 80 are allowed, of which ten are for what tells the queues apart
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.*'()/=-]{0,200}")
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")
_ON_DISK: Final = ("sqlite:///", "file:///")


class SqliteLocation(msgspec.Struct, frozen=True):
    """The folder of the embedded store; the file in it has a name of its own."""

    folder: Path

    def __str__(self) -> str:
        return f"sqlite://{self.folder}"


class DynamoLocation(msgspec.Struct, frozen=True):
    """A table. Without a region that of the AWS environment counts; the same holds for the places below."""

    table: str
    region: str | None = None

    def __str__(self) -> str:
        return _format_url("dynamodb", self.table, self.region)


class SqsLocation(msgspec.Struct, frozen=True):
    """What the names of the queues begin with."""

    name: str
    region: str | None = None

    def __str__(self) -> str:
        return _format_url("sqs", self.name, self.region)


class FolderLocation(msgspec.Struct, frozen=True):
    """A folder of this machine, or one that several machines share."""

    folder: Path

    def __str__(self) -> str:
        return f"file://{self.folder}"


class S3Location(msgspec.Struct, frozen=True):
    """A bucket, and what all our keys in it begin with: without slashes at its ends, and empty for the whole bucket."""

    bucket: str
    prefix: str = ""
    region: str | None = None

    def __str__(self) -> str:
        return _format_url("s3", f"{self.bucket}/{self.prefix}".rstrip("/"), self.region)


StoreLocation: TypeAlias = SqliteLocation | DynamoLocation
ResultsLocation: TypeAlias = FolderLocation | S3Location


class StorageLocations(msgspec.Struct, frozen=True, kw_only=True):
    """All three, with what follows from the data folder and from each other. The embedded store needs no queue."""

    store: StoreLocation
    queue: SqsLocation | None
    results: ResultsLocation

    @classmethod
    def of(
        cls, data: Path, store: StoreLocation | None, queue: SqsLocation | None, results: ResultsLocation | None
    ) -> StorageLocations:
        """Raises BadInput when they do not go together."""
        store = store or SqliteLocation(data)
        if isinstance(store, SqliteLocation):
            if queue is not None:
                raise BadInput(
                    f"SWATH_QUEUE ({queue}) goes with a DynamoDB store only; remove it, "
                    "or set SWATH_STORE=dynamodb://TABLE"
                )
        elif queue is None:
            queue = _queue_of(store)
        return cls(store=store, queue=queue, results=results or FolderLocation(data / "results"))

    @property
    def uses_aws(self) -> bool:
        """Whether any of them is on AWS."""
        return isinstance(self.store, DynamoLocation) or isinstance(self.results, S3Location)

    @property
    def doubt(self) -> str | None:
        """What somebody should know of a choice that works, but may not be what was meant."""
        if isinstance(self.store, DynamoLocation) and isinstance(self.results, FolderLocation):
            return (
                f"the store is on AWS and results go to the folder {self.results.folder}: all machines must share it, "
                "or set SWATH_RESULTS=s3://BUCKET/PREFIX"
            )
        return None


def _queue_of(store: DynamoLocation) -> SqsLocation:
    name = store.table.replace(".", "-")
    if _QUEUE.fullmatch(name) is None:
        raise BadInput(f"the table name {store.table!r} is too long to name the queues too; set SWATH_QUEUE=sqs://NAME")
    return SqsLocation(name, store.region)


def parse_store(url: str, name: str) -> StoreLocation:
    """From `sqlite:///folder` or `dynamodb://table?region=…`. Raises BadInput, as do the others."""
    makers: dict[str, Callable[[_UrlParts], StoreLocation]] = {"sqlite": _sqlite, "dynamodb": _dynamo}
    parts = _split(url, name, makers)
    return makers[parts.scheme](parts)


def parse_queue(url: str, name: str) -> SqsLocation:
    """From `sqs://name?region=…`."""
    parts = _split(url, name, ("sqs",))
    if parts.path.strip("/") or _QUEUE.fullmatch(parts.host) is None:
        raise parts.refused("name a queue by up to 70 letters, digits, '-' and '_': sqs://NAME")
    return SqsLocation(parts.host, parts.region)


def parse_results(url: str, name: str) -> ResultsLocation:
    """From `file:///folder` or `s3://bucket/prefix?region=…`."""
    makers: dict[str, Callable[[_UrlParts], ResultsLocation]] = {"file": _folder, "s3": _s3}
    parts = _split(url, name, makers)
    return makers[parts.scheme](parts)


class _UrlParts(msgspec.Struct, frozen=True):
    """A URL taken apart; `name` is where it was written."""

    url: str
    name: str
    scheme: str
    host: str
    path: str
    region: str | None

    def refused(self, hint: str) -> BadInput:
        return BadInput(f"{self.name} cannot be used: {self.url!r}; {hint}")


def _split(url: str, name: str, schemes: Mapping[str, object] | tuple[str, ...]) -> _UrlParts:
    known = " or ".join(f"{scheme}://" for scheme in schemes)
    if "@" in url and not url.startswith(_ON_DISK):  # nothing of it is told: it may be somebody's key
        raise BadInput(f"{name} must not carry credentials; AWS's own variables and files hold them")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadInput(f"{name} is no URL: {url!r}; it begins with {known}") from None
    if parts.scheme not in schemes:
        raise BadInput(f"{name} must begin with {known}, not {url!r}")
    on_disk = url.startswith(_ON_DISK)
    if "#" in url:
        cure = "write it as %23" if on_disk else "leave it out"
        raise BadInput(f"{name} cannot be used: {url!r}; nothing after a '#' would count: {cure}")
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    region = None if on_disk else asked.pop("region", None)
    if asked or (parts.query and _REGION.fullmatch(region or "") is None):
        may = "no options" if on_disk else "?region=NAME alone, such as ?region=us-east-1"
        raise BadInput(f"{name} cannot be used: {url!r}; {parts.scheme}:// takes {may}")
    return _UrlParts(url, name, parts.scheme, parts.netloc, unquote(parts.path), region)


def _sqlite(parts: _UrlParts) -> SqliteLocation:
    path = _path(parts)
    if path.suffix in {".db", ".sqlite", ".sqlite3"}:
        if path.name != STORE_FILE:
            raise parts.refused(f"name the folder of the store, in which its file is called {STORE_FILE}")
        path = path.parent
    return SqliteLocation(path)


def _folder(parts: _UrlParts) -> FolderLocation:
    return FolderLocation(_path(parts))


def _path(parts: _UrlParts) -> Path:
    if parts.host or not parts.path.strip("/") or "\0" in parts.path:
        raise parts.refused(f"write a whole path after three slashes: {parts.scheme}:///srv/swath")
    return Path("/" + parts.path.lstrip("/"))


def _dynamo(parts: _UrlParts) -> DynamoLocation:
    if parts.path.strip("/") or _TABLE.fullmatch(parts.host) is None:
        raise parts.refused("name a table by 3 to 255 letters, digits, '-', '_' and '.': dynamodb://TABLE")
    return DynamoLocation(parts.host, parts.region)


def _s3(parts: _UrlParts) -> S3Location:
    prefix = parts.path.strip("/")
    if _BUCKET.fullmatch(parts.host) is None:
        raise parts.refused("name a bucket by 3 to 63 small letters, digits, '-' and '.': s3://BUCKET/PREFIX")
    if _PREFIX.fullmatch(prefix) is None or "//" in prefix or set(prefix.split("/")) & {".", ".."}:
        raise parts.refused("its prefix may have letters, digits, '-', '_', '.', '=' and single slashes")
    return S3Location(parts.host, prefix, parts.region)


def _format_url(scheme: str, rest: str, region: str | None) -> str:
    return f"{scheme}://{rest}" + ("" if region is None else f"?region={region}")
