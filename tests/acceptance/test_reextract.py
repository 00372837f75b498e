"""R6 as a person uses it: the site is gone, the network is cut, and a later scraper reads the stored pages again."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.demo.county import DemoCountyServer, exists, parcel
from swath.domain.errors import UnknownName
from tests.acceptance.conftest import SWATH

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("R6", "K1", "K2")

ALONE = ["unshare", "--map-root-user", "--net"]
PARCELS = [f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(40)]
THERE = [one for one in PARCELS if exists(one)]

LATER = """
from typing import Any

from swath import Output, scraper
from swath.scrapers.demo_county import DemoCounty, Parcel


class Later(Output):
    parcel_id: str
    owner: str
    status: str
    initial: str


@scraper("demo-county-later", version="2", sites=["demo.local"])
class DemoCountyLater(DemoCounty):
    Output = Later

    def extract(self, pages: Any) -> Any:
        record = super().extract(pages)
        named = {name: record[name] for name in ("parcel_id", "owner")}
        return {**named, "status": record["status"].upper() + "!", "initial": record["owner"][0]}

    def validate_result(self, record: Any) -> None:
        pass
"""

SLOW = """
import time
from swath import HttpScraper, Page, WebPage, scraper

@scraper("slow", version="{version}")
class Slow(HttpScraper):
    async def fetch(self, item, web):
        body = b"<h1>" + str(item.model_extra).encode() + b"</h1>" + b"<p>x</p>" * 200
        return WebPage(Page(name="html", url="mock:slow", status=200, body=body))

    def extract(self, pages):
        time.sleep({seconds})
        return {{"title": pages.main.text_of("h1"), "version": "{version}"}}
"""

DEADLY = """
import os, signal, time
from pathlib import Path
from swath import HttpScraper, Input, Page, WebPage, scraper

class In(Input):
    n: int

