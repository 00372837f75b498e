"""Files that a page makes are read as what may be anything: whoever runs as the browser's user can change them first.

The worker is root here, and the other one a real process of the browser's user that acts between the moment when the
browser says that the file is there and the moment when it is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.tab.downloads import FileDownloader, read_page_made_file
from tests.unit.fetch.browser.launching import folder_of
from tests.unit.fetch.browser.other_users import STRANGER, needs_root, ran_as, run_as
from tests.unit.fetch.browser.visited_site import HOST, VisitedSite, html, visited_site
from tests.unit.fetch.browser.visiting import launched_browser, visiting

pytestmark = [needs_root, pytest.mark.req("Z4", "Z7"), pytest.mark.asyncio(loop_scope="module")]

SECRET = "only for root"
PAGE = """<h1>F</h1><button id=blob onclick="const a = document.createElement('a'); a.download = 'x.txt';
a.href = window.URL.createObjectURL(new Blob(['made by the page'])); a.click()">b</button>"""

SWAPS = {
    "link": "os.unlink(at); os.symlink(secret, at)",
    "relative link": "os.unlink(at); os.symlink(os.path.relpath(secret, os.path.dirname(at)), at)",
    "link to a file of its own": "os.rename(at, at + '-away'); os.symlink(at + '-away', at)",
    "pipe": "os.unlink(at); os.mkfifo(at)",
    "folder": "os.unlink(at); os.mkdir(at)",
    "socket": "os.unlink(at); os.chdir(os.path.dirname(at)); socket.socket(socket.AF_UNIX).bind(os.path.basename(at))",
    "second name": "os.link(at, at + '-again')",
    "nothing": "os.unlink(at)",
}
FOLDER_SWAPS = (
    "os.rename(here, here + '-away')",
    "os.rmdir(here)",
    "os.symlink(os.path.dirname(secret), os.path.join(os.path.dirname(here), 'more'))",
    "os.chmod(os.path.dirname(here), 0o777)",
)


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As /etc/shadow: in a place that everybody can name, and for root only."""
    file = tmp_path_factory.mktemp("root") / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("data")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as made:
        made.answers["/files"] = html(PAGE)
        yield made


def user_of(launched: ChromiumProcess) -> int:
    return launched.downloads.stat().st_uid


async def read_after(
    launched: ChromiumProcess, site: VisitedSite, patch: pytest.MonkeyPatch, act: Any, most_bytes: int = 1_000_000
) -> bytes:
    """What an item gets of a file, when `act` does something to its path just before it is read."""
    written = FileDownloader._written

    async def acted(self: FileDownloader, *arguments: Any) -> Path:
        path = await written(self, *arguments)
        await asyncio.to_thread(act, path)
        return path

    patch.setattr(FileDownloader, "_written", acted)
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/files")
        return (await browser.download("x.txt", click="#blob", largest_bytes=most_bytes)).body


async def test_a_file_that_was_left_alone_is_read(
    launched: ChromiumProcess, site: VisitedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await read_after(launched, site, monkeypatch, lambda path: None) == b"made by the page"


@pytest.mark.parametrize("swap", SWAPS)
async def test_what_was_put_in_its_place_is_a_failure_of_the_item(
    launched: ChromiumProcess,
    site: VisitedSite,
    secret: Path,
    swap: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def act(path: Path) -> None:
        run_as(user_of(launched), f"at, secret = sys.argv[1:]; {SWAPS[swap]}", path, secret)

    with pytest.raises(Failed, match="the file that the page made was not read") as caught:
        await read_after(launched, site, monkeypatch, act)
    assert caught.value.failure.kind is FailureKind.NAVIGATION
    assert SECRET not in str(caught.value)
    assert any("was not read" in record.getMessage() for record in caplog.records)
    assert secret.read_text() == SECRET


async def test_a_hard_link_to_a_file_of_root_is_a_failure_where_the_system_allows_it(
    launched: ChromiumProcess, site: VisitedSite, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by root: with fs.protected_hardlinks at 0 the browser's user could."""
    near = folder_of(launched.mark) / "secret"  # on the same file system
    near.write_bytes(secret.read_bytes())
    near.chmod(0o600)

    def act(path: Path) -> None:
        path.unlink()
        os.link(near, path)
        near.unlink()  # so it has one name, and only its owner tells

    with pytest.raises(Failed, match="it is not the browser's"):
        await read_after(launched, site, monkeypatch, act)


async def test_a_file_that_grows_while_it_is_read_is_read_to_the_limit_and_no_further(
    launched: ChromiumProcess, site: VisitedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(path: Path) -> None:
        run_as(user_of(launched), "os.truncate(sys.argv[1], 1 << 40)", path)  # sparse: all of it fits no memory

    with pytest.raises(Failed) as caught:
        await read_after(launched, site, monkeypatch, act, most_bytes=10_000)
    assert caught.value.failure.kind is FailureKind.TOO_LARGE


@pytest.mark.parametrize("act", FOLDER_SWAPS)
async def test_the_folder_itself_cannot_be_replaced(launched: ChromiumProcess, secret: Path, act: str) -> None:
    code = f"here, secret = sys.argv[1:]\ntry:\n    {act}\nexcept OSError as error: print(type(error).__name__)"
    assert await ran_as(user_of(launched), code, launched.downloads, secret) == "PermissionError"
    assert launched.downloads.is_dir()


async def test_a_folder_that_others_may_replace_is_not_read_from(tmp_path: Path) -> None:
    path = tmp_path / "downloads" / "file"
    path.parent.mkdir()
    path.write_text("x")
    assert read_page_made_file(path, path.parent, None, 10) == b"x"
    with pytest.raises(Failed, match="not where the browser writes"):
        read_page_made_file(path, tmp_path / "other", None, 10)
    with pytest.raises(Failed, match="not where the browser writes"):
        read_page_made_file(path.parent / ".." / "x" / "file", path.parent, None, 10)
    tmp_path.chmod(0o777)
    with pytest.raises(Failed, match="others may replace its folder"):
        read_page_made_file(path, path.parent, None, 10)
    tmp_path.chmod(0o700)
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(Failed, match="others may replace its folder"):
        read_page_made_file(path, path.parent, None, 10)


async def test_the_driver_that_deletes_files_by_names_of_the_browsers_has_no_more_rights_than_it(
    launched: ChromiumProcess,
) -> None:
    status = Path(f"/proc/{launched.driver_pid}/status").read_text()
    told = dict(line.split(":\t", 1) for line in status.splitlines())
    assert {int(uid) for uid in told["Uid"].split()} == {user_of(launched)} != {0}
    assert int(told["CapEff"], 16) == int(told["CapPrm"], 16) == 0
