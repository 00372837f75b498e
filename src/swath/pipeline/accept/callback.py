"""Whether a job's webhook may be sent where its `callback_url` says, as far as that can be told when it is ordered.

After: the courier looks again with every delivery, by the same guard.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import FailureKind
from swath.web.egress.guard import Guard

__all__ = ["check_callback"]

RESOLVE_SECONDS: Final = 5.0
_LATER: Final = frozenset({FailureKind.DNS_TEMPORARY})  # nobody can tell now; it is looked at again when it is used


async def check_callback(guard: Guard, url: str) -> None:
    """Raises BadInput when nothing may be sent there."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await guard.check(url)
    except TimeoutError:
        return
    except Failed as failed:
        if failed.failure.kind not in _LATER:
            raise BadInput(failed.failure.message) from None
