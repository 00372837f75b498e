"""Bodies that cost much more to refuse than to send: the controller goes on answering, in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from swath.entrypoints.api import request_body
from tests.integration.api.running import TYPED, Api
from tests.integration.api.serving import Place, Served

JSON = {"Content-Type": "application/json"}
MANY = 300_000
MOST_TOLD = 50
MOST_GROWN_MIB = 400  # two bodies are at work at a time, with up to some 100 MiB each


def _order(**fields: Any) -> bytes:
    return json.dumps({"job_id": "bad", "scraper_id": "example-mock", "items": [{"input": {}}], **fields}).encode()


def _named(value: Any = 1, many: int = MANY) -> dict[str, Any]:
    return {f"k{number}": value for number in range(many)}


def _wrong_items() -> list[dict[str, Any]]:
    return [{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "item_id": 7} for _ in range(MANY // 7)]


HOSTILE: dict[str, tuple[Callable[[], bytes], str, int]] = {
    "wrong labels": (lambda: _order(labels=_named()), "labels", 1),
    "unknown fields": (lambda: _order(**_named()), "", 1),
    "unknown fields of items": (lambda: _order(items=_wrong_items()), "items[0].item_id", MANY // 7 * 7),
    "a policy of unknown sections": (lambda: _order(execution_policy=_named()), "execution_policy", 1),
}


def _peak_mib(served: Served) -> int:
    """The most memory that the controller's process ever had."""
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) >> 10


async def _health_while(served: Served, asked: list[asyncio.Task[httpx.Response]]) -> list[int]:
    """How many bodies were answered while each answer about the health was waited for."""
    answered = []
    async with httpx.AsyncClient(base_url=served.url, timeout=300) as client:
        while not all(one.done() for one in asked):
            before = sum(one.done() for one in asked)
            assert (await client.get("/health")).status_code == 200
            answered.append(sum(one.done() for one in asked) - before)
    return answered


@pytest.mark.req("Z5", "I1", "I5")
async def test_bodies_full_of_mistakes_neither_silence_nor_fill_the_controller(tmp_path: Path) -> None:
    scrapers, gate = tmp_path / "scrapers", tmp_path / "gate"
    scrapers.mkdir()
    (scrapers / "typed.py").write_text(TYPED)
    bodies = {name: made() for name, (made, _, _) in HOSTILE.items()}
    async with Place(tmp_path).serving(SWATH_SCRAPERS=str(scrapers), SWATH_LEASE_SECONDS="15") as served:
        items = [{"item_id": "one", "input": {"gate": str(gate), "n": 1}}]
        await served.ask("POST", "/jobs", json={"job_id": "held", "scraper_id": "gated", "items": items})
        await served.until("held", "running")
        before_mib = _peak_mib(served)
        async with httpx.AsyncClient(base_url=served.url, timeout=300) as client:
            names = [*HOSTILE] * 3
            sent = [asyncio.create_task(client.post("/jobs", content=bodies[name], headers=JSON)) for name in names]
            between = await _health_while(served, sent)
        for name, task in zip(names, sent, strict=True):
            _check_refusal(name, task.result())
        assert max(between) <= 4, between
        assert len(between) > len(sent), between
        assert _peak_mib(served) - before_mib < MOST_GROWN_MIB
        gate.touch()
        await served.until("held", "completed")
        assert len((await served.ask("GET", "/jobs/held/items/one"))["attempts"]) == 1


def _check_refusal(name: str, answer: httpx.Response) -> None:
    if answer.status_code == 429:  # on a busy machine it had to wait for too long
        assert int(answer.headers["Retry-After"]) > 0
        return
    assert answer.status_code == 422, answer.text[:1_000]
    details = answer.json()["error"]["details"]
    assert len(details["fields"]) <= MOST_TOLD
    assert (details["fields"][0]["path"], details["count"]) == (HOSTILE[name][1], HOSTILE[name][2])
    assert len(answer.content) < 50_000


SMALL_ONLY = [
    ("POST", "/api/v1/scrape"),
    ("POST", "/api/v1/scrape/sync"),
    ("POST", "/jobs/bad/reextract"),
    ("POST", "/jobs/bad/versions/current"),
    ("POST", "/jobs/bad/webhooks/resend"),
    ("PATCH", "/jobs/bad/policy"),
]


@pytest.mark.req("Z5", "I5")
@pytest.mark.parametrize(("method", "path"), SMALL_ONLY)
def test_what_is_small_by_its_nature_is_not_read_when_it_is_large(
    shared_api: Api, loop_runner: asyncio.Runner, method: str, path: str
) -> None:
    body = json.dumps({"x" * 300_000: 1}).encode()
    error = loop_runner.run(shared_api.error(method, path, content=body, headers=JSON))
    assert error["code"] == "payload_too_large"


