"""Z4: every process on the machine knows where controllers listen, and when they have gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from swath.backends.local_presence import listening_ports
from swath.backends.local_presence.listening_ports import ListeningPorts
from swath.domain.errors import Failed
from swath.fetch.egress.guard import EgressGuard
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import TableResolver

pytestmark = pytest.mark.req("Z4")

HOLD = """
import sys, pathlib
from swath.backends.local_presence.listening_ports import ListeningPorts
with ListeningPorts(pathlib.Path(sys.argv[1])).listening(8123):
    print("listens", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_ports, "_FRESH_SECONDS", 0.0)


def test_a_port_is_ours_while_somebody_listens(tmp_path: Path) -> None:
    ports, others = ListeningPorts(tmp_path / "controllers"), ListeningPorts(tmp_path / "controllers")
    assert 8000 not in ports
    with ports.listening(8000), others.listening(8000):
        assert 8000 in ports
        assert 8000 in others
        assert 8001 not in others
    assert 8000 not in others


def test_a_process_that_was_killed_listens_no_more(tmp_path: Path) -> None:
    ports = ListeningPorts(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 8123 in ports
        process.kill()
        process.wait()
    assert 8123 not in ports


async def test_a_guard_that_was_made_before_refuses_the_port_all_the_same(tmp_path: Path) -> None:
    ports = ListeningPorts(tmp_path)
    guard = EgressGuard(TableResolver({}), FakeClock(), allow_private=["127.0.0.1:8000"], own_ports=ports)
    await guard.check("http://127.0.0.1:8000/")
    with ports.listening(8000):
        assert guard.checked_before("http://127.0.0.1:8000") is None
        with pytest.raises(Failed, match="not to be reached"):
            await guard.check("http://127.0.0.1:8000/")
        with pytest.raises(Failed, match="not to be reached"):
            await guard.check_proxied("http://127.0.0.1:8000/")
    assert (await guard.check("http://127.0.0.1:8000/")).port == 8000


@pytest.mark.req("Z10", "Z4")
def test_a_pipe_among_the_ports_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "8000.port")
    found: list[bool] = []
    looker = threading.Thread(target=lambda: found.append(8000 in ListeningPorts(tmp_path)), daemon=True)
    looker.start()
    looker.join(60)
    assert found == [False]
