"""The sessions of the fake Browserbase: who may have one, how long it lives, what it costs, and its local Chromium.

Time can be moved on, so that tests of timeouts do not wait.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.orphans import wait_until_gone

__all__ = ["LocalChromium", "Plan", "Refused", "Session", "Sessions"]

_START_SECONDS: Final = 20.0
_GONE_SECONDS: Final = 5.0
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # it sees pages of our own tests only, and root has no sandbox
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class LocalChromium:
    """`port` and `path` are where its browser-wide CDP is."""

    def __init__(self, process: subprocess.Popen[bytes], profile: Path) -> None:
        self.port = 0
        self.path = ""
        self._process = process
        self._profile = profile
        self._killed = False

    @property
    def url(self) -> str:
        """For a driver."""
        return f"ws://127.0.0.1:{self.port}{self.path}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._killed and self._process.poll() is None

    @classmethod
    async def start(cls) -> LocalChromium:
        """Returns when it answers."""
        found = await asyncio.to_thread(find)
        profile = Path(tempfile.mkdtemp(prefix="swath-testing-"))
        # With a test process that is killed it dies too: nobody else would end it.
        leash = () if found.sandbox.leash is None else (found.sandbox.leash, "--pdeathsig", "KILL")
        process = subprocess.Popen(  # noqa: ASYNC220 returns at once
            [*leash, found.binary, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started = cls(process, profile)
        try:
            async with asyncio.timeout(_START_SECONDS):
                started.port, started.path = await _told(profile / "DevToolsActivePort")
        except BaseException:
            await started.kill()
            raise
        return started

    async def kill(self) -> None:
        """All of its processes; returns when they are gone."""
        if self._killed:
            return
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait, _GONE_SECONDS)
        await asyncio.to_thread(wait_until_gone, [self._process.pid])
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)


async def _told(note: Path) -> tuple[int, str]:
    """Two lines that it writes when it listens: port and path."""
    while True:
        with suppress(OSError, ValueError):
            port, path = note.read_text().splitlines()[:2]  # noqa: ASYNC240 a file of a few bytes
            return int(port), path
        await asyncio.sleep(0.01)


_MINUTE: Final = 60.0
_DEFAULT_TIMEOUT: Final = 300
_REGIONS: Final = frozenset({"us-west-2", "us-east-1", "eu-central-1", "ap-southeast-1"})


class Plan:
    """What the account may do. The free one is the default."""

    def __init__(self, most_sessions: int = 3, creations_per_minute: int = 5, *, keep_alive: bool = True) -> None:
        self.most_sessions = most_sessions
        self.creations_per_minute = creations_per_minute
        self.keep_alive = keep_alive


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class Session:
    """One browser for one customer, for a while."""

    def __init__(self, order: dict[str, Any], chromium: LocalChromium, now: float) -> None:
        self.id = str(uuid.uuid4())
        self.order = order
        self.chromium = chromium
        self.signing_key = secrets.token_urlsafe(24)
        self.status = "RUNNING"
        self.lines = 0
        self.created_at = now
        self.ended_at: float | None = None
        self.timeout_seconds = int(order.get("timeout", _DEFAULT_TIMEOUT))

    @property
    def keep_alive(self) -> bool:
        """Whether it outlives the line to it."""
        return bool(self.order.get("keepAlive", False))

    @property
    def expires_at(self) -> float:
        """When it ends by itself."""
        return self.created_at + self.timeout_seconds

    def minutes(self, now: float) -> int:
        """As billed: a minute at least."""
        lasted = (now if self.ended_at is None else self.ended_at) - self.created_at
        return max(1, math.ceil(lasted / _MINUTE))

    def view(self) -> dict[str, Any]:
        """As list and get tell it."""
        told: dict[str, Any] = {
            "id": self.id,
            "status": self.status,
            "createdAt": _date(self.created_at),
            "startedAt": _date(self.created_at),
            "updatedAt": _date(self.created_at if self.ended_at is None else self.ended_at),
            "expiresAt": _date(self.expires_at),
            "projectId": self.order.get("projectId", "the-only-project"),
            "region": self.order.get("region", "us-west-2"),
            "keepAlive": self.keep_alive,
            "proxyBytes": 0,
        }
        if self.ended_at is not None:
            told["endedAt"] = _date(self.ended_at)
        if "userMetadata" in self.order:
            told["userMetadata"] = self.order["userMetadata"]
        return told


class Sessions:
    """All of them, also those that have ended."""

    def __init__(self, plan: Plan, now: Callable[[], float] = time.time) -> None:
        self.plan = plan
        self.all: dict[str, Session] = {}
        self._now = now
        self._ahead = 0.0
        self._starting = 0

    def now(self) -> float:
        """Unix seconds, moved on by as much as a test has asked for."""
        return self._now() + self._ahead

    async def pass_time(self, seconds: float) -> None:
        """Lets it pass at once."""
        self._ahead += seconds
        for session in self.running():
            if session.expires_at <= self.now():
                await self.end(session, "TIMED_OUT")

    def running(self) -> list[Session]:
        """Those that live, and cost."""
        return [session for session in self.all.values() if session.ended_at is None]

    def billed_minutes(self) -> int:
        """So far."""
        return sum(session.minutes(self.now()) for session in self.all.values())

    async def create(self, order: dict[str, Any]) -> Session:
        """Raises Refused."""
        _check(order)
        if order.get("keepAlive") and not self.plan.keep_alive:
            raise Refused(402, "keepAlive is not part of the plan")
        if len(self.running()) + self._starting >= self.plan.most_sessions:
            raise Refused(429, "too many concurrent sessions", 1.0)
        since = self.now() - _MINUTE
        recent = sorted(session.created_at for session in self.all.values() if session.created_at > since)
        if len(recent) + self._starting >= self.plan.creations_per_minute:
            raise Refused(429, "too many sessions created", (recent[0] - since) if recent else _MINUTE)
        self._starting += 1
        try:
            session = Session(order, await LocalChromium.start(), self.now())
        finally:
            self._starting -= 1
        self.all[session.id] = session
        return session

    async def end(self, session: Session, status: str) -> None:
        """Its browser is killed. Nothing happens to one that has ended."""
        if session.ended_at is None:
            session.ended_at, session.status = self.now(), status
            await session.chromium.kill()

    async def close(self) -> None:
        """Ends them all."""
        for session in self.running():
            await self.end(session, "COMPLETED")


def _check(order: dict[str, Any]) -> None:
    timeout = order.get("timeout", _DEFAULT_TIMEOUT)
    if not isinstance(timeout, int) or not 60 <= timeout <= 21_600:
        raise Refused(400, "timeout must be between 60 and 21600")
    if order.get("region", "us-west-2") not in _REGIONS:
        raise Refused(400, "region is unknown")
    if not isinstance(order.get("userMetadata", {}), dict):
        raise Refused(400, "userMetadata must be an object")


def _date(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
