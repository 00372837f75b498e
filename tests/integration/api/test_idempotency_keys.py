"""An `Idempotency-Key` belongs to the service key it came with: the same word of another key names another job (I5)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from swath.domain.service_key import Scope, new_key
from swath.entrypoints.api import auth
from swath.entrypoints.api.auth import Caller
from tests.integration.api.running import Api

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.req("J6", "I5")

WORD = "order 17"
ITEMS = {"scraper_id": "example-mock", "items": [{"item_id": "a", "input": {"n": 1}}]}
OTHERS = {"scraper_id": "example-mock", "items": [{"item_id": "b", "input": {"n": 2}}]}
NONE_YET = {"scraper_id": "typed"}


@pytest.fixture(autouse=True)
def keys_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.0)


async def key_of(api: Api, *scopes: Scope) -> str:
    return (await api.key(*(scopes or (Scope.SUBMIT,)))).reveal()


async def ordered(api: Api, body: dict[str, Any], key: str | None, word: str = WORD) -> httpx.Response:
    headers = {"Idempotency-Key": word} | ({} if key is None else {"X-Service-Key": key})
    return await api.ask("POST", "/jobs", json=body, headers=headers)


def job_id(answer: httpx.Response) -> str:
    assert answer.is_success, answer.text
    found: str = answer.json()["data"]["job_id"]
    return found


@pytest.mark.parametrize("theirs", [ITEMS, OTHERS, NONE_YET], ids=["the same", "other items", "no items"])
async def test_the_same_word_of_two_keys_names_two_jobs(api: Api, theirs: dict[str, Any]) -> None:
    """Each gets its own, the first time and when it asks again, and neither hears of the other's."""
    one, two = [await key_of(api) for _ in range(2)]
    made = [await ordered(api, body, key) for key, body in ((one, ITEMS), (two, theirs))]
    assert [answer.status_code for answer in made] == [201, 201]
    assert job_id(made[0]) != job_id(made[1])
    again = [await ordered(api, body, key) for key, body in ((one, ITEMS), (two, theirs))]
    assert [answer.status_code for answer in again] == [200, 200]
    assert [job_id(answer) for answer in again] == [job_id(answer) for answer in made]
    assert (await ordered(api, OTHERS, one)).json()["error"]["code"] == "conflict"


async def test_orders_without_items_are_not_shared_by_accident(api: Api) -> None:
    """Two who load their own rows under the same word would otherwise fill one job."""
    one, two = [await key_of(api) for _ in range(2)]
    assert job_id(await ordered(api, NONE_YET, one)) != job_id(await ordered(api, NONE_YET, two))


async def test_of_many_at_once_each_key_gets_one_job(api: Api) -> None:
    keys = [await key_of(api) for _ in range(3)]
    made = await asyncio.gather(*(ordered(api, ITEMS, key) for key in keys * 4))
    assert sorted(answer.status_code for answer in made) == [200] * 9 + [201] * 3
    assert len({job_id(answer) for answer in made}) == 3


async def test_nobody_can_take_the_job_id_of_another_beforehand(api: Api) -> None:
    """It does not follow from the id of a key, which is no secret, but from what is secret in it."""
    key, shown = new_key("victim", (Scope.SUBMIT,), api.services.clock.now())
    await api.services.store.add_key(key)
    made = job_id(await ordered(api, ITEMS, shown.reveal()))
    guesses = (WORD, key.key_id + WORD, f"{key.key_id}:{WORD}", f"key {key.key_id}{WORD}")
    assert made not in {f"order-{hashlib.sha256(guess.encode()).hexdigest()[:32]}" for guess in guesses}
    assert made != f"order-{Caller(key.key_id, key.scopes).own_name(WORD)}"


async def test_a_key_in_place_of_another_begins_anew_and_a_job_id_is_for_all(api: Api) -> None:
    """Rotation: what has to be safe to repeat across it is ordered with a `job_id`."""
    former = await key_of(api)
    first = await ordered(api, ITEMS, former)
    named = await ordered(api, ITEMS | {"job_id": "named"}, former)
    successor = await key_of(api)
    assert job_id(await ordered(api, ITEMS, successor)) != job_id(first)
    again = await ordered(api, ITEMS | {"job_id": "named"}, successor)
    assert (named.status_code, again.status_code) == (201, 200)


async def test_without_keys_all_programs_of_this_machine_are_one_caller(api: Api) -> None:
    first, again = [await ordered(api, ITEMS, None) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 200)
    assert job_id(first) == job_id(again)
    assert job_id(await ordered(api, ITEMS, await key_of(api))) != job_id(first)


async def test_an_order_of_an_earlier_release_is_still_known_by_its_word_and_content(api: Api) -> None:
    """Releases before this one made the id of the word alone. The same order is not run twice after an upgrade; another
    order under the same word, of whatever key, is no conflict any more."""
    former = f"order-{hashlib.sha256(WORD.encode()).hexdigest()[:32]}"
    one, two = [await key_of(api) for _ in range(2)]
    await api.data("POST", "/jobs", json=ITEMS | {"job_id": former}, headers={"X-Service-Key": one})
    again = await ordered(api, ITEMS, one)
    assert (again.status_code, job_id(again)) == (200, former)
    other = await ordered(api, OTHERS, two)
    assert other.status_code == 201
    assert job_id(other) != former
    empty = await ordered(api, {"scraper_id": "example-mock"}, await key_of(api))  # it has no content to be known by
    assert empty.status_code == 201
    assert job_id(empty) != former


@pytest.mark.req("J2")
async def test_the_word_of_a_load_belongs_to_its_job(api: Api) -> None:
    """Who goes on with a broken load must not double its rows, whichever key it has by then."""
    one, two = [await key_of(api) for _ in range(2)]
    await api.data("POST", "/jobs", json=NONE_YET | {"job_id": "j"}, headers={"X-Service-Key": one})
    rows = b'{"parcel_id": "001"}\n{"parcel_id": "002"}\n'
    for key in (one, two):
        headers = {"X-Service-Key": key, "Idempotency-Key": WORD, "Content-Type": "application/x-ndjson"}
        loaded = await api.data("POST", "/jobs/j/items", content=rows, headers=headers)
        assert (loaded["added"], loaded["loaded_rows"]) == (2, 2)
