"""G1: pages that name a size name the one in the code."""

from __future__ import annotations

import re

import pytest

from swath.domain.lease import MAX_LEASE_ITEMS, MAX_REREAD_ITEMS
from swath.pipeline.accept.batches import BATCH_BYTES, BATCH_ROWS
from swath.pipeline.execute.outbox import GROUP_ITEMS, GROUP_SECONDS
from swath.settings.model import AWS_LEASE_SECONDS, Settings
from tests.docs.pages import ROOT

ROWS, MIB = f"{BATCH_ROWS:,} rows", f"{BATCH_BYTES >> 20} MiB"
SIZES = [
    ("docs/explanation/path-of-a-job.md", f"A batch has up to {ROWS}, and ends sooner .* to {MIB} of JSON"),
    ("docs/reference/api.md", f"batches of up to {ROWS} or {MIB}"),
    ("docs/explanation/path-of-a-job.md", f"up to {MAX_LEASE_ITEMS} items of one job, or {MAX_REREAD_ITEMS} of one"),
    (
        "docs/explanation/path-of-a-job.md",
        f"groups: up to {GROUP_ITEMS}, or what came within {GROUP_SECONDS * 1000:g} ms",
    ),
    (
        "docs/explanation/path-of-a-job.md",
        f"every {Settings().heartbeat_seconds:g} seconds .* silent for {Settings().lease_seconds:g} seconds .* "
        f"AWS these are {AWS_LEASE_SECONDS / 3:g} and {AWS_LEASE_SECONDS:g} seconds",
    ),
]


@pytest.mark.req("G1")
@pytest.mark.parametrize(("page", "told"), SIZES)
def test_a_page_names_the_true_size(page: str, told: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert re.search(told, text), told
