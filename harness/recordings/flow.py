"""The recording of the run: `demo_county.json`, as Chrome's recorder exports it, imported by the command line, and then
what a person adds to it: what is read, how the site says that there is nothing, and that a session is kept.

Before: the county is served. After: jobs.py runs it over the parcels.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import swath.scrapers
from swath.recordings.document import dump_yaml, read_recording
from swath.recordings.schema.recording import Recording
from swath.recordings.schema.steps import Click, Extract, If

__all__ = ["RECORDED_PARCEL", "make_flow"]

RECORDED: Final = Path(__file__).with_name("demo_county.json")
RECORDED_AT: Final = "http://127.0.0.1:8010"
RECORDED_PARCEL: Final = "501-22-004"
SHIPPED: Final = Path(swath.scrapers.__file__).with_name("demo_county_recording.yaml")
_DIALOG: Final = "#terms[open]"


def make_flow(folder: Path, site: str, step_seconds: float) -> Path:
    """`flow.yaml` in the folder, for a county at that address."""
    recorded, flow = folder / "recorded.json", folder / "flow.yaml"
    recorded.write_text(RECORDED.read_text(encoding="utf-8").replace(RECORDED_AT, site), encoding="utf-8")
    command = ["recording", "import", recorded, "--bind", f"parcel_id={RECORDED_PARCEL}", "--output", flow]
    subprocess.run(
        [sys.executable, "-m", "swath.entrypoints.cli.main", *map(str, command)], check=True, stdout=subprocess.DEVNULL
    )
    flow.write_text(dump_yaml(_completed(read_recording(flow), step_seconds)), encoding="utf-8")
    return flow


def _completed(imported: Recording, step_seconds: float) -> Recording:
    """The rules are those of the shipped recording of the same page."""
    shipped = read_recording(SHIPPED)
    steps = [_only_if_asked(step) if _is_consent(step) else step for step in imported.steps]
    steps += [step for step in shipped.steps if isinstance(step, Extract)]
    return imported.model_copy(
        update={
            "steps": tuple(steps),
            "not_found": shipped.not_found,
            "keep_session": shipped.keep_session,
            "block": shipped.block,
            "step_seconds": step_seconds,
        }
    )


def _is_consent(step: object) -> bool:
    return isinstance(step, Click) and ("#btnAgree",) in step.on


def _only_if_asked(click: object) -> If:
    """A session that is kept has agreed already."""
    wait = {"do": "wait_for", "on": _DIALOG, "state": "detached"}
    told = {"do": "if", "condition": {"on": _DIALOG}, "then": [click, wait]}
    return If.model_validate(told, strict=False)
