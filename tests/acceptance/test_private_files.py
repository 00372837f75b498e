"""Z7: what jobs store is for their user alone, unless a setting opens the results, and never wider than the umask."""

from __future__ import annotations

import asyncio
import csv
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.demo.county import DemoCountyServer
from tests.acceptance.conftest import SWATH, Shell

pytestmark = pytest.mark.req("Z7")


async def _under(umask: str, shell: Shell, *arguments: str, **variables: str) -> tuple[int, str]:
    """A real command under that umask; `run` ends by itself, anything else is left running by the caller."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'umask "$0"; exec "$@"', umask, str(SWATH), *arguments),
        cwd=shell.folder,
        env=shell.environment | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    shell._started.append(process)
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode()


def _modes(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in (folder, *folder.rglob("*")):
        yield path.relative_to(folder), stat.S_IMODE(path.lstat().st_mode)


def _wider(folder: Path, allowed: int) -> list[tuple[str, str]]:
    """What lets others do more than that."""
    return [(str(path), f"{mode:o}") for path, mode in _modes(folder) if mode & 0o077 & ~allowed]


def _items(shell: Shell) -> str:
    with shell.write("items.csv", "").open("w", newline="") as file:
        csv.writer(file).writerows([["parcel_id"], ["100-10-025"], ["100-10-026"]])
    return "items.csv"


async def test_all_that_a_run_and_a_controller_store_is_private(shell: Shell, county: DemoCountyServer) -> None:
    del county
    data, items = shell.folder / "data", _items(shell)
    for layout in ("files", "warc"):
        code, out = await _under("022", shell, *_run(items, f"job-{layout}"), "--layout", layout)
        assert code == 0, out
    assert (data / "results" / "job-files" / "items").is_dir()
    assert list(data.glob("results/job-warc/**/*.warc.gz"))
    serve = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'umask 022; exec "$@"', "sh", str(SWATH), "serve", "--port", "0"),
        cwd=shell.folder,
        env=shell.environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    shell._started.append(serve)
    assert serve.stdout is not None
    assert b"listens at" in await asyncio.wait_for(serve.stdout.readline(), 90)
    names = {path.name for path in data.rglob("*")}
    assert {"swath.db", "swath.db-wal", "swath.db-shm", "swath.db-pulse", "sites.sqlite"} <= names
    assert {"workers", "controllers", "job_metadata.json"} <= names
    assert _wider(data, 0) == []
    # What a user asks for by name is that user's own affair: the umask alone decides.
    code, out = await _under("022", shell, "jobs", "export", "job-files", "--output", "out.csv")
    assert code == 0, out
    assert stat.S_IMODE((shell.folder / "out.csv").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("umask", "readable_by", "folder", "file"),
    [("022", "all", 0o755, 0o644), ("027", "all", 0o750, 0o640), ("077", "all", 0o700, 0o600)],
)
async def test_results_are_opened_by_a_setting_as_far_as_the_umask_allows(
    shell: Shell, county: DemoCountyServer, umask: str, readable_by: str, folder: int, file: int
) -> None:
    del county
    data = shell.folder / "data"
    code, out = await _under(umask, shell, *_run(_items(shell), "job"), SWATH_RESULTS_READABLE_BY=readable_by)
    assert code == 0, out
    for path, mode in _modes(data / "results"):
        wanted = folder if (data / "results" / path).is_dir() else file
        assert f"{mode:o}" == f"{wanted:o}", path
    assert stat.S_IMODE(data.stat().st_mode) == 0o711 & ~int(umask, 8)  # to pass through, not to look around
    others = [path for path in data.iterdir() if path.name != "results"]
    assert {path.name for path in others} >= {"swath.db", "sites.sqlite", "workers"}
    assert [path.name for path in others if path.stat().st_mode & 0o077] == []


async def test_an_open_data_folder_is_told_of_and_left_as_it_is(shell: Shell, county: DemoCountyServer) -> None:
    del county
    data = shell.folder / "data"
    (data / "results").mkdir(parents=True)
    data.chmod(0o755)
    (data / "results").chmod(0o755)
    code, out = await _under("022", shell, *_run(_items(shell), "job"))
    assert code == 0, out
    assert [name for name, _ in _wider(data, 0)] == [".", "results"]
    told = shell.swath("doctor").stdout
    assert f"chmod 700 {data}" in told
    assert f"chmod -R go= {data}/results" in told
    assert [name for name, _ in _wider(data, 0)] == [".", "results"]
    for command in told.splitlines():
        if "chmod" in command:
            assert await (await asyncio.create_subprocess_shell(command.partition("→")[2])).wait() == 0
    assert _wider(data, 0) == []
    assert "chmod" not in shell.swath("doctor").stdout


def _run(items: str, job_id: str) -> tuple[str, ...]:
    return ("run", "demo-county", "--items", items, "--job-id", job_id, "--quiet")
