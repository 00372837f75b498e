"""O2, W5: the figures are right, bounded, and tell no secret."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from swath.bootstrap.workers import make_finisher, make_remover
from swath.domain.lease import Lease
from swath.domain.transitions import ItemState
from swath.entrypoints.api.access_log import AccessLog
from swath.entrypoints.api.routes.health import OPEN_STATES, ServiceHealth
from swath.observability.counters import Histogram, ProcessCounters
from swath.observability.prometheus import Gauge, render_metrics
from swath.observability.task_context import serve_request
from tests.integration.api.pages import served
from tests.integration.api.running import Api, until_ended
from tests.unit.pipeline.finish.running import every_kind, finish_lease, loaded

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.req("O2")

EVENTS = "/jobs/{job_id}/events"

Figure = tuple[str, frozenset[tuple[str, str]]]


def read(text: str) -> dict[Figure, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def figure(found: dict[Figure, float], name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


async def metrics(api: Api) -> dict[Figure, float]:
    answer = await api.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return read(answer.text)


async def test_what_a_worker_does_is_counted(working_api: Api) -> None:
    before = await metrics(working_api)
    items = [{"item_id": f"i{n}", "input": {"n": n}} for n in range(7)]
    body = {"job_id": "counted", "scraper_id": "example-mock", "items": items}
    assert (await working_api.client.post("/jobs", json=body)).is_success
    counts = (await until_ended(working_api, "counted"))["counts"]
    after = await metrics(working_api)

    def grown(name: str, **labels: str) -> float:
        return figure(after, name, **labels) - figure(before, name, **labels)

    ended = {state: grown("swath_items_total", state=state, kind="none") for state in ("success",)}
    assert ended == {"success": counts["success"]}
    assert grown("swath_attempt_seconds_count") == grown("swath_attempts_total", kind="none") == 7
    assert grown("swath_committed_items_total") == 7
    assert grown("swath_commit_seconds_count") >= 1
    assert figure(after, "swath_store_up") == 1
    assert figure(after, "process_resident_memory_bytes") > 1 << 20


class Truth:
    """A store that is played with, and what is true of it, counted item by item."""

    def __init__(self, api: Api) -> None:
        self._services = api.services
        self._store = api.services.store
        self._jobs: list[str] = []
        self._leases: list[Lease] = []

    async def act(self, step: str) -> None:
        if step == "order":
            self._jobs.append(f"job-{len(self._jobs)}")
            await loaded(self._store, ["i1", "i2", "i3"], self._jobs[-1])
        elif step == "claim":
            lease = await self._store.claim(f"w{len(self._leases)}")
            self._leases += [] if lease is None else [lease]
        elif step == "finish" and self._leases:
            await finish_lease(self._store, self._services.storage, self._leases.pop(0), every_kind)
        elif step in ("pause", "resume", "cancel") and self._jobs:
            status = await self._store.status(self._jobs[-1])
            if not status.state.terminal and status.stopping is None:
                await getattr(self._store, step)(self._jobs[-1])

    async def check(self) -> None:
        pending, jobs, working = 0, Counter[str](), set[tuple[str, str]]()
        for job_id in self._jobs:
            status = await self._store.status(job_id)
            jobs[status.state.value] += 1
            if status.state.value in ("pending", "running") and status.stopping is None:
                pending += sum(one.state is ItemState.PENDING for one in await self._store.items(job_id))
                working |= {(lease.worker_id, job_id) for lease in self._leases if lease.job.job_id == job_id}
        look = await ServiceHealth(self._store, self._services.clock).look()
        found = read(render_metrics(ProcessCounters(), list(look.gauges())).decode())
        assert figure(found, "swath_queue_items") == pending
        assert figure(found, "swath_active_workers") == len(working)
        assert {state: figure(found, "swath_jobs", state=state.value) for state in OPEN_STATES} == {
            state: jobs[state.value] for state in OPEN_STATES
        }
        assert (figure(found, "swath_oldest_pending_seconds") > 0) == (pending > 0)
        assert figure(found, "swath_backlog_per_worker") == pending / max(1, len(working))

    async def clear(self) -> None:
        """Leaves the store as it was found."""
        for lease in self._leases:
            await finish_lease(self._store, self._services.storage, lease, every_kind)
        for job_id in self._jobs:
            await self._store.cancel(job_id)
        finisher, remover = make_finisher(self._services, "cleaner"), make_remover(self._services, "cleaner")
        while await finisher.run_once() is not None:
            pass
        for job_id in self._jobs:
            await self._store.delete(job_id)
        while await remover.run_once() is not None:
            pass
        assert await self._store.jobs() == []


@pytest.mark.req("W5")
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(["order", "claim", "finish", "pause", "resume", "cancel"]), max_size=12))
def test_queue_figures_equal_the_true_state(shared_api: Api, loop_runner: asyncio.Runner, steps: list[str]) -> None:
    """Property 37."""

    async def play() -> None:
        truth = Truth(shared_api)
        try:
            for step in steps:
                await truth.act(step)
                await truth.check()
        finally:
            await truth.clear()

    loop_runner.run(play())


def test_a_spread_counts_what_was_no_longer_than_each_bound() -> None:
    spread = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 3.0):
        spread.add(seconds)
    assert spread.up_to() == [("0.1", 2), ("1.0", 3), ("+Inf", 4)]
    assert spread.total == pytest.approx(3.65)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=20), st.floats(0, 1e6)), max_size=5))
def test_whatever_a_label_is_the_text_can_be_read_back(values: list[tuple[str, float]]) -> None:
    known = dict(values)
    text = render_metrics(ProcessCounters(), [Gauge("swath_test", "Any.", known, "label")]).decode(
        "utf-8", "surrogatepass"
    )
    found = {dict(labels)["label"]: value for (name, labels), value in read(text).items() if name == "swath_test"}
    assert found == known


async def test_requests_are_counted_by_route_not_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ProcessCounters()
    monkeypatch.setattr("swath.entrypoints.api.access_log.FIGURES", figures)
    app = FastAPI()
    app.add_middleware(AccessLog)
    app.add_api_route("/jobs/{job_id}/status", lambda job_id: {"job": job_id})

    async def with_an_id(scope: Scope, receive: Receive, send: Send) -> None:
        serve_request("6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01")
        await app(scope, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(with_an_id), base_url="http://127.0.0.1") as client:
        for n in range(5):
            await client.get(f"/jobs/nobody-{n}/status")
            await client.request("BREW", f"/nowhere/{n}")
    assert dict(figures.requests) == {
        ("GET", "/jobs/{job_id}/status", "2xx"): 5,
        ("none", "none", "4xx"): 5,
    }
    seconds = {route: sum(spread.counts) for route, spread in figures.request_seconds.items()}
    assert seconds == {"/jobs/{job_id}/status": 5, "none": 5}


async def test_how_long_a_stream_was_read_is_no_time_of_an_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ProcessCounters()
    monkeypatch.setattr("swath.entrypoints.api.access_log.FIGURES", figures)
    await api.data("POST", "/jobs", json={"job_id": "j", "scraper_id": "example-mock"})
    async with served(api) as client, client.stream("GET", "/jobs/j/events") as stream:
        assert stream.status_code == 200
        assert (await client.get("/jobs/nobody/events")).status_code == 404
    found = read(render_metrics(figures).decode())
    assert figure(found, "swath_http_requests_total", method="GET", route=EVENTS, status="2xx") == 1
    assert figure(found, "swath_http_request_seconds_count", route=EVENTS) == 1
    assert figure(found, "swath_http_request_seconds_count", route="/jobs") == 1


@pytest.mark.req("H4")
def test_answers_from_the_cache_are_counted() -> None:
    figures = ProcessCounters()
    assert figure(read(render_metrics(figures).decode()), "swath_cache_hits_total") == 0
    figures.cache_hits += 3
    assert figure(read(render_metrics(figures).decode()), "swath_cache_hits_total") == 3
