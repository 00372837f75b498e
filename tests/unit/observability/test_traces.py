"""O2: traces across controller, queue and worker, when somebody wants them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.observability import tracing
from swath.observability.task_context import install_spans, request_span, span
from swath.pipeline.worker.attempt import AttemptRequest, WorkerContext, run_attempt
from swath.pipeline.worker.item_timeout import ItemTimeout
from tests.support.clock import FakeClock
from tests.support.network import open_network
from tests.unit.fetch.http.sites import TableTransport, answer
from tests.unit.pipeline.worker.test_attempt import NEXT, PAGE, TwoPages

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

pytestmark = pytest.mark.req("O2")

REQUEST = "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.set_up_tracing("swath-test", exporter)
    yield exporter
    install_spans(None)


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {one.name: one for one in exporter.get_finished_spans()}


async def test_the_spans_of_a_worker_belong_to_the_request_that_ordered_the_job(exporter: InMemorySpanExporter) -> None:
    with request_span("request", REQUEST, method="POST"), span("order"):
        pass
    clock = FakeClock()
    body = b"<h1>Parcel 1</h1>"
    site = TableTransport({PAGE: answer(PAGE, body), NEXT: answer(NEXT, body)})
    job = Job(job_id="j", scraper_id="two-pages", request_id=REQUEST)
    bench = WorkerContext(job, TwoPages(), open_network(site, clock), clock, "w")
    await run_attempt(
        bench, AttemptRequest(LeasedItem(1, "item-1", {"parcel": "canary"}), (), lambda: None, ItemTimeout())
    )
    found = by_name(exporter)
    assert set(found) == {"request", "order", "attempt", "fetch", "extract"}
    trace_id = uuid.UUID(REQUEST).int
    assert {one.context.trace_id for one in found.values()} == {trace_id}
    root = found["request"]
    assert root.parent is None
    for child, parent in (("order", "request"), ("attempt", "request"), ("fetch", "attempt"), ("extract", "attempt")):
        told = found[child].parent
        assert told is not None
        assert told.span_id == found[parent].context.span_id
    assert len({one.context.span_id for one in found.values()}) == len(found)
    attributes = dict(found["attempt"].attributes or {})
    assert attributes == {"swath.job_id": "j", "swath.item_id": "item-1", "swath.attempt": 1}
    assert "canary" not in "".join(one.to_json() for one in found.values())


def test_a_failure_is_told_by_its_kind_alone(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(Failed), span("fetch"):
        raise Failed(Failure.of(FailureKind.BLOCKED, "canary"))
    (one,) = exporter.get_finished_spans()
    assert dict(one.attributes or {}) == {"swath.failure": "blocked"}
    assert one.events == ()


def test_an_id_that_is_none_of_ours_begins_a_trace_of_its_own(exporter: InMemorySpanExporter) -> None:
    with span("attempt", "no uuid"):
        pass
    (one,) = exporter.get_finished_spans()
    assert one.parent is None


def test_off_is_nothing_at_all() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, swath.bootstrap, swath.entrypoints.cli.worker, swath.pipeline.worker.attempt_log\n"
                "import swath.observability.logs; swath.observability.logs.set_up_logging('WARNING')\n"
                "print([name for name in ('opentelemetry', 'prometheus_client', 'fastapi', 'structlog', 'uvicorn')"
                " if name in sys.modules])"
            ),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert span("attempt") is span("fetch")
