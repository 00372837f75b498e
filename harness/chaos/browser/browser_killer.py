"""Finds the browsers, renderers and drivers of one job by their process tags, and kills or freezes them at random."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from harness.chaos.findings import Findings, Kind
from swath.fetch.browser.chromium.process_tag import FOLDER_PREFIX, TAG_SWITCH, TAG_VARIABLE, family_of

__all__ = ["BROWSER", "DRIVER", "FROZEN", "RENDERER", "BrowserKiller", "KillPlan", "left_behind"]

BROWSER, RENDERER, DRIVER, FROZEN = "browser", "renderer", "driver", "frozen browser"
FROZEN_SECONDS: Final = 60.0  # a browser that does not answer must be gone by then


@dataclass(frozen=True, kw_only=True)
class KillPlan:
    """How many of each are struck."""

    browsers: int
    renderers: int
    drivers: int
    frozen: int

    @property
    def all(self) -> list[str]:
        return (
            [BROWSER] * self.browsers + [RENDERER] * self.renderers + [DRIVER] * self.drivers + [FROZEN] * self.frozen
        )


@dataclass
class BrowserKiller:
    """One job's. `made` counts what was struck; `frozen_seconds` is how long a frozen one was left there."""

    data: Path
    items: int
    plan: KillPlan
    luck: random.Random
    findings: Findings
    made: Counter[str] = field(default_factory=Counter)
    frozen_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        last = self.items * 85 // 100
        self._ahead = sorted(((self.luck.randrange(last), kind) for kind in self.plan.all), reverse=True)
        self._family = family_of(self.data)
        self._frozen: dict[psutil.Process, float] = {}

    def turn(self, now: float, done: int) -> None:
        """Strikes whatever is due; what finds no target now is tried again at the next turn."""
        for process, since in list(self._frozen.items()):
            if not _lives(process):
                self.frozen_seconds.append(now - since)
                del self._frozen[process]
            elif now - since > FROZEN_SECONDS:
                self.findings.add(Kind.WRONG, FROZEN, f"it is still there after {FROZEN_SECONDS:g} s")
                del self._frozen[process]
                process.kill()
        while self._ahead and done >= self._ahead[-1][0]:
            kind = self._ahead[-1][1]
            targets = list(_targets(self._family, kind))
            if not targets or not self._strike(self.luck.choice(targets), kind, now):
                break
            self._ahead.pop()

    def over(self) -> None:
        """The job has ended: everything that was planned must have been done."""
        self.findings.expect(not self._ahead, Kind.WRONG, "the hunt", f"{len(self._ahead)} strikes were not made")

    def _strike(self, process: psutil.Process, kind: str, now: float) -> bool:
        """False when it was gone by itself a moment before."""
        try:
            process.send_signal(signal.SIGSTOP if kind == FROZEN else signal.SIGKILL)
        except psutil.NoSuchProcess:
            return False
        self.made[kind] += 1
        if kind == FROZEN:
            self._frozen[process] = now
        return True


def left_behind(data: Path) -> tuple[list[int], list[str]]:
    """Processes and folders of a job's browsers that are there now."""
    family = family_of(data)
    pids = [process.pid for kind in (BROWSER, RENDERER, DRIVER) for process in _targets(family, kind)]
    return pids, [folder.name for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{family}-*")]


def _targets(family: str, kind: str) -> Iterator[psutil.Process]:
    """Those of the family that live, and are not frozen."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _is(process, family, kind) and _lives(process) and process.status() != psutil.STATUS_STOPPED:
                yield process


def _is(process: psutil.Process, family: str, kind: str) -> bool:
    words = process.cmdline()
    if kind == DRIVER:
        return "run-driver" in words and process.environ().get(TAG_VARIABLE, "").startswith(family)
    if kind == RENDERER:
        leader = os.getpgid(process.pid)
        return any("--type=renderer" in word for word in words) and _is(psutil.Process(leader), family, BROWSER)
    return "--remote-debugging-pipe" in words and any(word.startswith(TAG_SWITCH + family) for word in words)


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
    return False
