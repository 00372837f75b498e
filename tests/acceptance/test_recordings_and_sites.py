"""A recording that does not fit its page is no fault of the site's (D3, H2): it never closes the site, neither as a job
nor by `recording try`; and an item that waits for a site says until when and what to do."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from swath.demo.county import DemoCountyServer
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("A4", "D3", "H2")

# The dialog of the page lies over its form.
COVERED = {"do": "click", "on": "#btnSearch", "timeout_seconds": 0.5}
MISSING = {"do": "click", "on": "#gone", "timeout_seconds": 0.5}
UNTIL = re.compile(r"until 20\S+ \S+")
ONE_TRY = {"retries": {"max_retries": 0}}


def flow(shell: Shell, county: DemoCountyServer, name: str, *steps: dict[str, Any]) -> str:
    told = {"swath_recording": 1, "id": name, "base_url": county.base_url, "sites": ["127.0.0.1"], "inputs": {"n": {}}}
    shell.write(f"{name}.json", json.dumps(told | {"steps": [{"do": "goto", "url": "/app/"}, *steps]}))
    return f"{name}.json"


def one_failure_closes(shell: Shell) -> None:
    """From the first failure that counts against it, the site is left alone for ten minutes."""
    breaker = {"window": 2, "failures": 1, "reopen_seconds": 600}
    sites = {"demo-county": {"action_delay_ms": [0, 0], "breaker": breaker}}
    shell.environment["SWATH_SITES"] = str(shell.write("sites.yaml", json.dumps({"sites": sites})))


async def circuit(shell: Shell) -> str:
    shell.write("one.csv", "n\n1\n")
    assert (await shell.run("jobs", "create", "example-http", "--items", "one.csv", "--job-id", "look", "--quiet"))[
        0
    ] == 0
    found = json.loads((await shell.run("jobs", "status", "look", "--json"))[1])
    return str(found["sites"][0]["circuit"])


async def test_covered_and_missing_elements_do_not_close_the_site(shell: Shell, county: DemoCountyServer) -> None:
    one_failure_closes(shell)
    shell.write("one.csv", "n\n1\n")
    policy = str(shell.write("policy.json", json.dumps(ONE_TRY)))
    for name, step in (("covered", COVERED), ("missing", MISSING)):
        order = ("run", flow(shell, county, name, step), "--items", "one.csv", "--policy", policy, "--quiet", "--json")
        code, out, err = await shell.run(*order)
        assert code == 4, err
        assert json.loads(out)["failures"] == {"action_failed": 1}
    assert await circuit(shell) == "closed"


async def test_a_try_does_not_count_for_the_site(shell: Shell, county: DemoCountyServer) -> None:
    one_failure_closes(shell)
    name = flow(shell, county, "flow", {"do": "save_page", "page": "p"})
    county.switches = replace(county.switches, failure_rate=1.0)
    code, out, _ = await shell.run("recording", "try", name, "--input", "n=1", "--json")
    assert (code, json.loads(out)["failure_kind"]) == (4, "server_error")
    county.switches = replace(county.switches, failure_rate=0.0)
    code, out, err = await shell.run("recording", "try", name, "--input", "n=1", "--json")
    assert (code, json.loads(out)["outcome"]) == (0, "success"), err
    assert await circuit(shell) == "closed"


async def test_what_is_held_says_until_when_and_what_to_do(shell: Shell, county: DemoCountyServer) -> None:
    one_failure_closes(shell)
    county.switches = replace(county.switches, failure_rate=1.0)
    shell.write("items.csv", "n\n0\n1\n")
    policy = str(shell.write("policy.json", json.dumps({**ONE_TRY, "circuit_breaker": {"min_requests": 1000}})))
    order = ("run", "example-http", "--items", "items.csv", "--job-id", "j", "--policy", policy, "--concurrency", "1")
    process = await shell.start(*order, "--quiet")
    async with asyncio.timeout(60):
        while (waiting := await waits(shell)) is None:
            await asyncio.sleep(0.1)
    process.terminate()
    await asyncio.wait_for(process.communicate(), 60)
    assert "site demo-county is left alone (its circuit is open) until 20" in waiting
    assert "goes on by itself then" in waiting
    assert "swath jobs status j" in waiting
    told = await shell.run("recording", "try", flow(shell, county, "flow", MISSING), "--input", "n=1")
    assert told[0] == 5
    assert "not tried: site demo-county is left alone: its circuit is open, until 20" in told[1]
    assert "try again then" in told[1]


async def waits(shell: Shell) -> str | None:
    """What is said of the second item, once it waits."""
    code, out, _ = await shell.run("jobs", "item", "j", "1", "--json")
    if code != 0 or (told := json.loads(out)["waits_for"]) is None:
        return None
    again = (await shell.run("jobs", "item", "j", "1"))[1]
    assert UNTIL.sub("", told) in UNTIL.sub("", again)  # between the two looks it may wait for longer
    return str(told)
