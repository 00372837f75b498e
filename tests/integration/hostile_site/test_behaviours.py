"""Every behaviour of the hostile site ends as its table says, soon, and the next request is fine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.fakes.hostile_site import BEHAVIOURS, Behaviour, Listening
from swath.fetch.http.page.page import WebPage
from tests.integration.hostile_site.meeting import Meeting, meeting
from tests.unit.fetch.http.sites import WreqAlone

pytestmark = pytest.mark.req("Z6", "H2", "H3")

PLAIN = {name: one for name, one in BEHAVIOURS.items() if one.door is Listening.PLAIN}


@pytest.fixture
async def met(tmp_path: Path) -> AsyncIterator[Meeting]:
    async with meeting(tmp_path) as made:
        yield made


@pytest.fixture
async def met_by_wreq(tmp_path: Path) -> AsyncIterator[Meeting]:
    async with meeting(tmp_path, way=WreqAlone) as made:
        yield made


@pytest.mark.parametrize("one", PLAIN.values(), ids=PLAIN.keys())
async def test_what_is_spoken_in_the_event_loop_ends_the_same_by_wreq(one: Behaviour, met_by_wreq: Meeting) -> None:
    await ends_as_the_table_says(one, met_by_wreq)


@pytest.mark.parametrize("one", BEHAVIOURS.values(), ids=BEHAVIOURS.keys())
async def test_it_ends_as_the_table_says_and_the_next_request_is_fine(one: Behaviour, met: Meeting) -> None:
    await ends_as_the_table_says(one, met)


async def ends_as_the_table_says(one: Behaviour, met: Meeting) -> None:
    ended = await met.end_of(one)
    if one.kinds:
        assert ended in one.kinds
    else:
        assert isinstance(ended, WebPage), ended
    assert await met.next_is_fine(one)
    assert met.site.canary_hits == 0
