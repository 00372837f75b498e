"""Playing for tests: recordings of a few steps in a session on a site of our own, and what they came to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.tab.session import BrowserSession
from swath.recordings.player.play import play
from swath.recordings.player.step_times import StepTime
from swath.recordings.schema.recording import Recording
from tests.unit.fetch.browser.visited_site import HOST, VisitedSite, html
from tests.unit.fetch.browser.visiting import RecordingGate, visiting

SECONDS = 20.0  # of a busy machine; whoever waits for the end of a step says how long


def recording(*steps: Mapping[str, Any], **about: Any) -> Recording:
    """As if it had been read from a file."""
    told = {"swath_recording": 1, "id": "r", "base_url": HOST, "step_seconds": SECONDS, "steps": list(steps), **about}
    return Recording.model_validate_json(json.dumps(told))


class Played:
    """A session in which recordings are played, and the site behind it."""

    def __init__(self, browser: BrowserSession, site: VisitedSite, gate: RecordingGate) -> None:
        self.browser = browser
        self.site = site
        self.gate = gate
        self.times: list[StepTime] = []

    def shows(self, path: str, body: str, *headers: str) -> str:
        """The site has this page from now on."""
        self.site.answers[path] = html(body, *headers)
        return path

    async def play(
        self,
        *steps: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        files: Path | None = None,
        watched: bool = True,
        **about: Any,
    ) -> None:
        watch = self.times.append if watched else None
        await play(recording(*steps, **about), given or {}, self.browser, files=files, watch=watch)

    async def on(self, body: str, *steps: Mapping[str, Any], **about: Any) -> None:
        """Goes to a page that shows this, and plays the steps on it."""
        self.shows("/page", body)
        await self.play({"do": "goto", "url": "/page"}, *steps, **about)

    async def text(self, selector: str) -> str:
        return await self.browser.text(selector)

    @property
    def outcomes(self) -> list[str]:
        return [time.outcome for time in self.times]


@asynccontextmanager
async def playing(launched: ChromiumProcess, site: VisitedSite, **options: Any) -> AsyncIterator[Played]:
    gate = RecordingGate()
    site.asked.clear()
    async with visiting(launched, site.port, gate, base_url=HOST, **options) as browser:
        yield Played(browser, site, gate)
