"""Lines: an answer of a controller that comes as one JSON object a line, while it works (see api/progress.py there).

Progress and failures are dealt with here; all other lines are for the caller.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from swath.entrypoints.cli.remote.answers import Client

__all__ = ["lines_of"]

MOST_LINE_BYTES: Final = 64 << 20


async def lines_of(
    client: Client, *path: str, query: Mapping[str, Any] | None = None, told: Callable[[int, int], None]
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines but for progress, which `told` hears of: how many items are done, of how many. Raises as Client does,
    and Unreachable when the answer breaks off."""
    asked = f"?{urlencode(query, doseq=True)}" if query else ""
    async with client.wire.streaming(client.address.path(*path) + asked, {}) as stream:
        if stream.status != 200:
            client.data_of(await stream.whole())
        async for line in _split(stream.pieces()):
            with client.understanding():
                found = json.loads(line)
            if "progress" in found:
                with client.understanding():
                    told(found["progress"]["done"], found["progress"]["total"])
            elif "error" in found:
                raise client.failure_of(found["error"])
            else:
                yield found


async def _split(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    held = b""
    async for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if len(held) > MOST_LINE_BYTES:
            raise ValueError("a line without an end")
        for line in lines:
            yield line
