"""G1: pages that name a size name the one in the code."""

from __future__ import annotations

import re

import pytest

from swath.domain.lease import MAX_LEASE_ITEMS, MAX_REREAD_ITEMS
from swath.pipeline.ingest.validate import BATCH_BYTES, BATCH_ROWS
from swath.pipeline.worker.outcome_buffer import GROUP_ITEMS, GROUP_SECONDS
from swath.settings.model import AWS_LEASE_SECONDS, Settings
from tests.docs.pages import ROOT

ROWS, MIB = f"{BATCH_ROWS:,} rows", f"{BATCH_BYTES >> 20} MiB"
BEAT, SILENT = (f"{seconds:g} seconds" for seconds in (Settings().heartbeat_seconds, Settings().lease_seconds))
PATH = "docs/explanation/path-of-a-job.md"
SIZES = [
    (PATH, f"A batch has up to {ROWS}, and ends sooner .* to {MIB} of JSON"),
    ("docs/reference/api.md", f"batches of up to {ROWS} or {MIB}"),
    (PATH, f"up to {MAX_LEASE_ITEMS} items of one job, or {MAX_REREAD_ITEMS} of one"),
    (PATH, f"groups: up to {GROUP_ITEMS}, or what came within {GROUP_SECONDS * 1000:g} ms"),
    (PATH, f"every {BEAT}.*silent for {SILENT}"),
    (PATH, f"AWS these are {AWS_LEASE_SECONDS / 3:g} and {AWS_LEASE_SECONDS:g} seconds"),
]


@pytest.mark.req("G1")
@pytest.mark.parametrize(("page", "told"), SIZES)
def test_a_page_names_the_true_size(page: str, told: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert re.search(told, text), told
