"""W5: a worker's heartbeat says how much it does, and what that takes."""

import logging

import pytest

from swath.pipeline.worker.heartbeat import STATE_LOG_SECONDS, WorkerStateLog
from tests.support.clock import FakeClock

MIB = 1 << 20


@pytest.mark.req("W5")
def test_a_worker_tells_with_its_first_beat_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, running = FakeClock(), [3]
    pulse = WorkerStateLog(clock, "w-1", lambda: 2, lambda: running[0])
    caplog.set_level(logging.INFO, "swath.heartbeat")
    clock.advance(5)
    pulse.tell()
    clock.advance(STATE_LOG_SECONDS - 1)
    pulse.tell()
    assert len(caplog.records) == 1
    running[0] = 7
    clock.advance(1)
    pulse.tell()
    first, second = (vars(record) for record in caplog.records)
    assert (first["message"], first["worker_id"], first["leases"], first["items_running"]) == (
        "worker alive",
        "w-1",
        2,
        3,
    )
    assert second["items_running"] == 7
    for told in (first, second):
        assert 0 <= told["cpu_load"] <= 64
        assert MIB < told["memory_bytes"] < 1 << 40


@pytest.mark.req("W5")
def test_load_is_what_was_used_since_the_last_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, used = FakeClock(), [10.0]
    monkeypatch.setattr("time.process_time", lambda: used[0])
    pulse = WorkerStateLog(clock, "w-1", lambda: 0, lambda: 0)
    caplog.set_level(logging.INFO, "swath.heartbeat")
    for seconds, cpu_seconds in ((5, 2.5), (STATE_LOG_SECONDS, 90.0)):
        clock.advance(seconds)
        used[0] += cpu_seconds
        pulse.tell()
    assert [vars(record)["cpu_load"] for record in caplog.records] == [0.5, 1.5]
