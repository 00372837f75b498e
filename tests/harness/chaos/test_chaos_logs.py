"""What the chaos rigs read in the logs of the processes that they run: errors, and why one of them ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.chaos.user_actions import LOCKED_MESSAGE
from harness.processes import ProcessGroup, log_errors, logs
from tests.support.bounds import HANGING_SECONDS


def line(level: str, logger: str, event: str) -> str:
    return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "level": level, "logger": logger, "event": event})


@pytest.mark.req("Z1")
def test_errors_are_found_in_logs_of_either_format(tmp_path: Path) -> None:
    log = tmp_path / "processes.log"
    wrong = [
        "2026-01-01T00:00:00Z ERROR swath.worker: it broke",
        line("ERROR", "swath.worker", "it broke"),
        line("CRITICAL", "swath.worker", "it broke"),
        "Traceback (most recent call last):",
    ]
    died = "a worker died while it ended job chaos (death 3); the next try is due in 10 s"
    fine = [
        line("WARNING", "swath.rescue", "a lease was taken away"),
        line("ERROR", "swath.items", "item failed"),
        line("ERROR", "swath.rescue", died),
        f"2026-01-01T00:00:00Z ERROR swath.rescue: {died}",
    ]
    log.write_text("\n".join([*fine, *wrong, *fine]) + "\n", encoding="utf-8")
    assert log_errors(log) == wrong
    assert log_errors(tmp_path / "none.log") == []


@pytest.mark.req("Z1")
def test_the_end_of_a_process_is_explained_by_its_own_last_line(tmp_path: Path) -> None:
    """Several write at the same time: what one was told must not excuse another one, nor be hidden by its lines."""
    locked = "swath: the store swath.db is locked by pid 7 (swath run), stopped (T)"
    commands = {
        "locked": ["sh", "-c", f"echo begun; echo '{locked}' >&2; exit 1"],
        "broken": ["sh", "-c", "echo 'swath: internal error: it broke' >&2; exit 1"],
        "noisy": ["sh", "-c", "yes 'a line of a log' | head -c 100000"],
        "silent": ["true"],
    }
    log = tmp_path / "processes.log"
    with ProcessGroup(commands, {"PATH": os.environ["PATH"]}, log) as pack:
        started = {role: pack.start(role) for role in commands}
        for process in started.values():
            process.popen.wait(HANGING_SECONDS)
        assert set(pack.ended()) == set(started.values())
    assert [role for role, process in started.items() if LOCKED_MESSAGE in process.last_line] == ["locked"]
    assert started["broken"].told_end == (
        'it ended by itself with code 1: "swath: internal error: it broke" (00001-broken.log)'
    )
    assert started["silent"].told_end == 'it ended by itself with code 0: "" (00003-silent.log)'
    assert log_errors(log) == ["swath: internal error: it broke"]
    log.write_text("Traceback (most recent call last):\n", encoding="utf-8")  # of the commands beside them
    assert len(logs(log)) == 5
    assert len(log_errors(log)) == 2
