"""The bad-input corpus of the API: no 500, a clear answer, and nothing lost."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.running import Api, running

JSON = {"Content-Type": "application/json"}
GOOD: dict[str, Any] = {
    "job_id": "bad",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}],
}
TEXT = json.dumps(GOOD)


def _input(text: str) -> bytes:
    """A job whose only item has this text as its input."""
    return TEXT.replace('{"x": 1}', text).encode()


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "white space": b"  \n",
    "not JSON": b"job_id=bad",
    "cut off": TEXT[:-5].encode(),
    "two values": (TEXT + TEXT).encode(),
    "trailing comma": (TEXT[:-1] + ",}").encode(),
    "a list": b"[]",
    "a string": b'"x"',
    "null": b"null",
    "a number": b"7",
    "NaN": _input('{"x": NaN}'),
    "Infinity": _input('{"x": -Infinity}'),
    "1e999": _input('{"x": 1e999}'),
    "a number of 10,000 digits": _input('{"x": ' + "9" * 10_000 + "}"),
    "duplicate keys": _input('{"x": 1, "x": 2}'),
    "duplicate keys at the top": (TEXT[:-1] + ', "job_id": "other"}').encode(),
    "depth 10^4 of lists": _input('{"x": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    "depth 10^4 of objects": _input('{"a":' * 10_000 + "1" + "}" * 10_000),
    "depth 10^5, never closed": b"[" * 100_000,
    "depth 200": _input('{"x": ' + "[" * 200 + "]" * 200 + "}"),
    "BOM": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-32": TEXT.encode("utf-32"),
    "latin-1": TEXT.replace("bad", "bäd").encode("latin-1"),
    "overlong UTF-8": TEXT.replace("bad", "b_d").encode().replace(b"b_d", b"b\xc0\xafd"),
    "lone surrogate in a value": _input('{"x": "\\ud800"}'),
    "lone surrogate in a key": _input('{"\\udfff": 1}'),
    "lone surrogate in a field name": (TEXT[:-1] + ', "\\ud800": 1}').encode(),
    "lone surrogate in the job id": TEXT.replace('"bad"', '"\\uD800"').encode(),
    "NUL in the job id": TEXT.replace('"bad"', '"a\\u0000"').encode(),
    "NUL in the item id": TEXT.replace('"one"', '"a\\u0000"').encode(),
    "raw NUL": TEXT.replace("bad", "b\0d").encode(),
    "raw control character": TEXT.replace("bad", "b\nd").encode(),
    "unknown field": (TEXT[:-1] + ', "odd": 1}').encode(),
    "unknown field of an item": TEXT.replace('"input"', '"odd": 1, "input"').encode(),
    "10^5 unknown fields": (TEXT[:-1] + "".join(f', "k{n}": 1' for n in range(100_000)) + "}").encode(),
    "empty items": json.dumps({**GOOD, "items": []}).encode(),
    "items as an object": json.dumps({**GOOD, "items": {"a": 1}}).encode(),
    "10^4 duplicates": json.dumps({**GOOD, "items": GOOD["items"] * 10_000}).encode(),
    "10^4 wrong items": json.dumps({**GOOD, "items": [1] * 10_000}).encode(),
    "an item that is a list": json.dumps({**GOOD, "items": [[]]}).encode(),
    "zero concurrency": json.dumps(
        {**GOOD, "execution_policy": {"throttling": {"max_concurrent_workers": 0}}}
    ).encode(),
    "negative concurrency": json.dumps(
        {**GOOD, "execution_policy": {"throttling": {"max_concurrent_workers": -1}}}
    ).encode(),
    "2**63 concurrency": json.dumps(
        {**GOOD, "execution_policy": {"throttling": {"max_concurrent_workers": 2**63}}}
    ).encode(),
    "bool as int": json.dumps({**GOOD, "priority": True}).encode(),
    "int as text": json.dumps({**GOOD, "name": 5}).encode(),
    "priority 2**63": json.dumps({**GOOD, "priority": 2**63}).encode(),
}


@pytest.mark.req("Z5", "I1")
@pytest.mark.parametrize("name", BROKEN)
def test_a_bad_body_is_refused_and_leaves_nothing(shared_api: Api, loop_runner: asyncio.Runner, name: str) -> None:
    answer = loop_runner.run(shared_api.ask("POST", "/jobs", content=BROKEN[name], headers=JSON))
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert error["code"] == "validation_error"
    assert error["details"]["fields"]
    assert "surrogate" not in name or "surrogate pair" in error["message"]
    assert len(answer.content) < 200_000
    assert loop_runner.run(shared_api.ask("GET", "/jobs/bad")).status_code == 404


@pytest.mark.req("Z5")
async def test_after_all_of_that_a_good_one_is_taken(api: Api) -> None:
    for body in BROKEN.values():
        await api.client.post("/jobs", content=body, headers=JSON)
    assert (await api.data("GET", "/jobs"))["jobs"] == []
    assert (await api.ask("POST", "/jobs", json=GOOD)).status_code == 201


@pytest.mark.req("Z5")
async def test_odd_but_good_inputs_are_kept_as_they_are(api: Api) -> None:
    inputs: list[dict[str, Any]] = [
        {"x": 2**63 - 1, "y": -(2**63), "z": 2**64},
        {"x": "\0", "y": "\U0001f600 ﷽"},
        {"x": [[[[]]]], "": None},
        {"input": {"a": 1}, "item_id": "inner"},
        {"x": 0.1, "y": 1e308, "z": -0.0},
        {},
    ]
    items = [{"item_id": str(n), "input": one} for n, one in enumerate(inputs)]
    await api.data("POST", "/jobs", json={**GOOD, "items": items})
    found = (await api.data("GET", "/jobs/bad/items"))["items"]
    assert [item["input"] for item in found] == inputs


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": ""},
        {"Content-Type": "nonsense"},
        {},
        {**JSON, "Content-Encoding": "br"},
    ],
)
def test_what_does_not_say_that_it_is_json_is_refused(
    shared_api: Api, loop_runner: asyncio.Runner, headers: dict[str, str]
) -> None:
    error = loop_runner.run(shared_api.error("POST", "/jobs", content=TEXT.encode(), headers=headers))
    assert error["code"] == "validation_error"


@pytest.mark.req("Z5")
async def test_a_compressed_body_is_refused(api: Api) -> None:
    body = gzip.compress(TEXT.encode())
    for headers in ({**JSON, "Content-Encoding": "gzip"}, JSON):
        error = await api.error("POST", "/jobs", content=body, headers=headers)
        assert error["code"] == "validation_error"


@pytest.mark.req("Z5", "I5")
@pytest.mark.parametrize("told", [True, False])
async def test_a_body_beyond_the_limit_is_refused_by_its_length_and_by_what_comes(tmp_path: Path, told: bool) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 1
            yield b" " * 100_000

    async with running(tmp_path, max_body_bytes=1_000_000) as api:
        headers = {**JSON, "Content-Length": "100000000"} if told else JSON
        error = await api.error("POST", "/jobs", content=pieces(), headers=headers)
        assert error["code"] == "payload_too_large"
        assert sent <= (1 if told else 12)
        assert (await api.ask("POST", "/jobs", json=GOOD)).status_code == 201


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/jobs/bad/retry"), ("PATCH", "/jobs/bad/policy"), ("POST", "/jobs")],
)
async def test_every_endpoint_with_a_body_is_as_strict(api: Api, method: str, path: str) -> None:
    await api.data("POST", "/jobs", json=GOOD)
    names = ("nothing", "NaN", "duplicate keys", "depth 10^4 of lists", "BOM", "UTF-16", "a list", "null")
    for name in (*names, "lone surrogate in a field name"):
        answer = await api.ask(method, path, content=BROKEN[name], headers=JSON)
        assert answer.status_code == 422, (name, answer.text)


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    "query",
    ["limit=x", "limit=-1", "limit=1e3", "limit=9223372036854775808", "limit=1001", "cursor=%00", "cursor=%ff"],
)
def test_bad_queries_are_told_by_their_names(shared_api: Api, loop_runner: asyncio.Runner, query: str) -> None:
    error = loop_runner.run(shared_api.error("GET", f"/jobs?{query}"))
    assert error["code"] == "validation_error"
    assert error["details"]["fields"][0]["in"] == "query"
    assert error["details"]["fields"][0]["path"] == query.partition("=")[0]


@pytest.mark.req("Z5")
async def test_bad_cursors_of_items_are_refused(api: Api) -> None:
    await api.data("POST", "/jobs", json=GOOD)
    for cursor in ("-1", "x", "9" * 30, "1.5", ""):
        assert (await api.error("GET", f"/jobs/bad/items?cursor={cursor}"))["code"] == "validation_error"


@pytest.mark.req("Z5", "Z8")
@pytest.mark.parametrize(
    "text", ["1," * 600_000, '{"input":{}},' * 300_000, "".join(f'"k{n}":1,' for n in range(10**6))], ids=str.__len__
)
def test_a_body_of_too_many_values_is_refused_before_they_take_memory(
    shared_api: Api, loop_runner: asyncio.Runner, text: str
) -> None:
    tracemalloc.start()
    body = (TEXT[:-1] + ', "odd": [' + text[:-1] + "]}").encode()
    error = loop_runner.run(shared_api.error("POST", "/jobs", content=body, headers=JSON))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error["code"] == "payload_too_large"
    assert most < 6 * len(body)


@pytest.mark.req("Z5")
async def test_a_job_with_too_many_items_is_told_to_stream_them(api: Api) -> None:
    error = await api.error("POST", "/jobs", json={**GOOD, "items": [{"input": {}}] * 50_001})
    assert error["details"]["fields"][0]["path"] == "items"
