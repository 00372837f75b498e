"""Z4: a browser looks no name up by itself. In a network of its own, since what it would ask is another machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.bounds import HANGING_SECONDS
from tests.unit.fetch.browser.names_scene import NOT_ALLOWED, STUN_HOST
from tests.unit.fetch.browser.other_users import needs_root

pytestmark = [pytest.mark.req("Z4"), needs_root]

SHORT_SECONDS, LONG_SECONDS = 5, 120  # that a name is waited for which must not be asked for, and which must
NAMES, UDP = "--host-resolver-rules", "--webrtc-ip-handling-policy"


def asked_without(seconds: int, *flags: str) -> list[str]:
    """Which names a browser without these flags asked a name server for, when a page wanted to know its address."""
    command = [sys.executable, "-m", "tests.unit.fetch.browser.names_scene", str(seconds), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 10 * HANGING_SECONDS)
    if done.returncode == NOT_ALLOWED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("without", [(), (NAMES,), (UDP,)], ids=["none", NAMES, UDP])
def test_no_name_is_looked_up_and_each_flag_alone_sees_to_that(without: tuple[str, ...]) -> None:
    assert asked_without(SHORT_SECONDS, *without) == []


def test_without_both_flags_a_page_makes_the_browser_look_a_name_up() -> None:
    assert STUN_HOST in asked_without(LONG_SECONDS, NAMES, UDP)
