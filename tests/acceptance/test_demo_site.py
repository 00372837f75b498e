"""Z4: the private address of the demo site is open to the demo scrapers alone, and only while it is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swath.demo.county import DemoCountyServer
from tests.acceptance.conftest import Shell
from tests.unit.integrations.webhooks.receiver import receiving, saying

pytestmark = pytest.mark.req("Z4")

# Calls itself a demo scraper, in a file of somebody's own.
IMPOSTOR = """\
from swath import HttpScraper, Input, scraper


@scraper("demo-county", version="1")
class Impostor(HttpScraper):
    class Input(Input):
        url: str

    async def fetch(self, item, web):
        return await web.get(item.url)
"""


@pytest.fixture
def closed(shell: Shell, county: DemoCountyServer) -> Shell:
    """Nothing private is allowed, and the demo site is served."""
    del county, shell.environment["SWATH_ALLOW_PRIVATE"]
    return shell


def _run(shell: Shell, scraper: str, urls: list[str], job_id: str) -> tuple[str, ...]:
    shell.write("urls.csv", "\n".join(["url", *urls]) + "\n")
    return ("run", scraper, "--items", "urls.csv", "--job-id", job_id, "--quiet", "--json")


async def test_a_file_that_calls_itself_a_demo_scraper_does_not_reach_it(
    closed: Shell, county: DemoCountyServer
) -> None:
    closed.write("impostor.py", IMPOSTOR)
    code, out, err = await closed.run(*_run(closed, "./impostor.py", [f"{county.base_url}/echo"], "impostor"))
    assert code == 4, err
    assert json.loads(out)["failures"] == {"egress_denied": 1}
    folder = closed.folder / "mine"
    folder.mkdir()
    (folder / "impostor.py").write_text(IMPOSTOR)
    closed.environment["SWATH_SCRAPERS"] = str(folder)  # the one that is shipped counts, so `url` is no input of it
    code, out, err = await closed.run(*_run(closed, "demo-county", [f"{county.base_url}/echo"], "folder"))
    assert code != 0
    assert county.counters.requests == 0


async def test_neither_a_redirect_nor_a_robots_file_of_another_scraper_leads_there(
    closed: Shell, county: DemoCountyServer
) -> None:
    closed.write("impostor.py", IMPOSTOR)
    async with receiving(saying(302, f"Location: {county.base_url}/echo")) as other:  # its robots.txt redirects, too
        closed.environment["SWATH_ALLOW_PRIVATE"] = other.address
        code, out, err = await closed.run(*_run(closed, "./impostor.py", [f"http://{other.address}/"], "redirected"))
        assert other.received  # it was reached, and what it said was not followed
    assert code == 4, err
    assert json.loads(out)["failures"] == {"egress_denied": 1}
    assert county.counters.requests == 0
    closed.environment["SWATH_ALLOW_PRIVATE"] += f",{county.base_url.removeprefix('http://')}"
    async with receiving(saying(302, f"Location: {county.base_url}/echo")) as other:
        closed.environment["SWATH_ALLOW_PRIVATE"] += f",{other.address}"
        await closed.run(*_run(closed, "./impostor.py", [f"http://{other.address}/"], "allowed"))
    assert county.counters.requests > 0  # the same goes through where the operator allows it


async def test_a_demo_scraper_does_not_reach_somebody_else_at_that_address(shell: Shell) -> None:
    async with receiving() as stranger:
        shell.environment["SWATH_DEMO_URL"] = f"http://{stranger.address}"
        shell.write("parcels.csv", "parcel_id\n100-10-025\n")
        order = ("run", "demo-county", "--items", "parcels.csv", "--quiet", "--json")
        code, out, err = await shell.run(*order, "--job-id", "stranger")
        assert code == 4, err
        assert json.loads(out)["failures"] == {"egress_denied": 1}
        asked = {one.path.partition("?")[0] for one in stranger.received}
        assert asked <= {"/_site/proof"}
    async with DemoCountyServer() as county:
        shell.environment["SWATH_DEMO_URL"] = county.base_url
        code, _, err = await shell.run(*order, "--job-id", "county")
        assert code == 0, err
        assert county.counters.requests > 0


async def test_a_recording_that_calls_itself_the_demos_is_tried_without_it(
    closed: Shell, county: DemoCountyServer
) -> None:
    about = {"swath_recording": 1, "id": "demo-county-recording", "base_url": county.base_url}
    steps = [{"do": "goto", "url": "/"}, {"do": "extract", "field": "heading", "on": "h1"}]
    Path(closed.folder / "flow.json").write_text(json.dumps({**about, "steps": steps}))
    code, out, err = await closed.run("recording", "try", "flow.json", "--json")
    assert code != 0, err
    assert out, err
    assert json.loads(out)["failure_kind"] == "egress_denied"
    assert county.counters.requests == 0
