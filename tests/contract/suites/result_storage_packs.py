"""What ResultStorage promises of packs. Part of ResultStorageContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.errors import LeaseLost
from swath.domain.storage_keys import INDEX_SUFFIX, PACKS_PREFIX, RECORDS_SUFFIX, WARC_SUFFIX, pack_fence
from swath.ports.result_storage import PackAppend, ResultStorage, StagedItem

__all__ = ["PackContract"]

HEAD = b"head of the pack;"


class Written:
    """What one lease has added, as the answers say where it lies."""

    def __init__(self, storage: ResultStorage, fence: int, job_id: str = "job") -> None:
        self.storage = storage
        self.fence = fence
        self.job_id = job_id
        self.ends: dict[str, int] = {}
        self.pieces: list[tuple[str, int, bytes]] = []

    async def add(self, data: bytes, ending: str = WARC_SUFFIX, head: bytes = HEAD) -> tuple[str, int]:
        """Appends to one pack."""
        answer = await self.storage.append(self.job_id, self.fence, {ending: PackAppend(data, head)})
        assert list(answer) == [ending]
        self.note(*answer[ending], data)
        return answer[ending]

    def note(self, key: str, start: int, data: bytes) -> None:
        """Remembers an answer."""
        self.pieces.append((key, start, data))
        self.ends[key] = start + len(data)

    async def all_there(self, storage: ResultStorage) -> bool:
        """Whether each piece is read where it was said to be."""
        found = [await storage.read(self.job_id, key, start, len(data)) for key, start, data in self.pieces]
        return found == [data for _, _, data in self.pieces]


async def opened(storage: ResultStorage, fence: int) -> Written:
    """A lease with a room."""
    await storage.open_lease("job", fence)
    return Written(storage, fence)


async def seen(storage: ResultStorage, prefix: str = PACKS_PREFIX) -> list[str]:
    """What is published of packs."""
    return sorted([key async for key in storage.keys("job", prefix)])


async def assert_gone(storage: ResultStorage, key: str) -> None:
    """Neither listed nor read nor got."""
    assert key not in await seen(storage)
    with pytest.raises(KeyError):
        await storage.get("job", key)
    with pytest.raises(KeyError):
        await storage.read("job", key, 0, 1)


class PackContract:
    """Fixtures as of ResultStorageContract: `storage`, and `sleeper`, the same place as another process sees it."""

    async def test_what_is_appended_is_read_at_once_and_by_everybody(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        lease = await opened(storage, 3)
        for data in (b"first", b"\x00\xff" * 5_000, b"third"):
            key, _ = await lease.add(data)
            assert key.startswith(f"{PACKS_PREFIX}3")
            assert pack_fence(key) == 3
            for reader in (storage, sleeper):
                assert await lease.all_there(reader)

    async def test_the_head_stands_where_a_pack_begins_and_nowhere_else(self, storage: ResultStorage) -> None:
        lease = await opened(storage, 1)
        begun = set[str]()
        for data in (b"1", b"22", b"333"):
            end = lease.ends.copy()
            key, start = await lease.add(data)
            assert start == end.get(key, len(HEAD))
            assert await storage.read("job", key, 0, len(HEAD)) == HEAD
            begun.add(key)
        assert set(lease.ends) == begun
        key, start = await lease.add(b"line\n", RECORDS_SUFFIX, head=b"")
        assert start == 0

    async def test_additions_of_one_call_go_each_into_its_own_pack(self, storage: ResultStorage) -> None:
        lease = await opened(storage, 1)
        for n in range(3):
            additions = {RECORDS_SUFFIX: PackAppend(b"line %d\n" % n), WARC_SUFFIX: PackAppend(b"record %d" % n, HEAD)}
            answer = await storage.append("job", 1, additions)
            assert set(answer) == {RECORDS_SUFFIX, WARC_SUFFIX}
            for ending, (key, start) in answer.items():
                assert key.endswith(f".{ending}")
                lease.note(key, start, additions[ending].data)
        assert await storage.append("job", 1, {}) == {}
        assert await lease.all_there(storage)

    async def test_packs_of_leases_are_their_own_and_seen_by_nobody_before_they_are_settled(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        first, second = await opened(storage, 1), await opened(storage, 2)
        await first.add(b"1")
        await second.add(b"2")
        for reader in (storage, sleeper):
            assert await seen(reader, "") == []
        assert set(first.ends).isdisjoint(second.ends)

    async def test_settling_publishes_packs_as_far_as_they_are_needed(self, storage: ResultStorage) -> None:
        lease = await opened(storage, 1)
        await lease.add(b"needed")
        needed = lease.ends.copy()
        key, start = await lease.add(b"lost", head=b"")
        await storage.settle("job", 1, (), needed)
        assert await seen(storage) == sorted(needed)
        for pack, length in needed.items():
            assert await storage.get("job", pack) == HEAD + b"needed"
            assert await storage.read("job", pack, 0, 1_000) == HEAD + b"needed"
            assert await storage.read("job", pack, length, 1_000) == b""
        if key in needed:
            assert await storage.read("job", key, start, 10) == b""
        else:
            await assert_gone(storage, key)
        assert await storage.open_leases("job") == []

    async def test_a_piece_of_one_addition_may_be_all_that_is_needed(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        for fence, settler in ((1, storage), (2, sleeper)):
            lease = await opened(storage, fence)
            key, start = await lease.add(b"needed, and lost")
            await settler.settle("job", fence, (), {key: start + len(b"needed")})
            for reader in (storage, sleeper):
                assert await reader.get("job", key) == HEAD + b"needed"
                assert await reader.read("job", key, start, 1_000) == b"needed"

    async def test_what_was_added_never_moves(self, storage: ResultStorage, sleeper: ResultStorage) -> None:
        lease = await opened(storage, 1)
        for n in range(5):
            await lease.add(bytes([n]) * 1_000 * n)
        assert await lease.all_there(storage)
        await storage.settle("job", 1, (), lease.ends)
        for reader in (storage, sleeper):
            assert await lease.all_there(reader)

    async def test_a_reader_finds_it_all_the_time_while_it_is_settled(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        leases = [await opened(storage, fence) for fence in range(1, 9)]
        for lease in leases:
            await lease.add(b"x" * 10_000)
        ended = asyncio.Event()

        async def settle() -> None:
            for lease in leases:
                await storage.settle("job", lease.fence, (), lease.ends)
            ended.set()

        async def read() -> bool:
            there = True
            while not ended.is_set():
                there &= all([await lease.all_there(sleeper) for lease in leases])
            return there

        _, there = await asyncio.gather(settle(), read())
        assert there

    async def test_packs_that_are_not_named_are_thrown_away(self, storage: ResultStorage) -> None:
        lease = await opened(storage, 1)
        await lease.add(b"lost")
        await lease.add(b"lost as well\n", RECORDS_SUFFIX)
        await storage.settle("job", 1, ())
        for key in lease.ends:
            await assert_gone(storage, key)

    async def test_another_process_settles_what_a_dead_one_wrote(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        lease = await opened(sleeper, 1)
        await lease.add(b"needed")
        await lease.add(b"line\n", RECORDS_SUFFIX)
        needed = lease.ends.copy()
        await lease.add(b"lost", head=b"")
        await storage.settle("job", 1, (), needed, {f"{PACKS_PREFIX}1.{INDEX_SUFFIX}": b"index"})
        assert await seen(storage) == sorted([*needed, f"{PACKS_PREFIX}1.{INDEX_SUFFIX}"])
        with pytest.raises(LeaseLost):
            await lease.add(b"late")
        await sleeper.settle("job", 1, ())
        for reader in (storage, sleeper):
            for key, length in needed.items():
                assert len(await reader.get("job", key)) == length
            assert await reader.get("job", f"{PACKS_PREFIX}1.{INDEX_SUFFIX}") == b"index"

    async def test_settling_packs_can_be_repeated_by_anybody(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        lease = await opened(storage, 1)
        await lease.add(b"needed")
        for settler in (storage, storage, sleeper):
            await settler.settle("job", 1, (), lease.ends)
            assert await lease.all_there(storage)
            assert await seen(storage) == sorted(lease.ends)
        await storage.settle("job", 2, (), {f"{PACKS_PREFIX}2.{WARC_SUFFIX}": 10})
        await storage.settle("other", 1, (), lease.ends)
        assert await seen(storage) == sorted(lease.ends)

    async def test_documents_are_put_beside_by_the_first_to_settle(
        self, storage: ResultStorage, sleeper: ResultStorage
    ) -> None:
        index = f"{PACKS_PREFIX}1.{INDEX_SUFFIX}"
        lease = await opened(storage, 1)
        await lease.add(b"needed")
        await storage.settle("job", 1, (), lease.ends, {index: b"first", "notes/a.json": b"1"})
        for settler in (storage, sleeper):
            await settler.settle("job", 1, (), lease.ends, {index: b"second", "notes/b.json": b"2"})
        assert await seen(storage, "") == sorted([*lease.ends, index, "notes/a.json"])
        assert await storage.get("job", index) == b"first"
        await storage.settle("job", 7, (), {}, {f"{PACKS_PREFIX}7.{INDEX_SUFFIX}": b"nobody's"})
        await assert_gone(storage, f"{PACKS_PREFIX}7.{INDEX_SUFFIX}")

    async def test_documents_are_put_without_packs_as_well(self, storage: ResultStorage) -> None:
        await storage.open_lease("job", 1)
        await storage.settle("job", 1, (), {}, {"packs/1.cdxj": b""})
        assert await seen(storage) == ["packs/1.cdxj"]
        assert await storage.get("job", "packs/1.cdxj") == b""

    async def test_nothing_can_be_appended_without_room(self, storage: ResultStorage) -> None:
        with pytest.raises(LeaseLost):
            await Written(storage, 1).add(b"1")
        lease = await opened(storage, 1)
        await lease.add(b"1")
        await storage.settle("job", 1, (), lease.ends)
        with pytest.raises(LeaseLost):
            await Written(storage, 1).add(b"2")
        assert await lease.all_there(storage)

    async def test_files_and_packs_of_one_lease_do_not_disturb_each_other(self, storage: ResultStorage) -> None:
        lease = await opened(storage, 1)
        await lease.add(b"1")
        items = [StagedItem(item_id, {"data.json": b"{}"}, first=True) for item_id in ("packs", "1.warc.gz", "lost")]
        answers = await storage.stage("job", 1, items)
        await lease.add(b"2")
        await storage.publish("job", 1, ["packs"])
        await storage.settle("job", 1, ["packs", "1.warc.gz"], lease.ends)
        assert await lease.all_there(storage)
        assert await seen(storage, "") == sorted([*lease.ends, *(made.key for (made,) in answers[:2])])

    async def test_only_files_are_left_of_a_lease_that_packed_nothing(self, storage: ResultStorage) -> None:
        await storage.open_lease("job", 1)
        ((made,),) = await storage.stage("job", 1, [StagedItem("packs", {"data.json": b"{}"}, first=True)])
        await storage.settle("job", 1, ["packs"])
        assert await seen(storage, "") == [made.key]

    async def test_clearing_takes_packs_as_well(self, storage: ResultStorage, sleeper: ResultStorage) -> None:
        settled, left = await opened(storage, 1), await opened(storage, 2)
        await settled.add(b"1")
        await left.add(b"2")
        await storage.settle("job", 1, (), settled.ends)
        await storage.clear("job")
        for key in (*settled.ends, *left.ends):
            await assert_gone(storage, key)
        anew = await opened(sleeper, 3)
        await anew.add(b"new")
        with pytest.raises(LeaseLost):
            await left.add(b"late")
        await storage.settle("job", 2, (), left.ends)
        await sleeper.settle("job", 3, (), anew.ends)
        assert await seen(storage, "") == sorted(anew.ends)
        assert await anew.all_there(storage)

    async def test_pack_seconds_are_none_or_more(self, storage: ResultStorage) -> None:
        assert storage.pack_seconds >= 0.0
