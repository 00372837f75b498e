"""The checks of test_serve_crash.py and test_clock_jumps.py can fail: each finds out the builds that lack its rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.broken_builds import BROKEN
from tests.integration.api import test_clock_jumps as clock_jumps
from tests.integration.api import test_serve_crash as crash
from tests.integration.api.serving import Place

pytestmark = pytest.mark.req("Z1", "N1", "J2")

Check = Callable[[Place], Awaitable[None]]
FOUND_OUT: dict[str, tuple[Check, str]] = {
    "webhook_id": (
        lambda place: crash.test_a_webhook_is_sent_at_least_once_under_one_id(place, "after_webhook_send"),
        "it keeps its id",
    ),
    "webhook_note": (
        lambda place: crash.test_a_webhook_is_sent_at_least_once_under_one_id(place, "before_webhook_send"),
        "it comes at least once",
    ),
    "manifest": (
        lambda place: crash.test_a_job_whose_end_was_broken_off_ends_and_tells_of_it(place, "before_manifest"),
        "everything that it tells of is there",
    ),
    "retention": (clock_jumps.test_a_jump_of_the_wall_clock_deletes_no_job, "the job is still there"),
    "load": (crash.test_a_streamed_load_goes_on_where_it_was, "each row counts once"),
}


def test_every_broken_build_is_tried() -> None:
    assert FOUND_OUT.keys() == BROKEN.keys()


@pytest.mark.parametrize("broken", FOUND_OUT)
async def test_a_broken_build_is_found_out(tmp_path: Path, broken: str) -> None:
    place, (check, complaint) = Place(tmp_path), FOUND_OUT[broken]
    place.environment["SWATH_BROKEN"] = broken
    with pytest.raises(AssertionError, match=complaint):
        await check(place)