@scraper("deadly", version="1")
class Deadly(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        return WebPage(Page(name="html", url="mock:deadly", status=200, body=b"<h1>%d</h1>" % item.n))

    def extract(self, pages):
        number = pages.main.text_of("h1")
        if number == "130" and Path("deadly").exists():
            Path("deadly").unlink()
            {what}
        return {{"n": number}}
"""


def may_cut_the_network() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


def alone(shell: Shell, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command where there is no network at all, not even the machine's own."""
    return subprocess.run(
        [*ALONE, str(SWATH), *arguments],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


async def run_county(shell: Shell, layout: str) -> None:
    """The site is there while the job runs, and never again."""
    shell.write("parcels.csv", "\n".join(["parcel_id", *PARCELS]))
    shell.write("later.py", LATER)
    async with DemoCountyServer() as county:
        shell.environment["SWATH_DEMO_URL"] = county.base_url
        order = ("--items", "parcels.csv", "--job-id", "county", "--layout", layout, "--quiet")
        code, _, err = await shell.run("run", "demo-county", *order)
    assert code == 0, err


def versions(shell: Shell, *more: str) -> Any:
    return json.loads(shell.swath("jobs", "versions", "county", "--json", *more).stdout)


@pytest.mark.skipif(not may_cut_the_network(), reason="needs leave to make a network namespace")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_new_fields_come_out_of_old_pages_without_a_network(shell: Shell, layout: str) -> None:
    await run_county(shell, layout)
    done = alone(shell, "jobs", "reextract", "county", "--scraper", "later.py@2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["job_id"], told["status"], told["counts"]["success"]) == ("county.v2", "completed", len(THERE))
    assert (told["current"], told["layout"]) == (True, "warc")
    fields = {
        name: (one["same"], one["filled"], one["changed"], one["lost"]) for name, one in told["diff"]["fields"].items()
    }
    every = len(THERE)
    assert (fields["owner"], fields["status"], fields["initial"]) == (
        (every, 0, 0, 0),
        (0, 0, every, 0),
        (0, every, 0, 0),
    )
    assert fields["paid"] == (0, 0, 0, every)
    first = told["diff"]["fields"]["initial"]["examples"]["filled"][0]
    assert (first["before"], first["after"]) == (None, parcel(first["item_id"]).owner[0])
    for job_id in ("county", "county.v2"):
        assert shell.swath("jobs", "verify", job_id).returncode == 0
    assert [(one["version"], one["current"], one["scraper_version"]) for one in versions(shell)] == [
        (1, False, "1"),
        (2, True, "2"),
    ]
    assert versions(shell, "--diff", "2") == told["diff"]


@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_the_pointer_moves_back_and_a_sample_never_moves_it(shell: Shell, layout: str) -> None:
    await run_county(shell, layout)
    sample = shell.swath("jobs", "reextract", "county", "--scraper", "later.py", "--sample", "5")
    assert sample.returncode == 0, sample.stderr
    assert "5 of 5 done" in sample.stdout
    assert "readers still get version 1" in sample.stdout
    refused = shell.swath("jobs", "use", "county", "--version", "2")
    assert (refused.returncode, "sample" in refused.stderr) == (2, True)
    whole = shell.swath("jobs", "reextract", "county", "--scraper", "later.py")
    assert "readers get version 3 from now on; to go back:" in whole.stdout, whole.stderr
    assert re.search(rf"^initial +0 +{len(THERE)} +0 +0$", whole.stdout, re.MULTILINE)
    export = ("jobs", "export", "county", "--format", "jsonl", "--output", "-")
    assert '"initial"' in shell.swath(*export).stdout
    assert shell.swath("jobs", "use", "county", "--version", "1").returncode == 0
    assert '"initial"' not in shell.swath(*export).stdout
    kept = shell.swath("jobs", "delete", "county.v3", "--yes")
    assert kept.returncode == 0, kept.stderr
    assert [one["version"] for one in versions(shell)] == [1, 2]
    assert shell.swath("jobs", "delete", "county", "--yes").returncode == 0
    assert [path.name for path in (shell.folder / "data" / "results").iterdir() if path.name.startswith("county")] == []


async def test_mistakes_are_told_in_one_line(shell: Shell) -> None:
    shell.write("slow.py", SLOW.format(version="1", seconds=0))
    shell.write("items.csv", "n\n1\n2")
    shell.write("policy.yaml", "keep: data\n")
    order = ("run", "slow.py", "--items", "items.csv", "--quiet")
    assert shell.swath(*order, "--job-id", "bare", "--policy", "policy.yaml").returncode == 0
    assert shell.swath(*order, "--job-id", "kept").returncode == 0
    for code, arguments, word in (
        (2, ("kept", "--scraper", "slow.py@2"), "has version 1"),
        (2, ("kept", "--scraper", "nowhere.py"), "nowhere.py"),
        (2, ("bare", "--scraper", "slow.py"), "no stored pages"),
        (7, ("none", "--scraper", "slow.py"), "none"),
    ):
        done = shell.swath("jobs", "reextract", *arguments)
        assert (done.returncode, done.stderr.count("\n"), word in done.stderr) == (code, 1, True), done.stderr
    assert json.loads(shell.swath("jobs", "status", "kept", "--json").stdout)["versions"] == 1


async def _progress(shell: Shell, job_id: str) -> int:
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    try:
        return (await store.status(job_id)).counts.success
    except UnknownName:
        return 0
    finally:
        await store.close()


@pytest.mark.req("Z2")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_killed_in_the_middle_the_same_command_goes_on_and_nothing_is_lost_or_double(
    shell: Shell, layout: str
) -> None:
    shell.write("slow.py", SLOW.format(version="1", seconds=0))
    shell.write("items.csv", "\n".join(["n", *map(str, range(500))]))
    order = ("run", "slow.py", "--items", "items.csv", "--job-id", "job", "--layout", layout, "--quiet")
    assert (await shell.run(*order, "--concurrency", "64"))[0] == 0
    shell.write("slow.py", SLOW.format(version="2", seconds=0.01))
    again = ("jobs", "reextract", "job", "--scraper", "slow.py@2", "--processes", "2", "--json")
    killed = await shell.start(*again)
    async with asyncio.timeout(60):
        while not await _progress(shell, "job.v2"):
            await asyncio.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    assert 0 < await _progress(shell, "job.v2") < 500
    code, out, err = await shell.run(*again)
    assert code == 0, err
    told = json.loads(out)
    assert (told["job_id"], told["counts"]["success"], told["counts"]["total"]) == ("job.v2", 500, 500)
    assert (told["diff"]["fields"]["title"]["same"], told["diff"]["fields"]["version"]["changed"]) == (500, 500)
    verified = json.loads((await shell.run("jobs", "verify", "job.v2", "--json"))[1])
    assert (verified["ok"], verified["counts"]["success"]) == (True, 500)
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    records = await store.items("job.v2")
    await store.close()
    assert len({record.item_id for record in records}) == 500
    assert len({record.attempts[-1].worker for record in records}) > 1


@pytest.mark.req("Z2", "S6")
@pytest.mark.parametrize(
    ("what", "code"), [("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL), ("time.sleep(3600)", 1)]
)
async def test_of_a_group_that_was_never_committed_nothing_is_lost_or_double(
    shell: Shell, what: str, code: int
) -> None:
    """The process dies inside `extract`, or that never returns: what the items before it gave is not stored yet."""
    shell.write("deadly.py", DEADLY.format(what=what))
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, 201))]))
    shell.write("policy.yaml", "timeouts: {item_seconds: 5}\n")
    order = ("run", "deadly.py", "--items", "items.csv", "--job-id", "job", "--policy", "policy.yaml", "--quiet")
    assert shell.swath(*order).returncode == 0
    shell.write("deadly", "")
    again = ("jobs", "reextract", "job", "--scraper", "deadly.py", "--json")
    usual = dict(shell.environment)
    shell.environment |= {"SWATH_STANDSTILL_SECONDS": "5", "SWATH_HEARTBEAT_SECONDS": "0.5"}
    died = shell.swath(*again)
    shell.environment = usual
    assert died.returncode == code, died.stderr
    assert await _progress(shell, "job.v2") < 200
    done = shell.swath(*again)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["job_id"], told["counts"]["success"], told["diff"]["same_items"]) == ("job.v2", 200, 200)
    assert json.loads(shell.swath("jobs", "verify", "job.v2", "--json").stdout)["ok"] is True
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    records = await store.items("job.v2")
    await store.close()
    assert [len(record.attempts) for record in records] == [1] * 200
