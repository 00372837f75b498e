"""Calls on one place in S3, each with a time limit, retries, metering and translated errors.

obstore runs them on threads of its own. A put is complete or not there, and what is read is compared with the length
that S3 reported.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from swath.backends.aws.client.metering import Meter
from swath.backends.aws.s3.bucket import Bucket, IsAbandoned, abort_abandoned_uploads
from swath.backends.aws.s3.credentials import CredentialChain
from swath.backends.aws.s3.errors import S3_ERRORS, S3Unavailable, is_bucket_missing, is_precondition_failed, translate
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor

if TYPE_CHECKING:
    from obstore import ObjectMeta, UpdateVersion

__all__ = ["MULTIPART_BYTES", "Objects", "gather_all"]

T = TypeVar("T")

MULTIPART_BYTES: Final = 16 << 20
ATTEMPT_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 5.0
_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4
_AT_ONCE: Final = 32
_REST_SECONDS: Final = 0.05
_PAGE: Final = 1_000  # what S3 lists or deletes in one request
_MOST_TRIES: Final = 10
_LONGEST_READ_TURNS: Final = 20  # for a body of any size; one that stalls is noticed within one try


class Objects:
    """Paths are relative to the bucket's prefix. Every call raises StoreUnavailable when S3 does not answer in time,
    UserError when a person has to do something."""

    def __init__(
        self,
        bucket: Bucket,
        chain: CredentialChain,
        meter: Meter | None = None,
        *,
        multipart_bytes: int = MULTIPART_BYTES,
        attempt_seconds: float = ATTEMPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Nothing is tried again after `patience_seconds`; no try waits longer than `attempt_seconds` for a word."""
        self.bucket = bucket
        self.meter = Meter() if meter is None else meter
        self._chain = chain
        self._multipart_bytes = multipart_bytes
        self._attempt_seconds = attempt_seconds
        self._patience_seconds = patience_seconds
        self._opening = threading.Lock()
        self._store: S3Store | None = None
        self._client: Any = None
        self._region = "unknown"
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def put(
        self, path: str, data: bytes, headers: Mapping[str, str] | None = None, *, create: bool = False
    ) -> bool:
        """Writes a whole object. False, and nothing changed, when it was to be new and is there already.

        That may be an earlier try of the same call, whose answer was lost.
        """
        parts = 0 if create or len(data) <= self._multipart_bytes else -(-len(data) // _PART_BYTES)

        def send(store: S3Store) -> Awaitable[object]:
            return obstore.put_async(
                store,
                path,
                data,
                attributes=dict(headers or {}),
                mode="create" if create else "overwrite",
                use_multipart=bool(parts),
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

        try:
            await self._ask("put_object", send, turns=1 + -(-parts // _PARTS_AT_ONCE))
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            told = f"S3 (put_object): another process ended the upload of {path}"
            raise StoreUnavailable(told, WaitingFor.DISK) from error
        if parts:
            self.meter.requests["s3.upload_part"] += parts
            self.meter.requests["s3.complete_multipart_upload"] += 1
        return True

    async def put_if(self, path: str, data: bytes, headers: Mapping[str, str], tag: str | None) -> bool:
        """Writes a whole object in place of the one with this entity tag, or of none. False when another is there now.

        That may be an earlier try of the same call, whose answer was lost. Such a write is never a multipart one.
        """

        def send(store: S3Store) -> Awaitable[object]:
            mode: Literal["create"] | UpdateVersion = "create" if tag is None else {"e_tag": tag}
            return obstore.put_async(store, path, data, attributes=dict(headers), mode=mode, use_multipart=False)

        try:
            await self._ask("put_object", send, turns=1 + len(data) // self._multipart_bytes)
        except (FileExistsError, FileNotFoundError):  # not found: it was removed since its tag was read
            return False
        return True

    async def tag_and_headers(self, path: str) -> tuple[str, Mapping[str, str]] | None:
        """The entity tag of an object, and what its writer noted; None when there is none."""

        async def head(store: S3Store) -> tuple[str, Mapping[str, str]]:
            found = await obstore.get_async(store, path, options={"head": True})
            return str(found.meta["e_tag"]), {str(name): value for name, value in found.attributes.items()}

        try:
            return await self._ask("head_object", head)
        except FileNotFoundError:
            return None

    async def get(self, path: str) -> bytes:
        """Raises KeyError when there is nothing under the path."""

        async def read(store: S3Store) -> bytes:
            found = await obstore.get_async(store, path)
            body = bytes(await found.bytes_async())
            if len(body) != found.meta["size"]:
                raise OSError(f"the answer has {len(body)} bytes of {found.meta['size']}")
            return body

        try:
            return await self._ask("get_object", read, turns=_LONGEST_READ_TURNS)
        except FileNotFoundError:
            raise KeyError(path) from None

    async def read(self, path: str, start: int, length: int) -> bytes:
        """So many bytes from `start` on, as far as there are. Raises as `get`."""

        async def read(store: S3Store) -> bytes:
            try:
                return bytes(await obstore.get_range_async(store, path, start=start, length=max(1, length)))[:length]
            except BaseError:
                if start < (await obstore.head_async(store, path))["size"]:
                    raise
                return b""  # S3 calls a range that begins after the end an error

        try:
            return await self._ask("get_object", read, turns=_LONGEST_READ_TURNS)
        except FileNotFoundError:
            raise KeyError(path) from None

    async def exists(self, path: str) -> bool:
        """Whether there is anything under the path."""
        try:
            await self._ask("head_object", lambda store: obstore.head_async(store, path))
        except FileNotFoundError:
            return False
        return True

    async def written_at(self, path: str) -> datetime:
        """When an object that is there was written, by the clock of S3, in whole seconds."""
        found = await self._ask("head_object", lambda store: obstore.head_async(store, path))
        return found["last_modified"]

    async def pages(self, folder: str, until: datetime | None = None) -> AsyncIterator[list[str]]:
        """The paths under a folder, in order, as S3 lists them; with `until` only of what was written by then."""
        async for found in self._listed(folder.rstrip("/")):
            yield [one["path"] for one in found if until is None or one["last_modified"] <= until]

    async def beginning(self, folder: str, name: str) -> dict[str, int]:
        """The objects in a folder whose names begin so, with their sizes. Costs no more for what else is there."""
        start, sizes = f"{folder}/{name}", dict[str, int]()
        async for found in self._listed(folder, after=start):
            sizes |= {one["path"]: one["size"] for one in found if one["path"].startswith(start)}
            if not found[-1]["path"].startswith(start):  # they are in order
                break
        return sizes

    async def _listed(self, folder: str, after: str | None = None) -> AsyncIterator[Sequence[ObjectMeta]]:
        """Page by page. obstore does not repeat a page whose answer breaks off, so the listing is begun again behind
        the last one."""
        store = self._store or await self._open()
        listing, began = None, time.monotonic()
        while True:
            if listing is None:
                listing = obstore.list(store, folder or None, offset=after, chunk_size=_PAGE)
            try:
                found = await self._ask("list_objects_v2", functools.partial(_next_page, listing))
            except S3Unavailable:
                if time.monotonic() - began > self._patience_seconds:
                    raise
                listing = None
                await asyncio.sleep(_REST_SECONDS)
                continue
            if found is None:
                return
            yield found
            if len(found) < _PAGE:
                return
            after, began = found[-1]["path"], time.monotonic()

    async def delete(self, paths: Sequence[str]) -> None:
        """Removes objects; those that are not there are no trouble."""
        for start in range(0, len(paths), _PAGE):
            some = list(paths[start : start + _PAGE])
            await self._ask("delete_objects", lambda store, some=some: obstore.delete_async(store, some))  # type: ignore[misc]

    async def abort_uploads(self, folder: str, is_left: IsAbandoned) -> int:
        """Ends uploads in parts that were begun under a folder and never finished, and answers how many."""

        def abort() -> int:
            if self._client is None:
                self._client = self._chain.client(self._attempt_seconds)
            return abort_abandoned_uploads(self._client, self.bucket, folder, is_left)

        return await self._ask("list_multipart_uploads", lambda _: asyncio.to_thread(abort), turns=_LONGEST_READ_TURNS)

    async def try_place(self, operation: str, path: str) -> None:
        """Makes a request of the same kind for `path`, where nothing is kept. Raises what any call raises."""
        if operation == "put_object":
            await self.put(path, b"")
            operation = "delete_objects"
        if operation == "delete_objects":
            await self.delete([path])
        elif operation == "list_objects_v2":
            async for _ in self.pages(path):
                pass
        else:
            await self.exists(path)

    async def link(self, path: str, seconds: int, asked: Mapping[str, str]) -> str:
        """A link to download the object, for who has no credentials; `asked` says how S3 is to answer to it."""

        def sign() -> str:
            self._opened()
            return self._chain.link(self.bucket.name, self.bucket.key(path), asked, seconds)

        return await self._ask("sign", lambda _: asyncio.to_thread(sign))

    async def close(self) -> None:
        """Lets obstore's threads come to rest: one that touches Python while the interpreter ends aborts it."""
        if self._store is not None:
            await asyncio.sleep(_REST_SECONDS)

    async def _ask(self, operation: str, call: Callable[[S3Store], Awaitable[T]], *, turns: int = 1) -> T:
        """`turns`: how many requests are made one after the other."""
        try:
            store = self._store or await self._open()
            async with self._room, asyncio.timeout((self._patience_seconds + self._attempt_seconds) * turns):
                if operation != "sign":  # which asks nobody
                    self.meter.requests[f"s3.{operation}"] += 1
                return await call(store)
        except S3_ERRORS as error:
            if isinstance(error, FileNotFoundError) and not is_bucket_missing(error):
                raise
            if is_precondition_failed(error):
                raise FileExistsError(str(error)) from error
            raise translate(operation, self.bucket, self._region, self._chain.trouble or error) from error

    async def _open(self) -> S3Store:
        """Settings and endpoints are read from files, which blocks."""
        return await asyncio.to_thread(self._opened)

    def _opened(self) -> S3Store:
        with self._opening:
            if self._store is None:
                endpoint, self._region = self._chain.endpoint()
                self._store = S3Store(
                    self.bucket.name,
                    prefix=self.bucket.prefix or None,
                    endpoint=endpoint,
                    region=self._region,
                    credential_provider=self._chain,
                    client_options=self._client_options(endpoint),
                    retry_config={
                        "max_retries": _MOST_TRIES,
                        "retry_timeout": timedelta(seconds=self._patience_seconds),
                        "backoff": {
                            "init_backoff": timedelta(seconds=0.1),
                            "max_backoff": timedelta(seconds=2),
                            "base": 2,
                        },
                    },
                )
            return self._store

    def _client_options(self, endpoint: str) -> Any:
        return {
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=self._attempt_seconds),
            "timeout": timedelta(seconds=self._attempt_seconds * _LONGEST_READ_TURNS),
            "user_agent": "swath",
        }


async def _next_page(listing: AsyncIterator[Sequence[ObjectMeta]], _: S3Store) -> Sequence[ObjectMeta] | None:
    return await anext(listing, None)


async def gather_all(calls: Iterable[Awaitable[object]]) -> None:
    """Waits for every one, also when some fail: whoever repeats the call does not meet its own former tries."""
    for done in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done
