"""Bodies that cost much more to refuse than to send: the controller goes on answering, in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.running import TYPED
from tests.api.serving import Place, Served

JSON = {"Content-Type": "application/json"}
MANY = 300_000
MOST_TOLD = 50
MOST_GROWN_MIB = 500  # two bodies are at work at a time, with up to some 100 MiB each


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
    variables = {"SWATH_SCRAPERS": str(scrapers), "SWATH_LEASE_SECONDS": "15"}
    async with Place(tmp_path).serving(**variables) as served:
        items = [{"item_id": "one", "input": {"gate": str(gate), "n": 1}}]
        await served.ask("POST", "/jobs", json={"job_id": "held", "scraper_id": "gated", "items": items})
        await served.until("held", "running")
        before_mib = _peak_mib(served)
        async with httpx.AsyncClient(base_url=served.url, timeout=300) as client:
            names = [*HOSTILE] * 3
            sent = [asyncio.create_task(client.post("/jobs", content=bodies[name], headers=JSON)) for name in names]
            between = await _health_while(served, sent)
        print(between, _peak_mib(served) - before_mib)
        for name, task in zip(names, sent, strict=True):
            _check_refusal(name, task.result())
        print(between, _peak_mib(served) - before_mib)
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
