"""A5 as a person uses it: one recording, a CSV, an ordinary job; checked, exported, read again by a later version."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import swath.scrapers
from swath.demo.county import DemoCountyServer, exists, parcel

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("A5", "K1", "K5", "R6")

PARCELS = ["501-22-000", "501-22-004", "501-22-009"]
THERE = [one for one in PARCELS if exists(one)]
SHIPPED = Path(swath.scrapers.__file__).parent / "demo_county_recording.yaml"
QUICK = "sites: {demo-county: {action_delay_ms: [0, 0], breaker: {window: 1000, failures: 1000}}}\n"
OWNER = """\
swath_recording: 1
id: my-county
version: "2"
inputs: {parcel_id: {}}
not_found: [{on: '#divError', text: No records found}]
steps:
  - {do: goto, url: 'http://127.0.0.1/app/'}
  - {do: extract, field: parcel_id, on: '#parcelNumber'}
  - {do: extract, field: owner, on: ['xpath///tr[th="Owner"]/td', 'xpath///dt[.="Owner of record:"]/following::dd[1]'],
     transform: [lower]}
  - {do: extract, field: years, on: '#gvTaxYears', kind: table, columns: {year: Year, tax: Tax}}
"""


def flow(county: DemoCountyServer) -> str:
    text = SHIPPED.read_text(encoding="utf-8")
    text = text.replace("id: demo-county-recording", "id: my-county").replace("http://127.0.0.1:8010", county.base_url)
    assert "id: my-county" in text
    assert county.base_url in text
    return text


async def test_one_recording_and_a_csv_are_an_ordinary_job(shell: Shell, county: DemoCountyServer) -> None:
    shell.environment["SWATH_SITES"] = str(shell.write("quick-sites.yaml", QUICK))
    shell.write("flow.yaml", flow(county))
    shell.write("parcels.csv", "parcel_id,bill\n" + "".join(f"{one},{i == 0}\n" for i, one in enumerate(PARCELS)))
    code, out, err = await shell.run("run", "flow.yaml", "--items", "parcels.csv", "--name", "counted", "--json")
    assert code == 0, err
    status = json.loads(out)
    job_id = status["job_id"]
    assert (status["scraper_id"], status["counts"]["success"]) == ("my-county", len(PARCELS))

    code, out, err = await shell.run("jobs", "verify", job_id)
    assert code == 0, err
    code, _, err = await shell.run("jobs", "export", job_id, "--format", "csv", "--output", "found.csv")
    assert code == 0, err
    with (shell.folder / "found.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["parcel_id"]: row for row in csv.DictReader(file)}
    assert sorted(rows) == sorted(THERE)
    for one in THERE:
        assert (rows[one]["owner"], rows[one]["total_due"]) == (parcel(one).owner, str(parcel(one).total_due))
    assert list(shell.folder.glob("data/results/**/bill-501-22-000.pdf"))

    shell.write("later.yaml", OWNER)
    code, out, err = await shell.run("jobs", "reextract", job_id, "--scraper", "later.yaml@2", "--json")
    assert code == 0, err
    assert json.loads(out)["counts"]["success"] == len(THERE)  # what is not found has nothing to read again
    code, _, err = await shell.run("jobs", "export", job_id, "--format", "jsonl", "--output", "again.jsonl")
    assert code == 0, err
    again = [json.loads(line) for line in (shell.folder / "again.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["parcel_id"] for row in again) == sorted(THERE)
    for row in again:
        truth = parcel(row["parcel_id"])
        assert row["owner"] == truth.owner.lower()
        assert [int(year["year"]) for year in row["years"]] == [line.year for line in truth.history]


@pytest.mark.req("Z5")
def test_rows_that_do_not_fit_and_a_broken_recording_are_told_before_anything_runs(shell: Shell) -> None:
    shell.write("flow.yaml", SHIPPED.read_text(encoding="utf-8"))
    shell.write("parcels.csv", "parcel_id\n501-22\n")
    told = shell.swath("run", "flow.yaml", "--items", "parcels.csv")
    assert told.returncode == 2
    assert "parcel_id" in told.stderr
    shell.write("broken.yaml", "swath_recording: 1\nid: broken\nsteps:\n  - {do: clik, on: x}\n")
    told = shell.swath("run", "broken.yaml", "--items", "parcels.csv")
    assert (told.returncode, len(told.stderr.splitlines())) == (2, 1)
    assert "step 1" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.req("K3")
def test_recordings_of_a_folder_are_listed_and_shown(shell: Shell) -> None:
    shell.write("flow.yaml", OWNER)
    shell.write("broken.yaml", "swath_recording: 1\nid: [\n")
    shell.environment["SWATH_SCRAPERS"] = str(shell.folder)
    told = shell.swath("scraper", "list", "--json")
    listed = {info["scraper_id"]: info for info in json.loads(told.stdout)}
    assert (listed["my-county"]["kind"], listed["my-county"]["version"]) == ("recording", "2")
    assert listed["broken"]["description"].startswith("cannot be read: ")
    told = shell.swath("scraper", "show", "my-county", "--json")
    about = json.loads(told.stdout)
    assert (about["kind"], list(about["input"]["properties"])) == ("recording", ["parcel_id"])
    assert list(about["output"]["properties"]) == ["parcel_id", "owner", "years"]
    told = shell.swath("scraper", "show", "broken")
    assert (told.returncode, len(told.stderr.splitlines())) == (2, 1)


@pytest.mark.req("A2")
def test_scripts_of_a_recording_need_the_operators_word(shell: Shell) -> None:
    shell.write("flow.yaml", OWNER + "  - {do: javascript, code: '1'}\n")
    told = shell.swath("scraper", "show", "flow.yaml")
    assert (told.returncode, "SWATH_ALLOW_JAVASCRIPT" in told.stderr) == (2, True)
    shell.environment["SWATH_ALLOW_JAVASCRIPT"] = "yes"
    assert shell.swath("scraper", "show", "flow.yaml").returncode == 0