MANY_WRONG: dict[str, tuple[str, bytes, str]] = {
    "targets": ("/api/v1/scrape/batch", json.dumps({"targets": [1] * 50_000}).encode(), "batch_too_large"),
    "a long item id": ("/jobs/bad/retry", json.dumps({"item_ids": ["x" * 100_000]}).encode(), "item_ids[0]"),
    "unknown fields": ("/jobs/bad/retry", json.dumps(_named(many=50_000)).encode(), ""),
    "values of an item": ("/jobs", _order(items=[{"input": {"x": [1] * 10_001}}]), "items[0].input"),
    "values of a policy": ("/jobs", _order(execution_policy=_named(many=1_001)), "execution_policy"),
}


@pytest.mark.req("Z5", "I1")
@pytest.mark.parametrize("name", MANY_WRONG)
def test_what_is_too_much_is_one_mistake(shared_api: Api, loop_runner: asyncio.Runner, name: str) -> None:
    path, body, told = MANY_WRONG[name]
    error = loop_runner.run(shared_api.error("POST", path, content=body, headers=JSON))
    if error["code"] == "validation_error":
        assert [field["path"] for field in error["details"]["fields"]] == [told]
        assert error["details"].get("count", 1) == 1
    else:
        assert error["code"] == told


LONG = "k" * 300_000
ECHOES: dict[str, bytes] = {
    "unknown field": _order(**{LONG: 1}),
    "key twice": _order(odd=1).replace(b'"odd"', f'"{LONG}": 1, "{LONG}"'.encode()),
    "label": _order(labels={LONG: LONG}),
    "a section": _order(execution_policy={LONG: 1}),
}


@pytest.mark.req("Z5", "I1")
@pytest.mark.parametrize("name", ECHOES)
def test_no_long_text_comes_back_in_an_error(shared_api: Api, loop_runner: asyncio.Runner, name: str) -> None:
    answer = loop_runner.run(shared_api.ask("POST", "/jobs", content=ECHOES[name], headers=JSON))
    assert answer.status_code == 422
    assert len(answer.content) < 5_000


@pytest.mark.req("Z5", "J2")
async def test_a_streamed_row_has_bounded_values_and_its_error_bounded_words(api: Api) -> None:
    await api.data("POST", "/jobs", json={"job_id": "rows", "scraper_id": "example-mock"})
    rows = [
        json.dumps({"x": [1] * 10_001}),
        json.dumps({"x": "," * 20_000}),
        json.dumps({"x": 1}).replace('"x"', f'"{LONG}": 1, "{LONG}"'),
    ]
    for form, text in (("ndjson", "\n".join(rows)), ("json", f"[{','.join(rows)}]")):
        told = await api.data("POST", f"/jobs/rows/items?format={form}", content=text.encode(), headers={})
        assert (told["rows"], told["added"], [bad["line"] for bad in told["errors"]][:1]) == (3, 1, [1])
        assert "10,000 values" in told["errors"][0]["message"]
        assert all(len(bad["message"]) < 1_000 for bad in told["errors"])


@pytest.mark.req("Z5")
def test_of_many_unknown_filters_some_are_told(shared_api: Api, loop_runner: asyncio.Runner) -> None:
    query = "&".join(f"x{number}=" for number in range(1_000))
    details = loop_runner.run(shared_api.error("GET", f"/jobs?{query}"))["details"]
    assert (len(details["fields"]), details["count"]) == (MOST_TOLD, 1_000)


@pytest.mark.req("Z5", "I5")
async def test_while_large_bodies_wait_small_ones_are_taken(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "SLOT_WAIT_SECONDS", 0.01)
    large = _order(name="x" * 100_000)
    async with api.controller.bodies.at_work(), api.controller.bodies.at_work():
        answer = await api.ask("POST", "/jobs", content=large, headers=JSON)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
        assert int(answer.headers["Retry-After"]) > 0
        assert (await api.ask("POST", "/jobs", content=_order(job_id="small"), headers=JSON)).status_code == 201
    assert (await api.ask("POST", "/jobs", content=large, headers=JSON)).status_code == 422


@pytest.mark.req("Z5", "I5")
async def test_who_falls_silent_in_a_large_body_loses_its_place(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.01)

    async def silent() -> AsyncIterator[bytes]:
        yield b" " * 100_000
        await asyncio.Event().wait()

    for _ in range(2 * request_body.MAX_RECEIVING):  # or the places would be used up
        error = await api.error("POST", "/jobs", content=silent(), headers=JSON)
        assert "slowly" in error["message"]
