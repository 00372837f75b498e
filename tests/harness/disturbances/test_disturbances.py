"""The disturbances do what they say: with some that do nothing, chaos would show nothing."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.chaos.disturbances import Damage, DamagedFolder, Schedule, possible_damages, remove_presence
from harness.processes import WORKER_POINTS, draw_freeze, is_stopped
from harness.wall_clocks import JUMPS, WallClocks
from swath.observability.crash_points import ENDING_POINTS, POINTS


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "job"
    (folder / ".leases" / "5").mkdir(parents=True)
    (folder / ".leases" / "5" / "staged").write_text("staged")
    (folder / "items").mkdir()
    (folder / "items" / "one").write_text("stored")
    return folder


def tree(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", possible_damages())
def test_a_damaged_folder_cannot_be_used_and_is_whole_after_the_repair(results: Path, kind: Damage) -> None:
    before = tree(results)
    damaged = DamagedFolder(results, kind)
    with pytest.raises(OSError, match=r"."):
        (results / ".leases" / "5" / "staged").read_text()
    damaged.repair(ended=False)
    assert tree(results) == before
    assert [entry.name for entry in results.parent.iterdir()] == ["job"]


def test_what_was_made_meanwhile_stays_beside_what_comes_back(results: Path) -> None:
    damaged = DamagedFolder(results, Damage.LEASES)
    (results / ".leases" / "6").mkdir(parents=True)
    (results / ".leases" / "6" / "new").write_text("new")
    damaged.repair(ended=False)
    assert tree(results).keys() == {".leases/5/staged", ".leases/6/new", "items/one"}


def test_leases_of_a_job_that_has_ended_do_not_come_back(results: Path) -> None:
    DamagedFolder(results, Damage.LEASES).repair(ended=True)
    assert tree(results).keys() == {"items/one"}


def test_presence_files_are_removed_and_sometimes_the_folder(tmp_path: Path) -> None:
    luck, removed = random.Random(1), set()
    assert remove_presence(tmp_path / "workers", luck) is None
    for _ in range(20):
        (tmp_path / "workers").mkdir(exist_ok=True)
        for name in ("a.lock", "b.lock"):
            (tmp_path / "workers" / name).touch()
        removed.add(remove_presence(tmp_path / "workers", luck))
        assert len(list(tmp_path.glob("workers/*"))) < 2
    assert removed == {"folder", "files"}


def test_every_point_of_a_worker_is_drawn_and_most_are_in_the_ending() -> None:
    luck = random.Random(1)
    drawn = [draw_freeze(luck) for _ in range(2_000)]
    assert {planned.point for planned in drawn} == set(WORKER_POINTS) - {"after_rescue"}
    assert sum(planned.in_the_ending for planned in drawn) > 1_000
    assert set(POINTS) >= set(WORKER_POINTS) - set(ENDING_POINTS)


def test_a_stopped_process_is_noticed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while not is_stopped(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert not is_stopped(process.pid)


def test_clocks_jump_in_both_directions_and_come_back_to_their_skew(tmp_path: Path) -> None:
    clocks = WallClocks(tmp_path, random.Random(1), (30.0, -30.0))
    variables = [clocks.environment(number) for number in (0, 1)]
    assert error(variables[0]) == pytest.approx(30, abs=5)
    assert error(variables[1]) == pytest.approx(-30, abs=5)
    seen = []
    for _ in range(2 * len(JUMPS)):
        clocks.jump(0.0)
        seen += [round(error(environment) / 3_600) for environment in variables]
        clocks.set_right()
    hours = {round(seconds / 3_600) for seconds in JUMPS.values()}
    assert set(seen) >= hours | {-number for number in hours}
    assert clocks.made.total() == len(clocks.made) == 2 * len(JUMPS)
    assert error(variables[0]) == pytest.approx(30, abs=5)


def error(environment: dict[str, str]) -> float:
    """By how much the wall clock of a process with these variables is wrong."""
    said = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"], env=environment, capture_output=True, check=True
    )
    return float(said.stdout) - time.time()


def test_a_schedule_gives_each_of_its_plan_once() -> None:
    schedule = Schedule({"clock": 3, "folder": 1}, 100, random.Random(1))
    assert sorted(schedule.due(100)) == ["clock", "clock", "clock", "folder"]
    assert list(schedule.due(100)) == []
    assert schedule.empty
