"""Every browser of a root worker is a user of its own, so that no process of another can do what it may do."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.fetch.browser.chromium import sandbox
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import ChromiumProcess, launch
from swath.fetch.browser.chromium.orphans import reap
from swath.fetch.browser.chromium.process_tag import family_of
from swath.fetch.browser.chromium.sandbox import BrowserUser, is_browser_uid, kill_processes_of
from swath.fetch.browser.providers.protocol import TabRequest
from tests.unit.fetch.browser.exit_scene import PLENTY, RawSite, StraightWay, exits
from tests.unit.fetch.browser.launching import folder_of, is_dead, launching, refusing_port, renderers_of, until
from tests.unit.fetch.browser.other_users import NOBODY, STRANGER, needs_root, ran_as, run_as, sleeping_as
from tests.unit.fetch.browser.remote_pages import counting_site
from tests.unit.fetch.browser.test_local_sessions import Scene
from tests.unit.fetch.browser.test_orphans import dead_mark

pytestmark = [needs_root, pytest.mark.req("B1", "Z4"), pytest.mark.asyncio(loop_scope="module")]

# Asks for a page through a port, and prints what is answered.
ASK = """
port, url = sys.argv[1:]
line = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
line.sendall(f"GET {url} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n".encode())
got = b""
try:
    while piece := line.recv(65536): got += piece
