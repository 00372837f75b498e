"""Q2, Q4: who does not use AWS neither needs its libraries nor waits for them to be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = ("aiobotocore", "aiohttp", "boto3", "botocore", "obstore")

# As on a machine where they are not installed: nobody finds them.
HIDE = f"""
import importlib.machinery, sys

class WithoutAws(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {LIBRARIES!r} else super().find_spec(name, path, target)

known = importlib.machinery.PathFinder
sys.meta_path[:] = [WithoutAws if finder is known else finder for finder in sys.meta_path]
"""

THEN_TELL = """
import sys
from swath.entrypoints.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    print("imported:", sorted({name.partition(".")[0] for name in sys.modules} & set(%r)), file=sys.stderr)
    raise
"""


def _swath(folder: Path, *arguments: str, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SWATH_", "AWS_"))}
    return subprocess.run(
        [sys.executable, "-c", before + THEN_TELL % (LIBRARIES,), *arguments],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.req("Q2", "Q4")
@pytest.mark.parametrize("before", ["", HIDE], ids=["installed", "not installed"])
def test_a_job_on_sqlite_runs_without_the_aws_libraries(tmp_path: Path, before: str) -> None:
    (tmp_path / "items.csv").write_text("n\n1\n2\n")
    order = ("run", "example-mock", "--items", "items.csv", "--job-id", "small", "--quiet")
    done = _swath(tmp_path, *order, before=before)
    assert done.returncode == 0, done.stderr
    assert "imported: []" in done.stderr
    looked = _swath(tmp_path, "doctor", before=before)
    assert looked.returncode == 0, looked.stdout
    assert "imported: []" in looked.stderr


@pytest.mark.req("Q4", "Z5")
@pytest.mark.parametrize("command", [("jobs", "list"), ("aws", "status"), ("aws", "init"), ("worker",)], ids=" ".join)
@pytest.mark.parametrize("url", ["SWATH_STORE=dynamodb://jobs", "SWATH_RESULTS=s3://bucket/prefix"])
def test_an_aws_url_without_the_libraries_says_how_to_get_them(
    tmp_path: Path, command: tuple[str, ...], url: str
) -> None:
    name, _, value = url.partition("=")
    told = _swath(tmp_path, *command, before=HIDE, **{name: value})
    assert told.returncode == 2
    assert "pip install 'swath[aws]'" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.req("Z5")
def test_the_aws_commands_say_when_nothing_is_on_aws(tmp_path: Path) -> None:
    for words in (("aws", "init"), ("aws", "status"), ("aws", "destroy", "--yes", "jobs")):
        told = _swath(tmp_path, *words)
        assert told.returncode == 2, words
        assert "SWATH_STORE=dynamodb://" in told.stderr


@pytest.mark.req("Q4")
def test_a_store_and_results_in_other_folders_are_found_there_by_every_command(tmp_path: Path) -> None:
    urls = {"SWATH_STORE": f"sqlite://{tmp_path}/store", "SWATH_RESULTS": f"file://{tmp_path}/out"}
    (tmp_path / "items.csv").write_text("n\n1\n2\n")
    order = ("run", "example-mock", "--items", "items.csv", "--job-id", "elsewhere", "--quiet")
    assert _swath(tmp_path, *order, **urls).returncode == 0
    assert (tmp_path / "store" / "swath.db").is_file()
    assert (tmp_path / "out" / "elsewhere" / "job_metadata.json").is_file()
    assert not (tmp_path / "swath-data").exists()
    planned = _swath(tmp_path, *order, "--dry-run", **urls)
    assert "exists already" in planned.stdout
    assert "sound" in _swath(tmp_path, "doctor", **urls).stdout
    asked = {"_SWATH_COMPLETE": "bash_complete", "COMP_WORDS": "swath jobs status ", "COMP_CWORD": "3"}
    assert "elsewhere" in _swath(tmp_path, **urls, **asked).stdout
    on_aws = {"SWATH_STORE": "dynamodb://jobs", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    assert _swath(tmp_path, **on_aws, **asked).stdout.strip() == ""  # and at once: a shell does not wait for a network


@pytest.mark.req("O4", "Q4")
def test_the_doctor_says_what_to_install_and_never_that_it_is_a_bug(tmp_path: Path) -> None:
    looked = _swath(tmp_path, "doctor", before=HIDE, SWATH_STORE="dynamodb://table")
    assert looked.returncode == 1
    assert "swath[aws]" in looked.stdout
    assert "bug of ours" not in looked.stdout
