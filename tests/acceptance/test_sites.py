"""Sites as the command treats them: robots.txt, shared rates, circuits, hours, and addresses that are never reached."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.bench.pacing import worst_window
from swath.demo.county import DemoCountyServer
from swath.domain.site_policy import WEEKDAYS
from tests.acceptance.conftest import Shell

QUICK = {"retries": {"max_retries": 0}, "circuit_breaker": {"min_requests": 1000, "consecutive_failures": 1000}}


def items(shell: Shell, number: int) -> str:
    return str(shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(number))))


def policy(shell: Shell, **sections: object) -> str:
    return str(shell.write("policy.json", json.dumps(QUICK | sections)))


def site(shell: Shell, **fields: object) -> None:
    """JSON is YAML too."""
    written = shell.write("sites.yaml", json.dumps({"sites": {"demo-county": fields}}))
    shell.environment["SWATH_SITES"] = str(written)


async def status(shell: Shell, job_id: str = "j") -> dict[str, object]:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


async def until_told(shell: Shell, words: str) -> None:
    """Looks until the status of the job, made by another process, says so."""
    async with asyncio.timeout(60):
        while words not in (await shell.run("jobs", "status", "j", "--json"))[1]:
            await asyncio.sleep(0.1)


@pytest.mark.req("H5", "J4")
async def test_a_job_whose_every_item_is_denied_is_refused_before_it_starts(
    shell: Shell, county: DemoCountyServer
) -> None:
    county.switches = replace(county.switches, robots="User-agent: *\nDisallow: /\n")
    code, _, err = await shell.run("run", "example-http", "--items", items(shell, 5), "--job-id", "j", "--quiet")
    assert code == 2
    assert err.count("\n") == 1
    assert "robots.txt denies every item" in err
    assert "SWATH_SITES" in err
    assert (await shell.run("jobs", "status", "j"))[0] == 7, "nothing is left of it"


@pytest.mark.req("H5", "J3", "J4")
async def test_what_robots_txt_denies_is_skipped_and_accounted_for(shell: Shell, county: DemoCountyServer) -> None:
    order = ("--items", items(shell, 5), "--job-id", "j", "--quiet")
    assert (await shell.run("jobs", "create", "example-http", *order))[0] == 0
    county.switches = replace(county.switches, robots="User-agent: *\nDisallow: /echo\n")
    (shell.folder / "data" / "sites.sqlite").unlink()  # as if a day had gone by
    assert (await shell.run("run", "--job-id", "j"))[0] == 4, "all were skipped"
    found = await status(shell)
    assert found["status"] == "failed"
    assert isinstance(found["counts"], dict)
    assert (found["counts"]["skipped"], found["counts"]["failed"]) == (5, 0)
    assert (await shell.run("jobs", "verify", "j"))[0] == 0
    code, out, _ = await shell.run("jobs", "item", "j", "0", "--json")
    assert code == 0
    assert "robots_denied" in out


@pytest.mark.req("H5", "D1")
async def test_robots_txt_is_ignored_where_the_operator_says_so(shell: Shell, county: DemoCountyServer) -> None:
    county.switches = replace(county.switches, robots="User-agent: *\nDisallow: /\n")
    site(shell, robots="ignore")
    assert (await shell.run("run", "example-http", "--items", items(shell, 3), "--job-id", "j"))[0] == 0


@pytest.mark.req("S2", "Z3")
async def test_a_job_may_lower_the_rate(shell: Shell, county: DemoCountyServer) -> None:
    order = ("run", "example-http", "--items", items(shell, 30), "--job-id", "j", "--quiet")
    lowered = policy(shell, throttling={"requests_per_second": 20})
    code, _, err = await shell.run(*order, "--policy", lowered)
    assert code == 0, err
    assert worst_window(list(county.counters.timestamps), 20.0, lag_seconds=0.05) <= 0


@pytest.mark.req("S2", "D1")
async def test_a_job_cannot_raise_the_rate(shell: Shell, county: DemoCountyServer) -> None:
    site(shell, rate={"tokens": 20, "per_seconds": 1})
    order = ("run", "example-http", "--items", items(shell, 30), "--job-id", "j", "--quiet")
    raised = policy(shell, throttling={"requests_per_second": 1000})
    assert (await shell.run(*order, "--policy", raised))[0] == 0
    assert worst_window(list(county.counters.timestamps), 20.0, lag_seconds=0.05) <= 0


@pytest.mark.req("D3")
async def test_after_a_sites_circuit_has_opened_only_probes_reach_it(shell: Shell, county: DemoCountyServer) -> None:
    county.switches = replace(county.switches, failure_rate=1.0, latency_ms=30)
    site(shell, breaker={"window": 10, "failures": 5, "reopen_seconds": 600})
    order = ("run", "example-http", "--items", items(shell, 200), "--job-id", "j", "--policy", policy(shell))
    process = await shell.start(*order, "--concurrency", "4", "--quiet")
    await until_told(shell, "its circuit is open")
    reached = county.counters.requests
    assert reached <= 5 + 4 + 1, "five failures, what was under way, and robots.txt"
    await asyncio.sleep(1.0)
    assert county.counters.requests == reached
    found = await status(shell)
    assert isinstance(found["counts"], dict)
    assert found["status"] == "running"
    assert found["counts"]["failed"] == reached - 1
    process.terminate()
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130


@pytest.mark.req("S8")
async def test_outside_its_hours_a_site_is_not_visited_and_the_status_says_so(
    shell: Shell, county: DemoCountyServer
) -> None:
    order = ("jobs", "create", "example-http", "--items", items(shell, 3), "--job-id", "j", "--quiet")
    assert (await shell.run(*order))[0] == 0
    visits = county.counters.requests
    another_day = WEEKDAYS[(datetime.now(UTC).weekday() + 3) % 7]
    site(shell, allowed_hours={"windows": [{"from": "00:00", "until": "24:00", "days": [another_day]}]})
    process = await shell.start("worker")
    await until_told(shell, '"running"')
    await until_told(shell, "closed at this hour")
    await asyncio.sleep(0.5)
    assert county.counters.requests == visits
    process.terminate()
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0


@pytest.mark.req("Z4", "Z6")
async def test_a_private_address_is_refused_unless_the_operator_allows_just_that(
    shell: Shell, county: DemoCountyServer
) -> None:
    shell.write(
        "any_page.py",
        "from swath import HttpScraper, Input, scraper\n\n\n"
        '@scraper("any-page", version="1")\n'
        "class AnyPage(HttpScraper):\n"
        "    class Input(Input):\n        url: str\n\n"
        "    async def fetch(self, item, web):\n        return await web.get(item.url)\n",
    )
    del shell.environment[
        "SWATH_ALLOW_PRIVATE"
    ]  # the demo site is where SWATH_DEMO_URL says, and this is no demo scraper
    port = county.base_url.rpartition(":")[2]
    shell.write("urls.csv", f"url\n{county.base_url}/echo\nhttp://127.1:{port}/echo\nhttp://0x7f000001:{port}/\n")
    order = ("run", "./any_page.py", "--items", "urls.csv", "--policy", policy(shell), "--quiet", "--json")
    code, out, _ = await shell.run(*order, "--job-id", "no")
    assert code == 4
    assert json.loads(out)["failures"] == {"egress_denied": 3}
    assert county.counters.requests == 0
    demo = ("run", "example-http", "--items", items(shell, 1), "--policy", policy(shell), "--quiet")
    code, _, err = await shell.run(*demo, "--job-id", "demo")
    assert code == 0, err
    reached = county.counters.requests
    code, _, err = await shell.run(*demo, "--job-id", "callback", "--callback-url", f"{county.base_url}/hook")
    assert code == 2
    assert "is not to be reached" in err
    assert county.counters.requests == reached
    shell.environment["SWATH_ALLOW_PRIVATE"] = county.base_url.removeprefix("http://")
    code, out, err = await shell.run(*order, "--job-id", "yes")
    assert code == 0, err


@pytest.mark.req("D1", "Z5")
def test_a_wrong_site_file_is_one_line_that_says_what_to_do(shell: Shell) -> None:
    shell.environment["SWATH_SITES"] = str(shell.write("sites.yaml", "sites:\n  demo-county:\n    rat: 5\n"))
    done = shell.swath("jobs", "list")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "sites.yaml" in done.stderr
    assert "rate" in done.stderr


@pytest.mark.req("O4", "D1", "D3")
async def test_the_doctor_looks_at_sites_too(shell: Shell, county: DemoCountyServer) -> None:
    def told() -> dict[str, str]:
        checks = json.loads(shell.swath("doctor", "--json").stdout)["checks"]
        found: dict[str, str] = next(check for check in checks if check["check"] == "sites")
        return found

    assert told()["level"] == "ok"
    county.switches = replace(county.switches, failure_rate=1.0)
    site(shell, breaker={"window": 2, "failures": 1, "reopen_seconds": 600})
    order = ("run", "example-http", "--items", items(shell, 20), "--job-id", "j", "--policy", policy(shell), "--quiet")
    process = await shell.start(*order)
    await until_told(shell, "its circuit is open")
    process.terminate()
    await asyncio.wait_for(process.communicate(), 60)
    assert (told()["level"], "demo-county" in json.dumps(told())) == ("warn", True)
    shell.environment["SWATH_SITES"] = str(shell.write("wrong.yaml", "sites: 5\n"))
    assert told()["level"] == "fail"
