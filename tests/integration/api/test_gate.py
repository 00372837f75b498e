"""Who is let in: keys, scopes and rates."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.service_key import Scope, ServiceKey, new_key
from swath.entrypoints.api import auth
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.auth import NO_VALID_KEY, Authenticator, is_loopback
from tests.integration.api.running import HERE, Api, check_envelope, running
from tests.support.clock import FakeClock

RANK = {Scope.READ: 0, Scope.SUBMIT: 1, Scope.ADMIN: 2}
# An endpoint for each scope; with a job that is not there, whoever is let in gets a 404.
ENDPOINTS = {
    Scope.READ: ("GET", "/jobs/none/status"),
    Scope.SUBMIT: ("POST", "/jobs/none/pause"),
    Scope.ADMIN: ("DELETE", "/jobs/none"),
}


@pytest.fixture(autouse=True)
def keys_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.0)


@pytest.mark.req("I5")
@settings(max_examples=80, deadline=None)
@given(
    held=st.sets(st.sampled_from(Scope), min_size=1),
    asked=st.sampled_from(Scope),
    fate=st.sampled_from(["alive", "revoked", "expired"]),
    shown=st.sampled_from(["right", "none", "cut", "longer", "other id", "other secret", "twice", "empty"]),
)
def test_a_request_is_let_in_exactly_when_its_key_matches_and_its_scope_allows(
    shared_api: Api, loop_runner: asyncio.Runner, held: set[Scope], asked: Scope, fate: str, shown: str
) -> None:
    """Property 4."""

    async def ask() -> httpx.Response:
        store, now = shared_api.services.store, shared_api.services.clock.now()
        key, text = new_key("test", tuple(held), now, now - 1 if fate == "expired" else None)
        await store.add_key(key)
        other = new_key("other", (Scope.ADMIN,), now)[1].reveal()
        if fate == "revoked":
            await store.revoke_key(key.key_id)
        secret = text.reveal()
        headers = {
            "right": [("X-Service-Key", secret)],
            "none": [],
            "cut": [("X-Service-Key", secret[:-1])],
            "longer": [("X-Service-Key", secret + "x")],
            "other id": [("X-Service-Key", other)],
            "other secret": [("X-Service-Key", f"sk_{key.key_id}_{other.split('_', 2)[2]}")],
            "twice": [("X-Service-Key", secret), ("X-Service-Key", secret)],
            "empty": [("X-Service-Key", "")],
        }[shown]
        method, path = ENDPOINTS[asked]
        return await shared_api.client.request(method, path, headers=headers)

    answer = loop_runner.run(ask())
    check_envelope(answer)
    if shown != "right" or fate != "alive":
        assert answer.status_code == 401
    elif max(RANK[scope] for scope in held) < RANK[asked]:
        assert answer.status_code == 403
    else:
        assert answer.json()["error"]["code"] == "job_not_found"


@pytest.mark.req("I5")
async def test_without_any_key_whoever_is_on_this_machine_may_do_everything(api: Api) -> None:
    assert (await api.error("DELETE", "/jobs/none"))["code"] == "job_not_found"


@pytest.mark.req("I5")
async def test_without_any_key_nobody_from_elsewhere_is_let_in(api: Api) -> None:
    transport = httpx.ASGITransport(make_app(api.controller), client=("192.0.2.7", 5_000))
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as stranger:
        answer = await stranger.get("/jobs")
    check_envelope(answer)
    assert answer.status_code == 401


@pytest.mark.req("I5")
async def test_when_the_last_key_is_revoked_the_door_stays_shut(api: Api) -> None:
    key, _ = new_key("only", (Scope.ADMIN,), api.services.clock.now())
    await api.services.store.add_key(key)
    await api.services.store.revoke_key(key.key_id)
    error = await api.error("GET", "/jobs")
    assert (error["code"], error["message"].partition(";")[0]) == ("authentication_error", NO_VALID_KEY)


@pytest.mark.req("I5")
async def test_a_wrong_key_is_wrong_even_where_none_is_needed(api: Api) -> None:
    assert (await api.error("GET", "/jobs", headers={"X-Service-Key": "sk_a_b"}))["code"] == "authentication_error"


@pytest.mark.req("I5")
async def test_health_needs_no_key(api: Api) -> None:
    await api.key(Scope.ADMIN)
    assert (await api.ask("GET", "/health")).status_code == 200


@pytest.mark.req("I5")
async def test_every_other_endpoint_needs_one(api: Api) -> None:
    await api.key(Scope.ADMIN)
    paths = (await api.client.get("/openapi.json")).json()["paths"]
    for path, methods in paths.items():
        if path in {"/health", "/readiness"}:
            continue
        for method in methods:
            answer = await api.client.request(method.upper(), path.replace("{", "").replace("}", ""), content=b"[")
            assert answer.status_code == 401, (method, path, answer.text)


@pytest.mark.req("I5")
async def test_nobody_without_a_key_makes_us_read_a_body(api: Api) -> None:
    await api.key(Scope.ADMIN)
    sent = 0

    async def body() -> object:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * 1_000

    answer = await api.ask("POST", "/jobs", content=body(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 401
    assert sent <= 1


@pytest.mark.req("I5")
async def test_too_many_requests_are_told_when_to_come_again(tmp_path: Path) -> None:
    async with running(tmp_path, requests_per_minute=5) as api:
        found = [await api.ask("GET", "/scrapers") for _ in range(6)]
        assert [answer.status_code for answer in found] == [200] * 5 + [429]
        assert 1 <= int(found[-1].headers["retry-after"]) <= 60
        other = await api.key(Scope.READ)
        answer = await api.ask("GET", "/scrapers", headers={"X-Service-Key": other.reveal()})
        assert answer.status_code == 200  # each key has a pace of its own


@pytest.mark.req("I5")
@settings(max_examples=60, deadline=None)
@given(waits=st.lists(st.floats(0, 30), min_size=1, max_size=80), per_minute=st.integers(1, 60))
def test_no_caller_gets_more_than_its_share(waits: list[float], per_minute: int) -> None:
    """In every stretch of time no more than what is allowed at once, and what has come back since."""

    class NoKeys:
        async def expire_keys(self, _: object) -> None:
            pass

        async def keys(self) -> list[object]:
            return []

    async def let_in() -> list[float]:
        clock = FakeClock()
        keeper = Authenticator(NoKeys(), clock, per_minute)  # type: ignore[arg-type]  # a ring without keys
        times = []
        for wait_seconds in waits:
            clock.advance(wait_seconds)
            try:
                await keeper.admit([], "127.0.0.1", Scope.READ)
            except Exception:  # noqa: BLE001 refused, which is what is counted
                continue
            times.append(clock.boot())
        return times

    times = asyncio.run(let_in())
    assert times
    for first in range(len(times)):
        for last in range(first, len(times)):
            allowed = per_minute + (times[last] - times[first]) * per_minute / 60
            assert last - first + 1 <= allowed + 1e-6


@pytest.mark.req("I5")
async def test_revocation_holds_soon(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store says of its keys is believed for a moment, and no longer."""
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.3)
    key, shown = new_key("short", (Scope.READ,), api.services.clock.now())
    await api.services.store.add_key(key)
    headers = {"X-Service-Key": shown.reveal()}
    assert (await api.ask("GET", "/scrapers", headers=headers)).status_code == 200
    await api.services.store.revoke_key(key.key_id)
    await asyncio.sleep(0.35)
    assert (await api.ask("GET", "/scrapers", headers=headers)).status_code == 401


