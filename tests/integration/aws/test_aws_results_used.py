"""R5 to R8 on S3: what people do with results works there as on a folder, packed or not."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.client.client import AwsClients
from tests.acceptance.test_results import SCRAPER
from tests.integration.aws.commands_shell import AwsShell

pytestmark = pytest.mark.timeout(240)  # some twenty commands, on a machine that may be busy with others

LATER = SCRAPER.replace('"two-pages", version="7"', '"two-pages", version="8"').replace(
    '"owner": owner,', '"owner": owner.title(), "letters": len(owner),'
)


@pytest.fixture(params=["files", "warc"])
async def shell(
    tmp_path: Path, aws: Endpoints, aws_name: str, request: pytest.FixtureRequest
) -> AsyncIterator[AwsShell]:
    """Jobs `a` and `b` of one site, which has changed between them."""
    shell = AwsShell(tmp_path, aws, aws_name)
    shell.done("aws", "init")
    shell.write("two.py", SCRAPER)
    shell.write("later.py", LATER)
    shell.write("items.csv", "parcel\n100\n200\n300\n400\n")
    for job, site in (
        ("a", {"100": ("ANN", 17), "200": ("BOB", 5), "300": ("CAT", 9)}),
        ("b", {"100": ("ANNA", 17), "300": ("CAT", 9), "400": ("DAN", 8)}),
    ):
        shell.write("site.json", json.dumps(site))
        shell.done("run", "two.py", "--items", "items.csv", "--job-id", job, "--layout", request.param, "--quiet")
    (tmp_path / "site.json").unlink()  # whoever asks the site again finds out
    yield shell
    await shell.end_all()


@pytest.mark.req("R2", "R5", "R6", "R7", "R8", "Q3")
def test_results_in_a_bucket_are_exported_read_again_compared_and_traced(shell: AwsShell) -> None:
    shell.done("jobs", "export", "a", "--format", "csv", "--output", "a.csv")
    rows = list(csv.DictReader((shell.folder / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["parcel"], row["owner"], row["tax.due"]) for row in rows] == [
        ("100", "ANN", "17"),
        ("200", "BOB", "5"),
        ("300", "CAT", "9"),
    ]
    told = shell.json("jobs", "reextract", "a", "--scraper", "later.py@8")
    assert (told["job_id"], told["status"], told["current"]) == ("a.v2", "completed", True)
    fields = told["diff"]["fields"]
    assert (fields["letters"]["filled"], fields["owner"]["changed"], fields["tax.due"]["same"]) == (3, 3, 3)
    assert '"letters":3' in shell.done("jobs", "export", "a", "--format", "jsonl", "--output", "-")
    shell.done("jobs", "use", "a", "--version", "1")
    assert "letters" not in shell.done("jobs", "export", "a", "--format", "jsonl", "--output", "-")
    compared = shell.json("jobs", "compare", "a", "b", "--key", "parcel")["summary"]["counts"]
    assert (compared["new"], compared["changed"], compared["vanished"]) == (1, 1, 1)
    evidence = shell.json("jobs", "item", "a", "100", "--field", "owner")["evidence"]
    assert [(one["value"], one["found_in"]) for one in evidence["values"]] == [("ANN", ["html"])]
    for job_id in ("a", "a.v2", "b"):
        shell.done("jobs", "verify", job_id)


@pytest.mark.req("J5", "R2", "Q3")
async def test_nothing_of_a_deleted_job_is_left_in_the_bucket(shell: AwsShell, clients: AwsClients) -> None:
    shell.json("jobs", "reextract", "a", "--scraper", "later.py")
    shell.done("jobs", "delete", "a", "--yes")
    found = await clients.call("s3", "list_objects_v2", Bucket="swath-test", Prefix=f"{shell.name}/")
    keys = [one["Key"] for one in found["Contents"]]
    assert any(key.startswith(f"{shell.name}/b/") for key in keys)
    assert [key for key in keys if key.startswith((f"{shell.name}/a/", f"{shell.name}/a.v2/"))] == []
