"""What is wrong with an order is told by its path, and nothing is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.api.running import Api

MOCK: dict[str, Any] = {
    "job_id": "a",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}, {"item_id": "two", "input": {"x": 2}}],
}


WRONG: list[tuple[str, list[Any]]] = [
    ("scraper_id", [1, None, [], "", True]),
    ("job_id", ["", "x" * 201, "a\nb", "a\x00b", 5, []]),
    ("name", [1, {}, "n" * 1_001]),
    ("labels", [[], "a", 1]),
    ("labels.a", [1, None, ["x"]]),
    ("priority", [True, "1", 1.5, 2**63, 10**7, -(2**63), [], {}]),
    ("callback_url", ["", 1, []]),
    ("items", [[], {}, "x", 1]),
    ("items[1]", [None, 1, "x", []]),
    ("items[1].input", [None, 1, "x", []]),
    ("items[1].item_id", ["", 5, [], "i" * 1_001]),
    ("items[1].input.parcel_id", [None, "12", "abcd", [], {}]),
    ("items[1].input.year", ["x", 1.5, 1_800, None, []]),
    ("items[1].extra", [1, "x"]),
    ("execution_policy", [1, "x", []]),
    ("execution_policy.throttling.max_concurrent_workers", [0, -1, "8", True, 10_001, 1.5, 2**63]),
    ("execution_policy.circuit_breaker.failure_threshold_percentage", [50, 0, -1, "x"]),
    ("execution_policy.retries.backoff", ["odd", 1, None]),
    ("execution_policy.retention_days", [0, -1, "x", True]),
    ("execution_policy.odd", [1]),
    ("odd", [1, None]),
]


def _with(body: Any, path: str, value: Any) -> Any:
    """The body with another value at a path."""
    head, _, rest = path.replace("[", ".").replace("]", "").partition(".")
    key: Any = int(head) if head.isdecimal() else head
    copy = list(body) if isinstance(body, list) else dict(body)
    inner = copy[key] if isinstance(copy, list) else copy.get(key, {})
    copy[key] = _with(inner, rest, value) if rest else value
    return copy


@pytest.mark.req("I1", "K2", "Z5")
@settings(max_examples=120, deadline=None)
@given(
    wrong=st.sampled_from(WRONG).flatmap(lambda row: st.tuples(st.just(row[0]), st.sampled_from(row[1]))),
    items=st.integers(2, 5),
)
def test_a_wrong_field_is_named_by_its_path_and_nothing_is_stored(
    shared_api: Api, loop_runner: asyncio.Runner, wrong: tuple[str, Any], items: int
) -> None:
    """Property 5."""
    path, value = wrong
    body = {
        "job_id": "wrong",
        "scraper_id": "typed",
        "items": [{"item_id": f"i{n}", "input": {"parcel_id": f"{n:03}"}} for n in range(items)],
    }
    answer = loop_runner.run(shared_api.ask("POST", "/jobs", json=_with(body, path, value)))
    assert answer.status_code == 422, (path, value, answer.text)
    error = answer.json()["error"]
    assert error["code"] == "validation_error"
    paths = [field["path"] for field in error["details"]["fields"]]
    assert path in paths, (path, value, paths)
    assert path in error["message"]
    assert loop_runner.run(shared_api.data("GET", "/jobs"))["jobs"] == []


@pytest.mark.req("I1")
async def test_all_wrong_fields_are_told_at_once(api: Api) -> None:
    items = [{"input": {"parcel_id": "1"}}, {"input": {"parcel_id": "001"}}, {"input": {"year": 1}}]
    error = await api.error("POST", "/jobs", json={"scraper_id": "typed", "items": items})
    told = {field["path"] for field in error["details"]["fields"]}
    assert told == {"items[0].input.parcel_id", "items[2].input.parcel_id", "items[2].input.year"}


@pytest.mark.req("I1")
async def test_a_misspelt_field_is_told_the_right_one(api: Api) -> None:
    error = await api.error("POST", "/jobs", json={**MOCK, "priorty": 1})
    assert "did you mean 'priority'" in error["message"]


@pytest.mark.req("J6")
async def test_repeated_item_ids_are_refused_by_their_places(api: Api) -> None:
    error = await api.error("POST", "/jobs", json={**MOCK, "items": [*MOCK["items"], MOCK["items"][0]]})
    assert error["details"]["fields"] == [
        {"path": "items[2].item_id", "in": "body", "message": "items[0] has the same id"}
    ]


@pytest.mark.req("K3")
async def test_an_unknown_scraper_is_told_near_ones(api: Api) -> None:
    error = await api.error("POST", "/jobs", json={**MOCK, "scraper_id": "exmple-mock"})
    assert error["code"] == "scraper_not_found"
    assert "example-mock" in error["message"]


@pytest.mark.req("Z4", "K3")
async def test_a_scraper_is_never_a_file_of_the_controllers_machine(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('ran')")
    assert (await api.error("POST", "/jobs", json={**MOCK, "scraper_id": str(file)}))["code"] == "scraper_not_found"


@pytest.mark.req("P1")
async def test_a_proxy_that_is_not_set_up_is_refused(api: Api) -> None:
    error = await api.error("POST", "/jobs", json={**MOCK, "execution_policy": {"proxy": {"type": "residential"}}})
    assert error["details"]["fields"][0]["path"] == "execution_policy.proxy"


@pytest.mark.req("Z4", "N1")
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "http://169.254.169.254/", "ftp://example.com/", "http://u:p@example.com/", "no"]
)
async def test_a_webhook_may_not_lead_to_a_private_address(api: Api, url: str) -> None:
    error = await api.error("POST", "/jobs", json={**MOCK, "callback_url": url})
    assert error["details"]["fields"][0]["path"] == "callback_url"
    assert (await api.data("GET", "/jobs"))["jobs"] == []
