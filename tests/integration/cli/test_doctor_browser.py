"""The doctor looks at the browser, and misses none where nobody asked for one."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path

import pytest

from harness.fakes.browserbase.sessions import LocalChromium
from swath.backends.clock import SystemClock
from swath.entrypoints.cli.doctor.browser import check_browser
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckLevel
from swath.fetch.browser.chromium import display
from swath.settings import load

pytestmark = pytest.mark.req("O4", "B1")


def _subject(folder: Path, **variables: str) -> CheckContext:
    reading = load({"SWATH_DATA": str(folder), **variables})
    return CheckContext(settings=reading.settings, reading=reading, trouble="", clock=SystemClock())


def _nowhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(folder))


def test_one_that_starts_is_told_with_version_and_sandbox(tmp_path: Path) -> None:
    finding = check_browser(_subject(tmp_path))
    assert finding.level is CheckLevel.OK, finding.message
    assert finding.message.startswith("Chromium 1")
    assert "in its sandbox" in finding.message
    assert finding.message.endswith("with windows in Xvfb")


def test_it_is_started_as_a_worker_would_with_its_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "find_display_program", lambda: Path("/bin/false"))
    finding = check_browser(_subject(tmp_path))
    assert finding.level is CheckLevel.WARN
    assert "Xvfb does not start" in finding.message


def test_none_is_a_hint_where_none_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _nowhere(monkeypatch, tmp_path)
    finding = check_browser(_subject(tmp_path))
    assert finding.level is CheckLevel.OK
    assert "apt-get install chromium" in finding.message


def test_one_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    finding = check_browser(_subject(tmp_path, SWATH_CHROMIUM=str(tmp_path / "none")))
    assert finding.level is CheckLevel.FAIL
    assert "SWATH_CHROMIUM" in finding.message
    assert "apt-get install chromium" in finding.advice


def test_one_that_is_named_has_to_start(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    finding = check_browser(_subject(tmp_path, SWATH_CHROMIUM=str(broken)))
    assert finding.level is CheckLevel.FAIL
    assert "does not start" in finding.message


def test_without_the_extra_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    finding = check_browser(_subject(tmp_path))
    assert finding.level is CheckLevel.OK
    assert "swath[browser]" in finding.message
    assert check_browser(_subject(tmp_path, SWATH_CHROMIUM="/usr/bin/chromium")).level is CheckLevel.FAIL


@pytest.mark.parametrize(("provider", "lacking"), [("cdp", "SWATH_BROWSER_CDP_URL"), ("browserbase", "_API_KEY")])
def test_browsers_elsewhere_need_an_address_or_a_key(tmp_path: Path, provider: str, lacking: str) -> None:
    finding = check_browser(_subject(tmp_path, SWATH_BROWSER_PROVIDER=provider))
    assert finding.level is CheckLevel.FAIL
    assert lacking in finding.message


@pytest.mark.req("B4")
async def test_a_browser_elsewhere_is_asked_whether_it_is_there(tmp_path: Path) -> None:
    chromium = await LocalChromium.start()
    try:
        subject = _subject(tmp_path, SWATH_BROWSER_PROVIDER="cdp", SWATH_BROWSER_CDP_URL=chromium.url)
        finding = await asyncio.to_thread(check_browser, subject)
    finally:
        await chromium.kill()
    assert finding.level is CheckLevel.OK, finding.message
    assert "answers" in finding.message


@pytest.mark.req("B4")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/t0ken", "http://:1/t0ken"])
def test_a_browser_elsewhere_that_cannot_be_reached_is_a_failure_and_its_key_is_not_told(
    tmp_path: Path, url: str
) -> None:
    finding = check_browser(_subject(tmp_path, SWATH_BROWSER_PROVIDER="cdp", SWATH_BROWSER_CDP_URL=url))
    assert finding.level is CheckLevel.FAIL
    assert "SWATH_BROWSER_CDP_URL" in finding.advice
    assert "t0ken" not in f"{finding.message}{finding.advice}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's browsers run as somebody else")
def test_a_user_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    finding = check_browser(_subject(tmp_path, SWATH_BROWSER_USER="nobody-of-that-name"))
    assert finding.level is CheckLevel.FAIL
    assert "there is no user" in finding.message
