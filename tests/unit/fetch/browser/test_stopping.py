"""Processes with a page whose script never ends are told to stop, or killed: nothing outlives them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from harness.chaos.browser.browser_killer import left_behind
from harness.fakes.hostile_site import BROWSER_BEHAVIOURS, HostileSite
from swath.fetch.browser.chromium.orphans import reap
from swath.fetch.browser.chromium.process_tag import family_of
from tests.unit.fetch.browser.launching import until

pytestmark = [pytest.mark.req("B1", "W2", "W3", "Z6"), pytest.mark.asyncio(loop_scope="module")]

SCRAPER = Path(__file__).parents[4] / "harness/fakes/hostile_site/browser_scraper.py"
GRACE_SECONDS = 2.0
MOST_SECONDS = 60.0  # grace, closing what hangs, and a machine with much other work
GIB = 1 << 30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[HostileSite]:
    async with HostileSite() as site:
        yield site


@contextmanager
def running(folder: Path, site: HostileSite) -> Iterator[subprocess.Popen[bytes]]:
    """`swath run` with two items whose pages never answer."""
    items = folder / "items.csv"
    url = site.address(BROWSER_BEHAVIOURS["script-loop"])
    items.write_text(f"url\n{url}?1\n{url}?2\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")} | {
        "SWATH_DATA": str(folder / "data"),
        "SWATH_ALLOW_PRIVATE": ",".join(site.places),
        "SWATH_GRACE_SECONDS": str(GRACE_SECONDS),
        "SWATH_BROWSERS": "1",
        "SWATH_BROWSER_CONCURRENCY": "2",
    }
    command = [
        sys.executable,
        "-m",
        "swath.entrypoints.cli.main",
        "run",
        str(SCRAPER),
        "--items",
        str(items),
        "--quiet",
    ]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        reap(family_of(folder / "data"))


def spinning(data: Path) -> list[psutil.Process]:
    """Renderers that have used more than half a second: their scripts run."""
    found = []
    for pid in left_behind(data)[0]:
        try:
            process = psutil.Process(pid)
            if "--type=renderer" in " ".join(process.cmdline()) and sum(process.cpu_times()[:2]) > 0.5:
                found.append(process)
        except psutil.Error:
            continue
    return found


def soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
async def test_a_page_that_never_ends_does_not_keep_its_process_from_stopping(
    tmp_path: Path, site: HostileSite, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with running(tmp_path, site) as process:
        await until(lambda: process.poll() is not None or bool(spinning(data)), 60)
        began = time.monotonic()
        process.send_signal(number)
        await until(lambda: process.poll() is not None, MOST_SECONDS)
        assert process.returncode == 130, f"after {time.monotonic() - began:.1f} s"
        assert left_behind(data) == ([], [])


@pytest.mark.timeout(300)
async def test_nothing_outlives_a_process_that_is_killed_and_the_next_one_clears_up(
    tmp_path: Path, site: HostileSite
) -> None:
    data = tmp_path / "data"
    with running(tmp_path, site) as process:
        await until(lambda: process.poll() is not None or bool(spinning(data)), 60)
        limits = Path(f"/proc/{spinning(data)[0].pid}/limits").read_text(encoding="utf-8")
        (line,) = (line.split() for line in limits.splitlines() if line.startswith("Max data size"))
        assert int(line[4]) <= 4 * GIB, "a page could take all memory before anybody looks"
        process.kill()
        process.wait()
        assert soon(lambda: left_behind(data)[0] == [])
        assert len(left_behind(data)[1]) == 1
        reap(family_of(data))
        assert left_behind(data) == ([], [])
