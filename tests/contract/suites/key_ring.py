"""The contract of the KeyRing port."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from swath.domain.errors import Conflict, UnknownName
from swath.domain.service_key import Scope, ServiceKey, key_matches, new_key
from tests.contract.suites.builders import Store
from tests.support.clock import FakeClock

__all__ = ["KeyRingContract"]


def _key(key_id: str, created_at: float = 1.0) -> ServiceKey:
    return ServiceKey(
        key_id=key_id, name="robot", digest=f"digest of {key_id}", scopes=(Scope.READ,), created_at=created_at
    )


class KeyRingContract:
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock)."""

    async def test_a_new_store_has_no_key(self, store: Store) -> None:
        assert await store.keys() == []

    async def test_a_key_is_kept_whole(self, store: Store, clock: FakeClock) -> None:
        scopes = (Scope.READ, Scope.ADMIN)
        key, text = new_key("Müllers \U0001f600 robot", scopes, clock.now(), expires_at=clock.now() + 0.25)
        await store.add_key(key)
        (kept,) = await store.keys()
        assert kept == key
        assert key_matches(kept, text.reveal(), clock.now())

    @pytest.mark.req("I5", "Z10")
    async def test_a_key_expires_by_the_boot_clock_when_the_wall_clock_is_set_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        key, text = new_key("robot", (Scope.READ,), clock.now(), expires_at=clock.now() + 100)
        await store.add_key(key)
        clock.jump_wall(-86_400)
        clock.advance(99)
        await store.expire_keys()
        (kept,) = await store.keys()
        assert key_matches(kept, text.reveal(), clock.now())
        clock.advance(1)
        await store.expire_keys()
        (kept,) = await store.keys()
        assert kept.expired
        assert not key_matches(kept, text.reveal(), clock.now())

    @pytest.mark.req("I5", "Z10")
    async def test_a_key_that_was_seen_expired_stays_so_and_a_new_one_lives(
        self, store: Store, clock: FakeClock
    ) -> None:
        key, text = new_key("robot", (Scope.READ,), clock.now(), expires_at=clock.now() + 100)
        await store.add_key(key)
        clock.jump_wall(400 * 86_400)
        await store.expire_keys()
        clock.jump_wall(-400 * 86_400)
        (kept,) = await store.keys()
        assert not key_matches(kept, text.reveal(), clock.now())
        new, shown = new_key("another", (Scope.READ,), clock.now() + 1, expires_at=clock.now() + 100)
        await store.add_key(new)
        await store.expire_keys()
        assert key_matches((await store.keys())[1], shown.reveal(), clock.now())

    async def test_keys_come_the_oldest_first(self, store: Store) -> None:
        for key_id, created_at in (("b", 2.0), ("c", 1.0), ("a", 3.0), ("d", 2.0)):
            await store.add_key(_key(key_id, created_at))
        assert [key.key_id for key in await store.keys()] == ["c", "b", "d", "a"]

    async def test_an_id_that_is_taken_is_a_conflict(self, store: Store) -> None:
        await store.add_key(_key("a"))
        with pytest.raises(Conflict, match="'a'"):
            await store.add_key(msgspec.structs.replace(_key("a"), digest="other"))
        assert await store.keys() == [_key("a")]

    async def test_of_several_that_come_at_once_under_an_id_one_is_kept(self, store: Store) -> None:
        keys = [msgspec.structs.replace(_key("a"), digest=str(n)) for n in range(4)]
        answers = await asyncio.gather(*(store.add_key(key) for key in keys), return_exceptions=True)
        assert sum(isinstance(answer, Conflict) for answer in answers) == 3
        assert len(await store.keys()) == 1

    async def test_a_revoked_key_stays_known_and_opens_nothing(self, store: Store, clock: FakeClock) -> None:
        key, text = new_key("robot", (Scope.READ,), clock.now())
        await store.add_key(key)
        await store.add_key(_key("other", clock.now() + 1))
        revoked = await store.revoke_key(key.key_id)
        assert revoked == msgspec.structs.replace(key, revoked_at=clock.now())
        kept, other = await store.keys()
        assert (kept, other.revoked_at) == (revoked, None)
        assert not key_matches(kept, text.reveal(), clock.now())

    async def test_one_that_was_revoked_before_stays_as_it_is(self, store: Store, clock: FakeClock) -> None:
        await store.add_key(_key("a"))
        revoked = await store.revoke_key("a")
        clock.advance(60)
        assert await store.revoke_key("a") == revoked
        assert await store.keys() == [revoked]

    async def test_an_unknown_key_is_named(self, store: Store) -> None:
        await store.add_key(_key("abcdef"))
        with pytest.raises(UnknownName, match="abcdef"):
            await store.revoke_key("abcdeg")
