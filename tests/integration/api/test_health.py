"""I4, Z9: how the controller says that it is, whatever the store does."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath import __version__
from swath.backends.clock import SystemClock
from swath.bootstrap.browsers import LazyBrowsers
from swath.domain.errors import StoreDamaged, StoreUnavailable
from swath.domain.fair_scheduling import JobBacklog
from swath.domain.job import JobStatus, WaitingFor
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.domain.service_key import Scope
from swath.domain.transitions import JobState
from swath.entrypoints.api.routes.health import ServiceHealth
from swath.ports.store import Store
from tests.integration.api.running import Api, running, until_ended
from tests.support.bounds import HANGING_SECONDS
from tests.support.freezing import frozen_in
from tests.unit.pipeline.finish.running import loaded

if TYPE_CHECKING:
    from swath.pipeline.worker.worker import Worker

pytestmark = pytest.mark.req("I4")

TWO_PROXIES = (Secret("http://u:one-secret@127.0.0.1:9"), Secret("http://u:two-secret@127.0.0.1:10"))


class FaultyStore:
    """The store, but for how it answers when it is asked how things stand."""

    def __init__(self, store: Store, *, fault: str = "", delay_seconds: float = 0.0) -> None:
        self._store = store
        self.fault = fault
        self.delay_seconds = delay_seconds
        self.asked = 0

    async def backlog(self) -> list[JobBacklog]:
        self.asked += 1
        await asyncio.sleep(self.delay_seconds)
        if self.fault == "damage":
            raise StoreDamaged("row 17 of /srv/secret/place cannot be read")
        if self.fault:
            raise StoreUnavailable("/srv/secret/place cannot be used", WaitingFor(self.fault))
        return await self._store.backlog()

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        return await self._store.jobs(after, limit, states=states, on_demand=on_demand)

    async def held_by(self) -> str | None:
        return await self._store.held_by()


def put_before(api: Api, faulty: FaultyStore, **options: Any) -> None:
    """From now on the API sees the store through it."""
    app_of(api).state.standing = ServiceHealth(faulty, SystemClock(), **options)  # type: ignore[arg-type]


def app_of(api: Api) -> Any:
    app = api.client._transport.app  # type: ignore[attr-defined]
    while not hasattr(app, "state"):
        app = app.app
    return app


async def test_a_controller_that_is_well_says_what_it_is(api: Api) -> None:
    await loaded(api.services.store, ["a", "b", "c"])
    found = await api.data("GET", "/health")
    assert (found["status"], found["version"]) == ("ok", __version__)
    assert 0 <= found["uptime_seconds"] < 300
    assert found["store"] == {"state": "ok", "waiting_for": None, "held_by": None}
    assert (found["queue"]["pending"], found["queue"]["claimable"]) == (3, 3)
    assert found["queue"]["jobs"] == {"pending": 1}
    assert found["workers"] == {"embedded": False, "at_work": 0}
    assert (found["proxies"], found["browsers"]) == ({}, None)
    assert (await api.data("GET", "/readiness"))["ready"] is True


async def test_neither_needs_a_key_and_metrics_do(api: Api) -> None:
    await api.key(Scope.READ)
    assert (await api.client.get("/health")).status_code == 200
    assert (await api.client.get("/readiness")).status_code == 200
    assert (await api.client.get("/metrics")).status_code == 401


@pytest.mark.req("Z9")
@pytest.mark.parametrize("fault", list(WaitingFor))
async def test_a_store_that_does_not_answer_is_named_and_no_path_of_it(api: Api, fault: WaitingFor) -> None:
    put_before(api, FaultyStore(api.services.store, fault=fault))
    answer = await api.client.get("/health")
    assert answer.json()["data"]["status"] == "waiting"
    assert answer.json()["data"]["store"] == {"state": "waiting", "waiting_for": fault, "held_by": None}
    assert answer.json()["data"]["queue"] is None
    ready = await api.client.get("/readiness")
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "store_unavailable")
    assert ready.json()["error"]["details"] == {"waiting_for": fault, "held_by": None}
    assert int(ready.headers["retry-after"]) > 0
    assert "secret" not in answer.text + ready.text


async def test_a_store_that_is_damaged_is_no_bug_of_ours(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    put_before(api, FaultyStore(api.services.store, fault="damage"), fresh_seconds=0.0)
    for _ in range(3):
        answer = await api.client.get("/health")
        assert (answer.status_code, answer.json()["data"]["status"]) == (200, "waiting")
        assert (await api.client.get("/readiness")).status_code == 503
        assert "secret" not in answer.text
    assert len([record for record in caplog.records if "row 17" in record.getMessage()]) == 1


@pytest.mark.req("Z9")
async def test_a_store_that_hangs_costs_a_bounded_time_and_is_asked_once(api: Api) -> None:
    faulty = FaultyStore(api.services.store, delay_seconds=600)
    put_before(api, faulty, patience_seconds=0.3)
    began = time.monotonic()
    answers = await asyncio.gather(*(api.client.get(path) for path in ("/health", "/readiness", "/metrics") * 10))
    assert time.monotonic() - began < HANGING_SECONDS
    assert [answer.status_code for answer in answers] == [200, 503, 200] * 10
    assert faulty.asked == 1
    assert (await api.data("GET", "/health"))["store"]["waiting_for"] == "store", "it is known by now that it hangs"
    assert faulty.asked == 1


@pytest.mark.req("Z9")
async def test_it_is_ready_again_when_the_store_is_back(api: Api) -> None:
    faulty = FaultyStore(api.services.store, fault="disk")
    put_before(api, faulty, fresh_seconds=0.05)
    assert (await api.client.get("/readiness")).status_code == 503
    faulty.fault = ""
    await asyncio.sleep(0.06)
    assert (await api.client.get("/readiness")).status_code == 200


@pytest.mark.req("Z9")
async def test_what_a_worker_waits_for_is_told(api: Api) -> None:
    store = api.services.store
    await loaded(store, ["a", "b"])
    assert await store.claim("worker-elsewhere") is not None
    store.tell_waiting("worker-elsewhere", WaitingFor.DISK)
    assert (await api.data("GET", "/health"))["store"] == {"state": "waiting", "waiting_for": "disk", "held_by": None}
    assert (await api.client.get("/readiness")).status_code == 503


class StandInBrowsers(LazyBrowsers):
    """Browsers of which everything is known."""

    expected = property(lambda self: self.state != "not configured")
    ready = property(lambda self: self.state == "started")
    trouble = property(lambda self: "it exits" if self.state == "broken" else None)
    stats = None

    def __init__(self, state: str) -> None:
        self.state = state

    def check_again(self) -> None:
        """What is known does not change."""


@settings(max_examples=80, deadline=None)
@given(
    fault=st.sampled_from(["", *WaitingFor]),
    unwell=st.sets(st.sampled_from([0, 1])),
    browsers=st.sampled_from(["not configured", "starting", "broken", "started"]),
)
def test_readiness_is_200_exactly_when_what_is_configured_is_healthy(
    proxied_api: Api, loop_runner: asyncio.Runner, fault: str, unwell: set[int], browsers: str
) -> None:
    """Property 2."""
    outside = msgspec.structs.replace(proxied_api.controller.outside, browsers=StandInBrowsers(browsers))
    app_of(proxied_api).state.controller = msgspec.structs.replace(
        proxied_api.controller, outside=outside, worker=cast("Worker", object())
    )
    pool = proxied_api.controller.outside.network.ways._pools[ProxyType.CUSTOM]
    for number, health in enumerate(pool.health.values()):
        health.marked_at = 1.0 if number in unwell else None
    put_before(proxied_api, FaultyStore(proxied_api.services.store, fault=fault))
    answer = loop_runner.run(proxied_api.client.get("/readiness"))
    missing = [
        *(["store_unavailable"] if fault else []),
        *(["no_healthy_proxies"] if len(unwell) == 2 else []),
        *(["pool_exhausted"] if browsers in {"starting", "broken"} else []),
    ]
    assert answer.status_code == (503 if missing else 200)
    if missing:
        assert answer.json()["error"]["code"] == missing[0]
    health_answer = loop_runner.run(proxied_api.client.get("/health"))
    assert health_answer.json()["data"]["proxies"]["custom"]["well"] == 2 - len(unwell)
    assert "secret" not in answer.text + health_answer.text


@pytest.fixture(scope="module")
def proxied_api(loop_runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("proxied")
    opened = running(folder, proxy_custom_urls=TWO_PROXIES)
    yield loop_runner.run(opened.__aenter__())
    loop_runner.run(opened.__aexit__(None, None, None))


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock")
@pytest.mark.req("Z9", "Z10")
async def test_a_stopped_process_that_holds_the_store_is_named_also_without_a_job(api: Api) -> None:
    with frozen_in(api.services.settings.data) as frozen:
        found = await api.data("GET", "/health")
        assert (found["status"], found["store"]["waiting_for"]) == ("waiting", "store")
        assert found["store"]["held_by"].startswith(f"pid {frozen.pid} ")
        ready = (await api.client.get("/readiness")).json()["error"]
        assert (ready["code"], ready["details"]) == (
            "store_unavailable",
            {"waiting_for": "store", "held_by": found["store"]["held_by"]},
        )


@pytest.mark.req("Z9")
async def test_a_locked_store_is_reported_and_work_goes_on_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, work=True) as api:
        gate = tmp_path / "gate"
        items = [{"item_id": f"i{n}", "input": {"gate": str(gate), "n": n}} for n in range(3)]
        body = {"job_id": "held", "scraper_id": "gated", "items": items}
        assert (await api.client.post("/jobs", json=body)).is_success
        with closing(sqlite3.connect(tmp_path / "data" / "swath.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody else writes now
            gate.touch()
            began = time.monotonic()
            while (await api.data("GET", "/health"))["store"]["waiting_for"] != "store":
                assert time.monotonic() - began < HANGING_SECONDS
                await asyncio.sleep(0.1)
            assert (await api.client.get("/readiness")).status_code == 503
            other.execute("ROLLBACK")
        status = await until_ended(api, "held", seconds=HANGING_SECONDS)
        assert (status["status"], status["counts"]["success"]) == ("completed", 3)
        async with asyncio.timeout(60):
            while (await api.client.get("/readiness")).status_code != 200:
                await asyncio.sleep(0.1)
