"""What the chaos rigs take for an error in the logs of the processes that they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swath.testing.chaos.processes import log_errors


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
