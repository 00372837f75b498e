"""Processes that die at a request, or fall asleep before one: storages over Objects that do so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results

__all__ = ["Killed", "Mortal", "Sleepy", "mortal"]


class Killed(BaseException):
    """The process is gone: nothing that it was about to do happens."""


class Mortal:
    """Objects of a process that dies before, or right after, its n-th request. `made` counts them."""

    def __init__(self, inner: Objects, dies_at: int, *, after: bool) -> None:
        self.inner = inner
        self.made = 0
        self._dies_at = dies_at
        self._after = after
        for name in (
            *("put", "put_if", "tag_and_headers", "get", "read", "exists", "delete", "beginning"),
            "abort_uploads",
        ):
            setattr(self, name, self._wrapped(getattr(inner, name)))

    def _wrapped(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._step()
            answer = await call(*args, **kwargs)
            if self._after and self.made >= self._dies_at:
                raise Killed
            return answer

        return wrapped

    async def pages(self, folder: str) -> Any:
        self._step()
        async for page in self.inner.pages(folder):
            yield page

    def _step(self) -> None:
        self.made += 1
        if self.made >= self._dies_at + self._after:
            raise Killed


def mortal(place: Objects, dies_at: int, *, after: bool) -> tuple[S3Results, Mortal]:
    made = Mortal(place, dies_at, after=after)
    return S3Results(made), made  # type: ignore[arg-type]  # it has all that is asked for


class Sleepy(Objects):
    """Objects of a process that is frozen before the first put whose path holds the word, and before all after it."""

    word = ""

    def fall_asleep(self, word: str) -> None:
        self.word, self.asleep, self.awake = word, asyncio.Event(), asyncio.Event()

    async def put(self, path: str, *args: Any, **kwargs: Any) -> bool:
        if self.word and self.word in path:
            self.asleep.set()
            await self.awake.wait()
        return await super().put(path, *args, **kwargs)