except ConnectionError: pass
print(got.split(b"\\r\\n")[0].decode())
"""
ASK_AND_GO = """
port, url = sys.argv[1:]
line = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
line.sendall(f"GET {url} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
line.close()
"""
# As a process that has got out of the sandbox and hides: its own group and session, nothing of ours in its name.
ESCAPE = """
if os.fork(): os.wait(); os._exit(0)
os.setsid()
if child := os.fork(): print(child, flush=True); os._exit(0)
os.close(0); os.close(1); os.close(2)
time.sleep(600)
"""


def user_of(launched: ChromiumProcess) -> int:
    return psutil.Process(launched.pid).uids().real


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[ChromiumProcess, ChromiumProcess]]:
    data = tmp_path_factory.mktemp("data")
    with refusing_port() as port:
        both = await asyncio.gather(*(launch(launching(data, port)) for _ in range(2)))
        try:
            yield both[0], both[1]
        finally:
            await asyncio.gather(*(launched.close() for launched in both))


async def test_each_browser_is_a_user_that_is_nobody_else(pair: tuple[ChromiumProcess, ChromiumProcess]) -> None:
    ids = [user_of(launched) for launched in pair]
    assert len(set(ids)) == 2
    for launched, uid in zip(pair, ids, strict=True):
        assert uid not in {0, NOBODY}
        with pytest.raises(KeyError):
            pwd.getpwuid(uid)
        page = await launched.browser.new_page()
        await page.set_content("<h1>here</h1>")
        for process in renderers_of(launched):  # its sandbox is on all the same
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert "Seccomp:\t2" in status
            assert "NoNewPrivs:\t1" in status
        await page.close()


async def test_one_browser_sees_nothing_of_anothers_folder(pair: tuple[ChromiumProcess, ChromiumProcess]) -> None:
    one, other = pair
    (other.downloads / "file").write_text("of the other")
    code = "try: print(os.listdir(sys.argv[1]))\nexcept OSError as error: print(type(error).__name__)"
    for user in (user_of(one), NOBODY, STRANGER):
        for folder in (other.downloads, folder_of(other.mark), folder_of(other.mark) / "profile"):
            assert await ran_as(user, code, folder) == "PermissionError"


async def test_what_has_left_the_group_of_a_browser_ends_with_it(tmp_path: Path) -> None:
    with refusing_port() as port:
        launched = await launch(launching(tmp_path, port))
        escaped = int(run_as(user_of(launched), ESCAPE))
        try:
            assert not is_dead(escaped)
            await launched.close()
            assert is_dead(escaped)
            assert not folder_of(launched.mark).exists()
        finally:
            with suppress(OSError):
                os.kill(escaped, signal.SIGKILL)
            await launched.close()


async def test_what_outlives_its_worker_is_ended_by_the_next_one(tmp_path: Path) -> None:
    """The folder of a browser whose worker was killed, with a process in it that carries no mark."""
    family = family_of(tmp_path)
    for held in (False, True):
        user = BrowserUser.take()
        folder = folder_of(dead_mark(family))
        (folder / "downloads").mkdir(parents=True)
        os.chown(folder / "downloads", user.uid, user.uid)
        with sleeping_as(user.uid) as process:
            try:
                if not held:  # else it belongs to a browser that lives by now
                    user.release()
                await asyncio.to_thread(reap, family)
                assert (process.poll() is None) is held
                assert not folder.exists()
            finally:
                user.release()


# -- ways out ----------------------------------------------------------------------------------------------------------


async def test_only_the_browser_that_an_exit_was_made_for_may_use_it(tmp_path: Path) -> None:
    """Not another user, not the one whom browsers used to share, not another browser, and not by hanging up at once."""
    async with counting_site() as site:
        scene = Scene(site, tmp_path)
        await scene.exits.start()
        other = BrowserUser.take()
        try:
            session = await scene.provider.create()
            opened = await scene.open(session, TabRequest(site="site.example"))
            assert opened.exit is not None
            assert await scene.seen(opened) == ("0", "0")
            port, browser, asked = opened.exit.port, user_of(scene.launched[-1]), opened.exit.requests
            for user in (NOBODY, STRANGER, other.uid):
                assert await ran_as(user, ASK, port, site) == "", f"user {user} got through"
            for user in (NOBODY, 0):
                run_as(user, ASK_AND_GO, port, site)  # blocks: it has gone before the exit looks who it was
            await asyncio.sleep(0)
            assert await ran_as(NOBODY, ASK, port, site) == ""  # those before it have been seen to
            assert opened.exit.requests == asked
            assert await ran_as(browser, ASK, port, site) == "HTTP/1.1 200 OK"
            await opened.close()
        finally:
            other.release()
            await scene.provider.close()
            await scene.exits.close()


async def test_an_exit_without_that_check_would_serve_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: the same processes get through where everybody may."""
    monkeypatch.setattr("swath.fetch.egress.forward_proxy.browser_proxy.is_of", lambda *_: True)
    async with RawSite() as site, exits([f"127.0.0.1:{site.port}"]) as made:
        exit_ = await made.open(STRANGER)
        exit_.serve(StraightWay(), PLENTY)
        assert await ran_as(NOBODY, ASK, exit_.port, f"{site.url}/") == "HTTP/1.1 200 OK"
        run_as(NOBODY, ASK_AND_GO, exit_.port, f"{site.url}/gone")
        await until(lambda: b"/gone" in site.heard)


# -- ids ---------------------------------------------------------------------------------------------------------------


async def test_an_id_is_held_until_it_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "RANGES", (range(2_100_060_000, 2_100_060_003),))
    held = [BrowserUser.take() for _ in range(3)]
    assert len({user.uid for user in held}) == 3
    with pytest.raises(Failed, match="no user id is free"):
        BrowserUser.take()
    held[1].release()
    again = BrowserUser.take()
    assert again.uid == held[1].uid
    assert BrowserUser.retake(again.uid) is None
    for user in (*held, again):
        user.release()


async def test_an_id_that_somebody_uses_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "RANGES", (range(2_100_060_010, 2_100_060_012),))
    with sleeping_as(2_100_060_010):
        try:
            taken = [BrowserUser.take()]
            assert taken[0].uid == 2_100_060_011
            with pytest.raises(Failed, match="no user id is free"):
                BrowserUser.take()
        finally:
            taken[0].release()
    monkeypatch.setattr(sandbox, "RANGES", (range(NOBODY, NOBODY + 1),))
    with pytest.raises(Failed, match="no user id is free"):
        BrowserUser.take()


async def test_processes_of_people_are_never_killed_with_an_own_user() -> None:
    leash = find().sandbox.leash
    assert leash is not None
    for uid in (0, NOBODY, os.getuid(), 1000):
        assert not is_browser_uid(uid)
        with pytest.raises(ValueError, match="may be somebody's"):
            kill_processes_of(uid, leash)
