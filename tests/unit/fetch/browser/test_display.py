"""A virtual screen: there when asked for, there again when it died, gone at the end, and for our browsers only."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.fetch.browser.chromium.display import Display, find_display_program
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import launch
from tests.unit.fetch.browser.launching import folder_of, is_dead, launching, refusing_port, until
from tests.unit.fetch.browser.other_users import NOBODY, STRANGER, needs_root, ran_as

# Asks the X server for a session, with the cookie of an Xauthority file where one is named; prints 1 when it is given.
CONNECT = """
address, path = sys.argv[1:]
cookie = open(path, "rb").read()[-16:] if path else b""
name = b"MIT-MAGIC-COOKIE-1" if path else b""
line = socket.socket(socket.AF_UNIX)
line.settimeout(60)
line.connect(address.replace("@", "\\0"))
head = struct.pack("<BxHHHHxx", 0x6c, 11, 0, len(name), len(cookie))
line.sendall(head + name.ljust(20 if name else 0, b"\\0") + cookie)
print(line.recv(1)[0])
"""


def _screens() -> dict[int, str]:
    """Those that this process has started."""
    return {child.pid: child.name() for child in psutil.Process().children() if not is_dead(child.pid)}


def _display() -> Display:
    program = find_display_program()
    assert program is not None, "install Xvfb (`apt-get install xvfb`): browsers get windows by it"
    return Display(program, find().sandbox.leash)


@pytest_asyncio.fixture
async def display() -> AsyncIterator[Display]:
    made = _display()
    yield made
    await made.close()


@pytest.mark.req("B1", "B2")
async def test_a_display_is_started_once_renewed_when_dead_and_leaves_nothing() -> None:
    before = _screens().keys()
    display = _display()
    screen = await display.screen()
    assert await display.screen() == screen
    (first,) = _screens().keys() - before
    assert Path(f"/tmp/.X11-unix/X{screen.name[1:]}").is_socket()
    os.kill(first, signal.SIGKILL)
    await until(lambda: is_dead(first))
    await until(lambda: display.dead)
    again = await display.screen()
    assert again.name.startswith(":")
    assert again.authority != screen.authority
    assert len(_screens().keys() - before) == 1
    await display.close()
    await display.close()
    assert _screens().keys() <= before


@pytest.mark.req("B1")
async def test_a_display_that_does_not_start_says_so_in_a_line() -> None:
    with pytest.raises(Failed, match="Xvfb does not start"):
        await Display(Path("/bin/false")).screen()


@needs_root
@pytest.mark.req("Z4", "Z7")
@pytest.mark.parametrize("address", ["@/tmp/.X11-unix/X{}", "/tmp/.X11-unix/X{}"])
async def test_only_who_has_the_cookie_connects(display: Display, tmp_path: Path, address: str) -> None:
    screen = await display.screen()
    where, authority = address.format(screen.name[1:]), tmp_path / "authority"
    authority.write_bytes(screen.authority)
    tmp_path.chmod(0o755)
    authority.chmod(0o644)
    for parent in tmp_path.parents[:3]:  # a folder of pytest's, and not of the machine's
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    for user in (NOBODY, STRANGER, os.geteuid()):
        assert await ran_as(user, CONNECT, where, "") == "0", f"user {user} got in without a cookie"
    assert await ran_as(0, CONNECT, where, authority) == "1"
    wrong = tmp_path / "wrong"
    wrong.write_bytes(screen.authority[:-1] + b"?")
    assert await ran_as(0, CONNECT, where, wrong) == "0"


@needs_root
@pytest.mark.req("Z4", "Z7")
async def test_no_file_and_no_command_line_shows_the_cookie_to_others(display: Display, tmp_path: Path) -> None:
    """The browser does get its windows with it: else it would not start."""
    with refusing_port() as port:
        launched = await launch(launching(tmp_path, port, display=await display.screen()))
        try:
            cookie = (await display.screen()).authority[-16:]
            file = folder_of(launched.mark) / "authority"
            assert file.read_bytes()[-16:] == cookie
            assert file.stat().st_mode & 0o777 == 0o400
            code = "try: open(sys.argv[1])\nexcept OSError as error: print(type(error).__name__)"
            for user in (NOBODY, STRANGER):
                assert await ran_as(user, code, file) == "PermissionError"
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    assert cookie.hex() not in " ".join([*process.cmdline(), *process.environ().values()])
            page = await launched.browser.new_page()
            assert await page.evaluate("outerWidth - innerWidth") >= 0
            assert await page.evaluate("innerHeight < outerHeight")  # there is a window around it
        finally:
            await launched.close()


@pytest.mark.req("Z4", "Z7")
async def test_it_listens_at_no_tcp_port(display: Display) -> None:
    before = _screens().keys()
    await display.screen()
    (server,) = _screens().keys() - before
    assert [line.laddr for line in psutil.Process(server).net_connections("tcp")] == []
