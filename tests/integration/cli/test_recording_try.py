"""`swath recording try` as people call it: a step table with times, a folder with what was seen, and an exit code."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from swath.demo.county import DemoCountyServer
from swath.domain.failure import Failure, FailureKind
from swath.entrypoints.cli.recording.try_ import _failed_result
from tests.support.warm import run_warm

pytestmark = [pytest.mark.req("A4", "C1", "Z5")]

STEPS: list[dict[str, Any]] = [
    {"do": "goto", "url": "/"},
    {"do": "wait_for", "on": ["#never", "h1"], "name": "The heading"},
    {"do": "extract", "field": "heading", "on": "h1"},
]


class Ran(NamedTuple):
    code: int | None
    out: str
    err: str


async def _run(folder: Path, url: str, *words: str) -> Ran:
    own = {"SWATH_DEMO_URL": url, "SWATH_ALLOW_PRIVATE": url.removeprefix("http://")}
    environment = {**os.environ, "SWATH_DATA": str(folder / "data"), "COLUMNS": "200", **own}
    ran = await asyncio.to_thread(run_warm, ["recording", "try", *words], folder, environment, None, 120)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


async def test_one_input_is_played_and_shown(tmp_path: Path) -> None:
    async with DemoCountyServer() as site:
        about = {
            "swath_recording": 1,
            "id": "flow",
            "base_url": site.base_url,
            "inputs": {"n": {"pattern": "^[0-9]+$"}},
        }
        flow = tmp_path / "flow.json"
        flow.write_text(json.dumps({**about, "steps": STEPS}))
        (tmp_path / "rows.csv").write_text("n\n1\n2\n")

        ran = await _run(tmp_path, site.base_url, "flow.json", "--items", "rows.csv", "--row", "2")
        assert (ran.code, ran.err) == (0, "")
        lines = ran.out.splitlines()
        assert lines[0].split() == ["step", "what", "time", "outcome", "found", "by"]
        assert lines[2].startswith("2     The heading")
        assert lines[2].split()[-1] == "ok"
        folder = tmp_path / "flow-try"
        kept = {"html.html", "record.json", "step-1.png", "step-2.png", "step-3.png", "steps.json"}
        assert {file.name for file in folder.iterdir()} - {".tried"} == kept
        assert (folder / "step-3.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((folder / "record.json").read_text())["heading"]

        flow.write_text(
            json.dumps({**about, "steps": [STEPS[0], {"do": "click", "on": "#no", "timeout_seconds": 0.3}]})
        )
        words = ("--input", "n=1", "--output", "out", "--screenshots", "failure", "--json")
        ran = await _run(tmp_path, site.base_url, "flow.json", *words)
        told = json.loads(ran.out)
        assert (ran.code, told["outcome"], told["failure_kind"]) == (4, "failed", "action_failed")
        assert told["message"].startswith("step 2 (click #no): ")
        assert told["files"] == ["refused.html", "screenshot.png", "steps.json"]
        assert b"<html" in (tmp_path / "out/refused.html").read_bytes()

        (folder / "mine.txt").write_text("not of a try")
        stop = {"do": "stop", "outcome": "not_found", "message": "none"}
        flow.write_text(json.dumps({**about, "steps": [STEPS[0], stop]}))
        ran = await _run(tmp_path, site.base_url, "flow.json", "--input", "n=1")
        assert ran.code == 0
        assert "not found: none" in ran.out
        left = {"mine.txt", "html.html", "step-1.png", "steps.json"}  # and nothing of the steps that were not reached
        assert {file.name for file in folder.iterdir()} - {".tried"} == left


def test_who_may_allow_an_address_is_told_how() -> None:
    tried = _failed_result(
        [], None, Failure.of(FailureKind.EGRESS_DENIED, "10.0.0.1:80 is not to be reached from here")
    )
    assert tried.message == (
        "10.0.0.1:80 is not to be reached from here; if it is yours, name its host:port in SWATH_ALLOW_PRIVATE"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["flow.json"], "n: "),
        (["flow.json", "--input", "n"], "--input n: write it as NAME=VALUE"),
        (["flow.json", "--input", "n=x"], "the input does not fit"),
        (["flow.json", "--input", "n=1", "--input", "parcel=2"], "flow has no input 'parcel' (its inputs are 'n')\n"),
        (["flow.json", "--input", "N=1"], "flow has no input 'N' (its inputs are 'n'); did you mean 'n'?"),
        (["bare.json", "--input", "n=1"], "bare has no input 'n' (it has none)\n"),
        (["flow.json", "--items", "none.csv"], "none.csv"),
        (["flow.json", "--items", "rows.csv", "--row", "9"], "rows.csv: has no row 9"),
        (["told.json", "--items", "other.csv"], "n: Field required (there is 'number')"),
        (["example-mock", "--input", "n=1"], "example-mock is no recording"),
        (["none.yaml"], "there is no scraper file"),
        (["flow.json", "--input", "n=1", "--row", "0"], "--row"),
    ],
)
async def test_what_cannot_be_tried_is_said_in_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    about = {
        "swath_recording": 1,
        "id": "flow",
        "base_url": "http://127.0.0.1:1",
        "inputs": {"n": {"pattern": "^[0-9]+$"}},
    }
    (tmp_path / "flow.json").write_text(json.dumps({**about, "steps": STEPS}))
    (tmp_path / "bare.json").write_text(json.dumps({**about, "id": "bare", "inputs": {}, "steps": STEPS}))
    told = {**about, "id": "told", "inputs": {"n": {"example": "1"}}, "steps": STEPS}
    (tmp_path / "told.json").write_text(json.dumps(told))
    (tmp_path / "rows.csv").write_text("n\n1\n")
    (tmp_path / "other.csv").write_text("number\n1\n")
    ran = await _run(tmp_path, "http://127.0.0.1:1", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
