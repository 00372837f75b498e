"""A screen that nobody looks at: there when asked for, there again when it died, and gone at the end."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from swath.browser.chromium.display import Display, find_display_program
from swath.browser.chromium.find import find
from swath.domain.errors import Failed
from tests.browser.launching import is_dead, until


def _screens() -> dict[int, str]:
    """Those that this process has started."""
    return {child.pid: child.name() for child in psutil.Process().children() if not is_dead(child.pid)}


@pytest.mark.req("B1", "B2")
async def test_a_display_is_started_once_renewed_when_dead_and_leaves_nothing() -> None:
    program = find_display_program()
    assert program is not None, "install Xvfb (`apt-get install xvfb`): browsers get windows by it"
    before = _screens().keys()
    display = Display(program, find().sandbox.leash)
    name = await display.name()
    assert await display.name() == name
    (first,) = _screens().keys() - before
    assert Path(f"/tmp/.X11-unix/X{name[1:]}").is_socket()
    os.kill(first, signal.SIGKILL)
    await until(lambda: is_dead(first))
    await until(lambda: display.dead)
    assert (await display.name()).startswith(":")
    assert len(_screens().keys() - before) == 1
    await display.close()
    await display.close()
    assert _screens().keys() <= before


@pytest.mark.req("B1")
async def test_a_display_that_does_not_start_says_so_in_a_line() -> None:
    with pytest.raises(Failed, match="Xvfb does not start"):
        await Display(Path("/bin/false")).name()
