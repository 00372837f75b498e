"""Checks that the demo site, and no other service, listens at an address of this machine.

Asked before a demo scraper may connect to a private address.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["PROOF_PATH", "DemoProof", "proof_of"]

PROOF_PATH: Final = "/_site/proof"
_ASK_SECONDS: Final = 30.0
_FRESH_SECONDS: Final = 1.0
_MOST_BYTES: Final = 4_096  # of an answer


def proof_of(nonce: str) -> str:
    """The answer to a question."""
    return hashlib.sha256(f"the demo site of Swath {nonce}".encode()).hexdigest()


class DemoProof:
    """Asks at most once a second, for all who want to know."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    async def check(self) -> None:
        """Raises Failed: connect when nobody answers, egress_denied when somebody else does."""
        if time.monotonic() < self._good_until:
            return
        async with self._asking:
            if time.monotonic() < self._good_until:
                return
            if not await self._proven():
                told = f"{self._host}:{self._port} is not the demo site; serve it with `swath demo-site`"
                raise Failed(Failure.of(FailureKind.EGRESS_DENIED, told))
            self._good_until = time.monotonic() + _FRESH_SECONDS

    async def holds(self) -> bool:
        """Whether it is the demo site."""
        try:
            await self.check()
        except Failed:
            return False
        return True

    async def _proven(self) -> bool:
        nonce = secrets.token_hex(16)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                answer = await self._asked(nonce)
        except (OSError, TimeoutError) as error:
            told = f"nobody answers at {self._host}:{self._port}, where the demo site should be"
            raise Failed(Failure.of(FailureKind.CONNECT, told)) from error
        return answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n" + proof_of(nonce).encode())

    async def _asked(self, nonce: str) -> bytes:
        reader, writer = await asyncio.open_connection(self._host.strip("[]"), self._port)
        try:
            head = f"GET {PROOF_PATH}?{nonce} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            answer = b""
            while len(answer) < _MOST_BYTES and (piece := await reader.read(_MOST_BYTES)):
                answer += piece
            return answer
        finally:
            writer.close()
