"""Z9, Z5: a folder that cannot be written, and a file system that is really full, at every stage of a job."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

SLOW = """
import asyncio
from swath import HttpScraper, scraper

@scraper("slow", version="1")
class Slow(HttpScraper):
    async def fetch(self, item, web):
        await asyncio.sleep(0.02)
        return {}

    def extract(self, pages):
        return {"text": "x" * 4000}
"""


class Disk:
    """A file system of its own below `folder`; `options` are those of mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True, capture_output=True)

    def fill(self) -> Path:
        """Leaves no room at all."""
        filler = self.folder / "filler"
        with filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
        return filler


@pytest.fixture
async def disk(shell: Shell) -> AsyncIterator[Disk]:
    folder = shell.folder / "disk"
    folder.mkdir()
    disk = Disk(folder)
    if not disk.mount("size=24m"):
        pytest.skip("this user may not mount a file system")
    shell.environment["SWATH_DATA"] = str(folder / "data")
    yield disk
    await shell.end_all()
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def _one_line(err: str) -> str:
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("swath: ")]
    assert len(lines) == 1, err
    return lines[0]


@pytest.mark.req("Z5", "C2")
@pytest.mark.parametrize("used", [False, True], ids=["never used", "with a store"])
def test_a_read_only_folder_is_said_in_one_line(shell: Shell, disk: Disk, used: bool) -> None:
    shell.write("items.csv", "n\n1\n")
    if used:
        assert shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "one").returncode == 0
    disk.remount("ro")
    run = ["run", "example-mock", "--items", "items.csv", "--job-id", "two"]
    for command in (run, ["worker"], ["worker", "--processes", "2"]):
        done = shell.swath(*command)
        assert done.returncode == 2, (command, done.stderr)
        assert "SWATH_DATA" in _one_line(done.stderr)
    assert shell.swath("jobs", "list").returncode == (0 if used else 2)  # what is there can be read
    doctor = shell.swath("doctor", "--json")
    assert doctor.returncode == 1
    levels = {one["check"]: one["level"] for one in json.loads(doctor.stdout)["checks"]}
    assert levels["data folder"] == "fail"
    assert levels["store"] == ("warn" if used else "ok")
    disk.remount("rw")
    assert shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "two").returncode == 0


@pytest.mark.req("Z5", "Z9", "C2")
def test_a_disk_that_is_full_from_the_start_is_said_and_the_same_command_completes_later(
    shell: Shell, disk: Disk
) -> None:
    shell.write("items.csv", "n\n1\n2\n")
    command = ("run", "example-mock", "--items", "items.csv", "--job-id", "full")
    filler = disk.fill()
    done = shell.swath(*command)
    assert done.returncode in {1, 2}, done.stderr
    assert any(word in _one_line(done.stderr) for word in ("full", "No space"))
    doctor = shell.swath("doctor")
    assert doctor.returncode == 1
    assert "free some space there" in doctor.stdout
    assert "permission" not in doctor.stdout
    filler.unlink()
    again = shell.swath(*command)
    assert again.returncode == 0, again.stderr
    assert shell.swath("jobs", "verify", "full").returncode == 0


@pytest.mark.req("Z5", "Z9", "J2", "C2")
def test_a_disk_that_fills_while_loading_costs_nothing_but_the_same_command_again(shell: Shell, disk: Disk) -> None:
    rows = "".join(f"{n},{'x' * 2_000}\n" for n in range(4_500))  # 9 MB, in three batches
    shell.write("items.csv", f"n,text\n{rows}")
    shell.write("policy.yaml", "keep: data\n")
    command = ("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "loading", "--id-column", "n")
    disk.remount("size=14m")
    done = shell.swath(*command)
    assert done.returncode == 1, done.stderr
    assert "full" in _one_line(done.stderr)
    disk.remount("size=200m")
    status = json.loads(shell.swath("jobs", "status", "loading", "--json").stdout)
    assert status["status"] == "loading"
    assert 0 < status["counts"]["total"] < 4_500  # what was committed stays, and the load goes on from there
    again = shell.swath(*command)
    assert again.returncode == 0, again.stderr
    status = json.loads(shell.swath("jobs", "status", "loading", "--json").stdout)
    assert (status["status"], status["counts"]["total"]) == ("pending", 4_500)


async def _until(shell: Shell, job_id: str, key: str, value: object, seconds: float) -> None:
    """Looks at the status as a person would, until it says so."""
    deadline = asyncio.get_running_loop().time() + seconds
    found: object = None
    while asyncio.get_running_loop().time() < deadline:
        code, out, err = await shell.run("jobs", "status", job_id, "--json")
        assert code == 0, err
        found = json.loads(out)[key]
        if found == value:
            return
    raise AssertionError(f"{key} is {found!r} and not {value!r} after {seconds} s")


@pytest.mark.req("Z9", "J7")
async def test_a_disk_that_fills_while_running_is_waited_for_and_nothing_is_lost(shell: Shell, disk: Disk) -> None:
    shell.write("slow.py", SLOW)
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(400)))
    process = await shell.start("run", "./slow.py", "--items", "items.csv", "--job-id", "run", "--concurrency", "4")
    assert process.stderr is not None
    while not list(disk.folder.glob("data/results/run/items/*")):
        await asyncio.sleep(0.02)
    filler = disk.fill()
    await _until(shell, "run", "waiting_for", "disk", 15)
    await _until(shell, "run", "status", "running", 1)
    filler.unlink()
    await _until(shell, "run", "waiting_for", None, 15)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err
    assert b"waits for the disk" in err
    assert b"Traceback" not in err
    assert (await shell.run("jobs", "verify", "run"))[0] == 0
