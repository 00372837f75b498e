"""Progress: work on a whole job as one answer, a JSON object on each line: how far it is, again and again, then what it
found. Before: routes/checks.py. After: exports.py sends the lines, and keeps the number of such answers small.

What goes wrong within the first second is told like any other error; later it is a line with `error`, the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

import msgspec

from swath.domain.errors import SwathError
from swath.entrypoints.api.edge import told
from swath.entrypoints.api.errors import ApiError

__all__ = ["Progress", "Work", "failing_in_line", "line"]

T = TypeVar("T")

PROGRESS_SECONDS: Final = 1.0


class _NoReader(Exception):
    """Whoever asked has gone away."""


class Progress:
    """How many items of how many are done. Given to the work, which calls `add`; that stops it when nobody reads."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self.stopped = False

    def add(self, items: int) -> None:
        """So many more are done."""
        if self.stopped:
            raise _NoReader
        self._done += items

    def line(self) -> bytes:
        """As it is now."""
        return line({"progress": {"done": self._done, "total": self._total}})


class Work(Generic[T]):
    """Work that is waited for line by line. It is stopped by its progress and never cancelled, because it may be in the
    middle of a file that belongs to it."""

    def __init__(self, work: Callable[[Progress], Coroutine[Any, Any, T]], total: int) -> None:
        self._work = work
        self._progress = Progress(total)
        self._result: T | None = None

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """How far it is, until it is done. Raises what it raises."""
        task = asyncio.create_task(self._work(self._progress))
        try:
            while not (await asyncio.wait({task}, timeout=PROGRESS_SECONDS))[0]:
                yield self._progress.line()
            self._result = await task
        finally:
            self._progress.stopped = True
            await asyncio.gather(task, return_exceptions=True)

    @property
    def result(self) -> T:
        """Known when all lines were read."""
        if self._result is None:
            raise RuntimeError("it is not done")
        return self._result


def line(found: dict[str, Any]) -> bytes:
    """One line of an answer."""
    return msgspec.json.encode(found) + b"\n"


async def failing_in_line(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same lines; an error after the first of them is one more."""
    begun = False
    try:
        async for one in lines:
            yield one
            begun = True
    except (SwathError, ApiError) as error:
        if not begun:
            raise
        known = told(error)
        yield line({"error": {"code": known.code, "message": str(known), "details": known.details}})
    finally:
        await lines.aclose()
