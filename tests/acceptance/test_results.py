"""R7, R8: the commands that trace a value to its page and compare two jobs, as a person types them."""

from __future__ import annotations

import csv
import json

import pytest

from tests.acceptance.conftest import Shell

SCRAPER = '''
"""Two pages an item, made up from a file."""

import json
from pathlib import Path

from swath import HttpScraper, Input, NotFound, Page, WebPage, scraper


class Parcel(Input):
    parcel: str


@scraper("two-pages", version="7", description="Made up.")
class TwoPages(HttpScraper):
    Input = Parcel

    async def fetch(self, item, web):
        known = json.loads((Path(__file__).parent / "site.json").read_text())
        if item.parcel not in known:
            raise NotFound("there is no such parcel")
        owner, due = known[item.parcel]
        body = f"<h1>{item.parcel}</h1><b>{owner}</b>".encode()
        return {
            "html": WebPage(Page(name="html", url="mock:parcel", status=200, body=body, fetched_at=1.75e9)),
            "bill": WebPage(Page(name="bill", url="mock:bill", status=200, body=f"<p>{due}</p>".encode())),
        }

    def extract(self, pages):
        owner, parcel = pages["html"].text_of("b"), pages["html"].text_of("h1")
        return {"parcel": parcel, "owner": owner, "tax": {"due": int(pages["bill"].text_of("p"))}, "from": "site"}
'''


@pytest.fixture
def two_jobs(shell: Shell, request: pytest.FixtureRequest) -> Shell:
    """Jobs `a` and `b` of one site, which has changed between them."""
    shell.write("two.py", SCRAPER)
    shell.write("items.csv", "parcel\n100\n200\n300\n400\n")
    layouts = {"files": [], "warc": ["--layout", "warc"]}[getattr(request, "param", "files")]
    for job, site in (
        ("a", {"100": ("ANN", 17), "200": ("BOB", 5), "300": ("CAT", 9)}),
        ("b", {"100": ("ANNA", 17), "300": ("CAT", 9), "400": ("DAN", 8)}),
    ):
        shell.write("site.json", json.dumps(site))
        done = shell.swath("run", "two.py", "--items", "items.csv", "--job-id", job, *layouts)
        assert done.returncode == 0, done.stderr
    return shell


@pytest.mark.req("R8")
def test_names_that_a_site_has_made_up_do_not_move_the_cursor(shell: Shell) -> None:
    shell.write("two.py", SCRAPER.replace('"bill"', r'"bill\x1b]0;mine\x07\nstate: gone"'))
    shell.write("items.csv", "parcel\n100\n")
    shell.write("site.json", json.dumps({"100": ("ANN\x1b[2J", 17)}))
    assert shell.swath("run", "two.py", "--items", "items.csv", "--job-id", "a").returncode == 0
    told = shell.swath("jobs", "item", "a", "100").stdout
    assert "page bill·]0;mine··state: gone: mock:bill (200" in told
    assert all(line.isprintable() for line in told.splitlines())


@pytest.mark.req("R2", "R8")
@pytest.mark.parametrize("two_jobs", ["files", "warc"], indirect=True)
def test_a_value_leads_to_its_page(two_jobs: Shell) -> None:
    told = two_jobs.swath("jobs", "item", "a", "100").stdout
    assert "page html:     mock:parcel (200, 2025-06-15 " in told
    assert "\nrecord:        version 1, by two-pages 7, generation 1, proxy none\n" in told
    assert '\nvalue:         owner = "ANN" (found in html)\n' in told
    assert "\nvalue:         tax.due = 17 (found in bill)\n" in told
    assert '\nvalue:         from = "site" (from html, bill)\n' in told
    assert "mock:bill (200, 1970" not in told, "a page without a time is of its attempt"
    files = [line for line in told.splitlines() if line.startswith("artifact:")]
    assert len(files) == 4
    assert all(("bytes)" in line) is ("/packs/" not in line) for line in files), "a line of a pack is no file"
    only = two_jobs.swath("jobs", "item", "a", "100", "--field", "tax", "--json")
    evidence = json.loads(only.stdout)["evidence"]
    assert [(one["field"], one["value"], one["found_in"]) for one in evidence["values"]] == [("tax.due", 17, ["bill"])]
    assert {"url", "sha256", "fetched_at", "status", "artifact"} <= evidence["pages"][1].keys()
    wrong = two_jobs.swath("jobs", "item", "a", "100", "--field", "ownr")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (7, 1)
    assert "did you mean 'owner'" in wrong.stderr


@pytest.mark.req("R7")
@pytest.mark.parametrize("two_jobs", ["files", "warc"], indirect=True)
def test_two_jobs_are_compared(two_jobs: Shell) -> None:
    shown = two_jobs.swath("jobs", "compare", "a", "b", "--key", "parcel")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert "1 new, 1 changed, 1 vanished, 1 the same" in shown.stdout
    assert ["owner", "1", "0", "0"] in lines
    assert lines[-3:] == [["changed", "100", "owner", "ANN", "ANNA"], ["vanished", "200"], ["new", "400"]]
    written = two_jobs.swath("jobs", "compare", "a", "b", "--key", "parcel", "--output", "changes.csv")
    assert (written.returncode, written.stdout) == (0, "")
    with (two_jobs.folder / "changes.csv").open(newline="") as file:
        assert [(row["change"], row["key_parcel"]) for row in csv.DictReader(file)] == [
            ("changed", "100"),
            ("vanished", "200"),
            ("new", "400"),
        ]
    document = json.loads(two_jobs.swath("jobs", "compare", "a", "b", "--key", "parcel", "--json").stdout)
    assert document["summary"]["counts"]["vanished"] == 1
    assert len(document["differences"]) == 3


@pytest.mark.req("R7", "C2")
@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--key", "parcl"], 7, "did you mean 'parcel'"),
        (["--output", "changes.txt"], 2, "Give --format json or csv"),
        (["--output", "items.csv"], 2, "--force"),
        (["--output", "nowhere/changes.csv"], 2, "there is no folder"),
        (["--server", "http://127.0.0.1:1"], 1, "cannot be reached"),
    ],
)
def test_mistakes_are_told_in_one_line(two_jobs: Shell, more: list[str], code: int, said: str) -> None:
    done = two_jobs.swath("jobs", "compare", "a", "b", *more)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert said in done.stderr
    assert two_jobs.swath("jobs", "compare", "a", "nobody").returncode == 7
