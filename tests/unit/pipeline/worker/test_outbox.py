"""How ends of items are grouped for a commit."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.item import EndedItem, HandedBackItem, SuccessOutcome
from swath.domain.result import Page, Result
from swath.domain.transitions import ItemState
from swath.pipeline.worker.outcome_buffer import (
    FAILED_IN_A_ROW,
    GROUP_ITEMS,
    MAX_BUFFERED_BYTES,
    MAX_BUFFERED_GROUPS,
    Outcome,
    OutcomeBuffer,
)


def outcome(seq: int, size: int = 0) -> Outcome:
    page = Page(name="html", url="", status=200, body=bytes(size))
    return Outcome(str(seq), HandedBackItem(seq=seq), Result(pages=(page,)))


@pytest.mark.req("Z1")
async def test_a_lone_item_does_not_wait_for_a_group() -> None:
    outbox = OutcomeBuffer()
    waiting = asyncio.create_task(outbox.group(600))
    await asyncio.sleep(0)
    outbox.put(outcome(1), idle=True)
    assert [o.item_id for o in await asyncio.wait_for(waiting, 60)] == ["1"]


@pytest.mark.parametrize("items", [GROUP_ITEMS, GROUP_ITEMS + 50])
async def test_a_full_group_goes_at_once_and_the_rest_stays(items: int) -> None:
    outbox = OutcomeBuffer(group_items=items)
    for seq in range(items + 3):
        outbox.put(outcome(seq), idle=False)
    assert len(await asyncio.wait_for(outbox.group(600), 60)) == items
    assert len(outbox) == 3
    assert len(await asyncio.wait_for(outbox.group(600), 60)) == 3


async def test_ends_that_come_close_together_share_a_commit() -> None:
    outbox = OutcomeBuffer()
    waiting = asyncio.create_task(outbox.group(600))
    for seq in range(5):
        outbox.put(outcome(seq), idle=False)
        await asyncio.sleep(0)
    assert len(await asyncio.wait_for(waiting, 60)) == 5


@pytest.mark.req("Q3")
async def test_an_end_waits_for_others_as_long_as_commits_are_dear() -> None:
    outbox = OutcomeBuffer()
    outbox.put(outcome(1), idle=False)
    waiting = asyncio.create_task(outbox.group(600, group_seconds=0.4))
    await asyncio.sleep(0.15)  # beyond the usual time
    assert not waiting.done()
    outbox.put(outcome(2), idle=False)
    assert len(await asyncio.wait_for(waiting, 60)) == 2
    outbox.put(outcome(3), idle=True)
    assert len(await asyncio.wait_for(outbox.group(600, group_seconds=600), 60)) == 1  # there is nobody to wait for


async def test_nothing_comes_back_when_nothing_ended() -> None:
    assert await OutcomeBuffer().group(0.001) == []


@pytest.mark.req("Z8")
async def test_it_is_crowded_by_number_and_by_bytes_and_not_when_it_is_empty_again() -> None:
    many, more, large = OutcomeBuffer(), OutcomeBuffer(group_items=2 * GROUP_ITEMS), OutcomeBuffer()
    for seq in range(MAX_BUFFERED_GROUPS * GROUP_ITEMS):
        assert not many.crowded
        many.put(outcome(seq), idle=False)
        more.put(outcome(seq), idle=False)
    assert many.crowded
    assert not more.crowded
    large.put(outcome(1, MAX_BUFFERED_BYTES), idle=False)
    assert large.crowded
    await large.group(0)
    assert not large.crowded


@pytest.mark.req("S4")
async def test_failures_in_a_row_go_at_once_because_a_circuit_may_be_about_to_open() -> None:
    outbox = OutcomeBuffer()
    for seq in range(FAILED_IN_A_ROW):
        assert not outbox._group.is_set()
        outbox.put(Outcome(str(seq), EndedItem(seq=seq, state=ItemState.FAILED)), idle=False)
    assert outbox.crowded  # and nothing starts before it is known what they mean
    assert len(await asyncio.wait_for(outbox.group(600, group_seconds=600), 60)) == FAILED_IN_A_ROW
    outbox.put(Outcome("good", EndedItem(seq=9, state=ItemState.SUCCESS)), idle=False)
    assert not outbox._group.is_set()


def ended(
    seq: int, state: ItemState = ItemState.SUCCESS, finding: SuccessOutcome | None = SuccessOutcome.FOUND
) -> Outcome:
    return Outcome(str(seq), EndedItem(seq=seq, state=state, finding=finding))


@pytest.mark.req("Q3")
async def test_good_news_is_gathered_for_longer_where_commits_take_long() -> None:
    outbox = OutcomeBuffer()
    outbox.put(ended(1), idle=False)
    waiting = asyncio.create_task(outbox.group(600, 0.01, 600))
    await asyncio.sleep(0.1)
    outbox.put(ended(2), idle=False)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    outbox.put(ended(3), idle=True)
    assert len(await asyncio.wait_for(waiting, 60)) == 3, "until there is nobody to wait for"


@pytest.mark.req("S4")
@pytest.mark.parametrize("bad", [ended(2, ItemState.FAILED, None), ended(2, finding=SuccessOutcome.NOT_FOUND)])
async def test_bad_news_is_not_because_a_circuit_may_be_nearer_to_opening(bad: Outcome) -> None:
    outbox = OutcomeBuffer()
    outbox.put(ended(1), idle=False)
    waiting = asyncio.create_task(outbox.group(600, 0.01, 600))
    await asyncio.sleep(0.1)
    outbox.put(bad, idle=False)
    assert len(await asyncio.wait_for(waiting, 60)) == 2
    outbox.put(bad, idle=False)
    assert len(await asyncio.wait_for(outbox.group(600, 0.01, 600), 60)) == 1
