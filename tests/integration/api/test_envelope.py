"""Every answer in one shape, under an id of its own."""

from __future__ import annotations

import asyncio
import json
import string
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.entrypoints.api.errors import STATUS_OF, ErrorCode
from tests.integration.api.running import Api, check_envelope

PATHS = (
    "/jobs",
    "/jobs/{}",
    "/jobs/{}/status",
    "/jobs/{}/items",
    "/jobs/{}/items/{}",
    "/jobs/{}/start",
    "/jobs/{}/pause",
    "/jobs/{}/resume",
    "/jobs/{}/cancel",
    "/jobs/{}/retry",
    "/jobs/{}/policy",
    "/scrapers",
    "/nowhere/{}",
    "/{}",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
IDS = st.text(min_size=1, max_size=12)
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
VARIED = settings(max_examples=150, deadline=None)


@pytest.mark.req("I1")
@VARIED
@given(
    method=st.sampled_from(METHODS),
    path=st.sampled_from(PATHS),
    ids=st.tuples(IDS, IDS),
    body=BODIES,
    kind=st.sampled_from(["application/json", "text/plain", ""]),
)
def test_every_answer_has_the_envelope(
    shared_api: Api,
    loop_runner: asyncio.Runner,
    method: str,
    path: str,
    ids: tuple[str, str],
    body: bytes | None,
    kind: str,
) -> None:
    """Property 1."""
    url = path.format(*(quote(one, safe="", errors="replace") for one in ids))
    answer = loop_runner.run(shared_api.client.request(method, url, content=body, headers={"Content-Type": kind}))
    check_envelope(answer)
    assert answer.status_code < 500
    if not answer.is_success:
        assert STATUS_OF[ErrorCode(answer.json()["error"]["code"])] == answer.status_code


@pytest.mark.req("I1")
@VARIED
@given(given_ids=st.lists(st.one_of(st.none(), st.text(string.printable[:95], max_size=40)), max_size=5))
def test_request_ids_are_uuids_that_never_repeat(
    shared_api: Api, loop_runner: asyncio.Runner, given_ids: list[str | None]
) -> None:
    """Property 3."""
    seen = set()
    for given_id in given_ids:
        headers = {} if given_id is None else {"X-Request-ID": given_id}
        answer = loop_runner.run(shared_api.client.get("/nowhere", headers=headers))
        check_envelope(answer)
        seen.add(uuid.UUID(answer.json()["request_id"]))
    assert len(seen) == len(given_ids)


@pytest.mark.req("I1")
async def test_a_callers_request_id_is_kept_if_it_is_a_uuid(api: Api) -> None:
    for shown, kept in (
        ("0B8F2F0E-4F0F-4B6B-9D8B-1F8F6A1C2D3E", True),
        ("{0b8f2f0e-4f0f-4b6b-9d8b-1f8f6a1c2d3e}", False),
        ("0b8f2f0e4f0f4b6b9d8b1f8f6a1c2d3e", False),
        ("x", False),
    ):
        answer = await api.ask("GET", "/scrapers", headers={"X-Request-ID": shown})
        assert (answer.json()["request_id"] == shown.lower()) is kept


@pytest.mark.req("I1")
@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", "not_found"),
        ("GET", "/jobs/", "not_found"),
        ("GET", "//", "not_found"),
        ("PUT", "/jobs", "method_not_allowed"),
        ("GET", "/jobs/none", "job_not_found"),
        ("GET", "/jobs/none/items", "job_not_found"),
        ("GET", "/jobs/none/items/x", "job_not_found"),
        ("POST", "/jobs/none/pause", "job_not_found"),
        ("POST", "/jobs/none/start", "job_not_found"),
        ("DELETE", "/jobs/none", "job_not_found"),
        ("GET", "/jobs?limit=0", "validation_error"),
        ("GET", "/jobs?cursor=none", "validation_error"),
        ("GET", "/jobs?status=odd", "validation_error"),
        ("GET", "/jobs/%ff", "validation_error"),
    ],
)
def test_errors_have_stable_codes(
    shared_api: Api, loop_runner: asyncio.Runner, method: str, path: str, code: str
) -> None:
    assert loop_runner.run(shared_api.error(method, path))["code"] == code


@pytest.mark.req("I1")
async def test_a_wrong_method_is_told_all_right_ones(api: Api) -> None:
    answer = await api.ask("PUT", "/jobs/a")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")
    for path in ("/api/v1/scrape/batch", "/api/v1/scrape/sync"):
        for method in ("PUT", "GET"):
            answer = await api.ask(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), "its name is no task id"


@pytest.mark.req("I1", "Z5", "Z7")
async def test_nothing_internal_is_told_of_what_nobody_foresaw(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("hunter2 lies in /var/secret")

    monkeypatch.setattr(type(api.controller.registry), "infos", broken)
    answer = await api.ask("GET", "/scrapers")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "hunter2" not in answer.text
    assert "RuntimeError" not in answer.text
    assert "RuntimeError" in caplog.text


@pytest.mark.req("Z9")
async def test_a_store_that_does_not_answer_is_a_503_with_retry_after(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> Any:
        raise StoreUnavailable("the store is locked", WaitingFor.STORE)

    monkeypatch.setattr(type(api.services.store), "status", away)
    answer = await api.ask("GET", "/jobs/any/status")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"] == {
        "code": "store_unavailable",
        "message": "the store is locked",
        "details": {"waiting_for": "store"},
    }


@pytest.mark.req("I1")
async def test_there_is_one_table_of_codes_and_it_has_those_of_the_appendix() -> None:
    appendix = {
        "validation_error": 422,
        "authentication_error": 401,
        "forbidden": 403,
        "batch_too_large": 400,
        "job_not_found": 404,
        "item_not_found": 404,
        "task_not_found": 404,
        "scraper_not_found": 404,
        "conflict": 409,
        "results_not_ready": 409,
        "payload_too_large": 413,
        "rate_limited": 429,
        "queue_full": 503,
        "circuit_open": 503,
        "pool_exhausted": 503,
        "no_healthy_proxies": 503,
        "credential_not_found": 424,
        "task_timeout": 504,
        "internal_error": 500,
    }
    table = {code.value: status for code, status in STATUS_OF.items()}
    assert appendix.items() <= table.items()
    assert set(STATUS_OF) == set(ErrorCode)


async def test_an_answer_is_json_and_says_so(api: Api) -> None:
    answer = await api.ask("GET", "/jobs")
    assert answer.headers["content-type"] == "application/json"