@pytest.mark.req("I5", "Z7")
async def test_keys_are_kept_as_hashes(api: Api) -> None:
    key = await api.key(Scope.READ)
    secret = key.reveal().split("_", 2)[2]
    kept = msgspec.json.encode(await api.services.store.keys())
    assert secret.encode() not in kept


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("example.com", False),
    ],
)
def test_what_counts_as_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.req("I5", "Z9")
async def test_keys_hold_on_for_a_while_when_the_store_is_away_and_not_for_ever() -> None:
    class Ring:
        def __init__(self) -> None:
            self.away = True
            self.kept, self.shown = new_key("a", (Scope.READ,), 0.0)

        async def expire_keys(self, _: object) -> None:
            if self.away:
                raise StoreUnavailable("away", WaitingFor.STORE)

        async def keys(self) -> list[ServiceKey]:
            if self.away:
                raise StoreUnavailable("away", WaitingFor.STORE)
            return [self.kept]

    ring, clock = Ring(), FakeClock()
    keeper = Authenticator(ring, clock, 1_000)  # type: ignore[arg-type]  # it only tells its keys
    with pytest.raises(StoreUnavailable):  # nobody is let in before the keys were read once
        await keeper.admit([], "127.0.0.1", Scope.READ)
    ring.away = False
    clock.advance(5)
    assert (await keeper.admit([ring.shown.reveal()], None, Scope.READ)).key_id == ring.kept.key_id
    ring.away = True
    clock.advance(60)
    assert (await keeper.admit([ring.shown.reveal()], None, Scope.READ)).key_id == ring.kept.key_id
    clock.advance(600)
    with pytest.raises(StoreUnavailable):
        await keeper.admit([ring.shown.reveal()], None, Scope.READ)
