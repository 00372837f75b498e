"""Items as a stream: any size, resumable, every bad line named, nothing that was stored is lost (J2)."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from swath.entrypoints.api.limits import MAX_LOADS
from swath.entrypoints.api.routes import uploads
from swath.pipeline.ingest import validate
from tests.integration.api.pages import served
from tests.integration.api.running import Api, until_ended

pytestmark = pytest.mark.req("I2", "J2")

ROWS = [{"parcel_id": f"{n:03}"} for n in range(1, 21)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "BATCH_ROWS", 3)


@pytest.fixture
async def job(api: Api) -> str:
    await api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
    return "county"


def ndjson(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def table(rows: list[dict[str, Any]]) -> bytes:
    return ("parcel_id\n" + "".join(f"{row['parcel_id']}\n" for row in rows)).encode()


async def load(api: Api, body: bytes, kind: str = "application/x-ndjson", **options: Any) -> Any:
    headers = {"Content-Type": kind, **options.pop("headers", {})}
    return await api.data("POST", "/jobs/county/items", content=body, headers=headers, **options)


async def fail(api: Api, body: bytes, kind: str = "application/x-ndjson", **options: Any) -> dict[str, Any]:
    headers = {"Content-Type": kind, **options.pop("headers", {})}
    return await api.error("POST", "/jobs/county/items", content=body, headers=headers, **options)


async def stored(api: Api) -> list[str]:
    return [record.item_id for record in await api.services.store.items("county")]


@pytest.mark.parametrize(
    ("body", "kind", "query"),
    [
        (ndjson(ROWS), "application/x-ndjson", {}),
        (ndjson(ROWS), "application/octet-stream", {}),
        (ndjson(ROWS), "text/plain", {"format": "ndjson"}),
        (table(ROWS), "text/csv", {}),
        (table(ROWS), "text/csv; charset=utf-8", {}),
        (table(ROWS), "application/x-www-form-urlencoded", {}),
        (json.dumps(ROWS).encode(), "application/json", {}),
        (gzip.compress(ndjson(ROWS)), "application/gzip", {"format": "jsonl"}),
        (gzip.compress(table(ROWS)), "text/csv", {}),
    ],
)
async def test_rows_become_items_and_the_job_starts_when_told(
    api: Api, job: str, body: bytes, kind: str, query: dict[str, str]
) -> None:
    answer = await load(api, body, kind, params=query)
    assert answer == {
        "job_id": job,
        "rows": 20,
        "added": 20,
        "duplicates": 0,
        "first_duplicates": [],
        "errors": [],
        "error_count": 0,
        "loaded_rows": 20,
    }
    assert await stored(api) == [row["parcel_id"] for row in ROWS]
    assert (await api.data("GET", f"/jobs/{job}/status"))["status"] == "loading"
    assert (await api.data("POST", f"/jobs/{job}/start"))["status"] == "pending"
    assert (await api.data("POST", f"/jobs/{job}/start"))["status"] == "pending"


async def test_gzip_may_be_said_by_content_encoding(api: Api, job: str) -> None:
    answer = await load(api, gzip.compress(ndjson(ROWS)), headers={"Content-Encoding": "gzip"})
    assert answer["added"] == 20
    assert (await fail(api, b"x", headers={"Content-Encoding": "br"}))["code"] == "validation_error"


async def test_a_streamed_job_runs_to_its_end(working_api: Api) -> None:
    await working_api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
    await load(working_api, ndjson(ROWS))
    await working_api.data("POST", "/jobs/county/start")
    assert (await until_ended(working_api, "county"))["counts"]["success"] == 20


@pytest.mark.req("K2")
async def test_bad_lines_are_named_and_the_good_ones_taken(api: Api, job: str) -> None:
    body = b'{"parcel_id": "001"}\nnonsense\n\n{"parcel_id": "2"}\n{"parcel_id": "003"}\n'
    answer = await load(api, body)
    assert (answer["rows"], answer["added"], answer["error_count"], answer["loaded_rows"]) == (4, 2, 2, 4)
    assert [error["line"] for error in answer["errors"]] == [2, 4]
    assert "parcel_id" in answer["errors"][1]["message"]
    assert await stored(api) == ["001", "003"]


async def test_of_many_bad_lines_the_first_hundred_are_told(api: Api, job: str) -> None:
    answer = await load(api, b"nonsense\n" * 250 + ndjson(ROWS))
    assert (answer["error_count"], len(answer["errors"]), answer["added"]) == (250, 100, 20)
    assert answer["errors"][99]["line"] == 100


async def test_refused_rows_leave_what_came_before_them(api: Api, job: str) -> None:
    body = ndjson(ROWS[:7]) + b"nonsense\n" + ndjson(ROWS[7:])
    error = await fail(api, body, params={"bad_rows": "refuse"})
    assert error["code"] == "validation_error"
    assert error["details"]["errors"][0]["line"] == 8
    assert error["details"]["loaded_rows"] == 6
    assert await stored(api) == [row["parcel_id"] for row in ROWS[:6]]
    assert (await load(api, ndjson(ROWS)))["loaded_rows"] == 20  # the corrected body goes on


@pytest.mark.req("J6")
async def test_duplicates_keep_the_first_or_stop_the_load(api: Api, job: str) -> None:
    body = ndjson([*ROWS[:4], ROWS[1], *ROWS[4:]])
    error = await fail(api, body, params={"duplicates": "refuse"})
    assert error["details"]["first_duplicates"] == [{"place": "line 5", "item_id": "002", "first_place": "line 2"}]
    assert error["details"]["loaded_rows"] == 6
    answer = await load(api, body)
    assert (answer["rows"], answer["added"], answer["duplicates"]) == (21, 20, 1)


async def test_the_same_body_again_changes_nothing_and_another_one_is_a_conflict(api: Api, job: str) -> None:
    first = await load(api, ndjson(ROWS))
    assert await load(api, ndjson(ROWS)) == first
    other = [*ROWS[:10], {"parcel_id": "999"}, *ROWS[11:]]
    error = await fail(api, ndjson(other))
    assert error["code"] == "conflict"
    assert "line 11" in error["message"]
    assert error["details"]["loaded_rows"] == 20
    await api.data("POST", f"/jobs/{job}/start")
    assert await load(api, ndjson(ROWS)) == first
    assert (await fail(api, ndjson([{"parcel_id": "777"}]), params={"offset": 20}))["code"] == "conflict"


async def test_loads_under_keys_of_their_own_add_to_one_job_and_may_be_repeated(api: Api, job: str) -> None:
    parts = {"a": ROWS[:8], "b": ROWS[8:15], "c": ROWS[15:]}
    for key, rows in parts.items():
        await load(api, ndjson(rows), headers={"Idempotency-Key": key})
    for key, rows in parts.items():
        again = await load(api, ndjson(rows), headers={"Idempotency-Key": key})
        assert (again["rows"], again["added"], again["loaded_rows"]) == (len(rows), len(rows), 20)
    records = await api.services.store.items("county")
    assert [(record.seq, record.item_id) for record in records] == [
        (n, row["parcel_id"]) for n, row in enumerate(ROWS, start=1)
    ]
    error = await fail(api, ndjson(ROWS[:3]), headers={"Idempotency-Key": "b"})
    assert error["code"] == "conflict"
    assert (await fail(api, b"", headers={"Idempotency-Key": "d"}, params={"offset": 3}))["code"] == "validation_error"


async def test_an_offset_goes_on_behind_what_is_loaded_and_nowhere_else(api: Api, job: str) -> None:
    await load(api, ndjson(ROWS[:7]))
    error = await fail(api, ndjson(ROWS[9:]), params={"offset": 9})
    assert (error["code"], error["details"]["loaded_rows"]) == ("conflict", 7)
    answer = await load(api, table(ROWS[7:]), "text/csv", params={"offset": 7})
    assert (answer["rows"], answer["loaded_rows"]) == (13, 20)
    assert await stored(api) == [row["parcel_id"] for row in ROWS]


async def fresh(api: Api, job_id: str, body: bytes, **query: Any) -> str:
    """The path of a job of a scraper that takes any field, with these rows."""
    await api.data("POST", "/jobs", json={"job_id": job_id, "scraper_id": "example-mock"})
    path = f"/jobs/{job_id}/items"
    await api.data("POST", path, content=body, headers={"Content-Type": "text/csv"}, params=query)
    return path


@pytest.mark.req("Z5")
@pytest.mark.parametrize("first", [b"n\n1\n2\n3\n4\n", b"n,m\n1,a\n1,a\n1,b\nragged\n", b"n\n1\n1\n1\n1\n"])
async def test_the_rest_of_a_table_without_its_header_is_refused_and_nothing_is_lost(api: Api, first: bytes) -> None:
    path = await fresh(api, "off", first)
    columns = first.partition(b"\n")[0]
    rest = b"5,x\n6,y\n" if b"," in columns else b"5\n6\n"
    options: dict[str, Any] = {"headers": {"Content-Type": "text/csv"}, "params": {"offset": 4}}
    error = await api.error("POST", path, content=rest, **options)
    assert (error["code"], error["details"]["loaded_rows"]) == ("validation_error", 4)
    assert "header" in error["message"]
    answer = await api.data("POST", path, content=columns + b"\n" + rest, **options)
    assert (answer["rows"], answer["loaded_rows"]) == (2, 6)
    assert (await api.services.store.items("off"))[-1].input["n"] == "6"


@pytest.mark.req("Z5")
async def test_the_rest_of_a_table_is_known_by_the_names_that_its_columns_are_given(api: Api) -> None:
    path = await fresh(api, "off", b"Number,Account\n1,a\n2,b\n", map="n=Number", id_column="Account")
    query = {"offset": 2, "map": "n=Number", "id_column": "Account"}
    headers = {"Content-Type": "text/csv"}
    error = await api.error("POST", path, content=b"3,c\n", params=query, headers=headers)
    assert error["code"] == "validation_error"
    await api.data("POST", path, content=b"Number,Account\n3,c\n", params=query, headers=headers)
    assert [record.item_id for record in await api.services.store.items("off")] == ["a", "b", "c"]


async def test_a_load_that_is_resumed_tells_of_all_its_items(api: Api, job: str) -> None:
    await load(api, ndjson(ROWS[:6]))
    assert (await load(api, ndjson(ROWS)))["added"] == 20


@pytest.mark.parametrize("spelled", ["keep_first", "keep-first"])
async def test_both_spellings_of_what_to_do_about_duplicates_are_taken(api: Api, job: str, spelled: str) -> None:
    answer = await load(api, ndjson([*ROWS[:3], ROWS[0]]), params={"duplicates": spelled})
    assert (answer["added"], answer["duplicates"]) == (3, 1)


@pytest.mark.req("I1")
async def test_every_refusal_says_which_field_is_meant(api: Api, job: str) -> None:
    both = await fail(api, b"", headers={"Idempotency-Key": "d"}, params={"offset": 3})
    assert [field["path"] for field in both["details"]["fields"]] == ["offset", "Idempotency-Key"]
    for error in (await fail(api, b""), await api.error("POST", f"/jobs/{job}/start")):
        assert error["details"]["fields"] == [{"path": "", "in": "body", "message": error["message"]}]


async def test_columns_may_be_renamed_and_name_the_items(api: Api, job: str) -> None:
    body = b"Parcel,Account\n001,A-1\n002,A-2\n"
    await load(api, body, "text/csv", params={"map": "parcel_id=Parcel", "id_column": "Account"})
    assert await stored(api) == ["A-1", "A-2"]
    error = await fail(api, body, "text/csv", params={"map": "parcel_id"})
    assert error["details"]["fields"][0]["path"] == "map[0]"


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b"", "text/csv", "is empty"),
        (b"parcel_id\n", "text/csv", "no rows"),
        (b"owner\nx\n", "text/csv", "lacks the column"),
        (b'{"parcel_id": "001"}\n', "multipart/form-data; boundary=x", "is not read"),
        (b'{"parcel_id": "001"}\n', "text/csv; charset=latin-1", "UTF-8"),
        ("parcel_id\n001\nMüller\n".encode("latin-1"), "text/csv", "line 3"),
        ("parcel_id\n001\n".encode("utf-16"), "text/csv", "UTF-16"),
        (b"PK\x03\x04" + b"\0" * 40, "text/csv", "zip archive"),
        (gzip.compress(table(ROWS))[:-12], "text/csv", "cut off"),
        (b'parcel_id\n"001\n' + b"002\n" * 10, "text/csv", "never closed"),
        (b'{"parcel_id": "' + b"1" * (5 << 20), "application/x-ndjson", "line of more than"),
        (gzip.compress(b" " * (64 << 20), 9), "application/x-ndjson", "line of more than"),
        (gzip.compress(b"\n" * (64 << 20), 9), "application/x-ndjson", "times its size"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_with_its_reason(
    api: Api, job: str, body: bytes, kind: str, told: str
) -> None:
    error = await fail(api, body, kind)
    assert error["code"] == "validation_error"
    assert told in error["message"]
    found = await stored(api)  # whole batches that came before, if any
    assert found == [row["parcel_id"] for row in ROWS[: error["details"].get("loaded_rows", 0)]]
    assert len(found) % 3 == 0
    assert (await load(api, ndjson(ROWS)))["added"] == 20  # the next request goes on


async def test_unknown_jobs_and_empty_ones(api: Api, job: str) -> None:
    answer = await api.error("POST", "/jobs/nobody/items", content=ndjson(ROWS))
    assert answer["code"] == "job_not_found"
    assert (await api.error("POST", f"/jobs/{job}/start"))["code"] == "validation_error"


async def test_a_job_that_is_being_loaded_cannot_be_started_nor_loaded_by_another(api: Api, job: str) -> None:
    go_on = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield ndjson(ROWS[:10])
        await go_on.wait()
        yield ndjson(ROWS[10:])

    async with served(api) as client:
        loading = asyncio.create_task(client.post("/jobs/county/items", content=slowly()))
        async with asyncio.timeout(60):
            while len(await stored(api)) < 9:
                await asyncio.sleep(0.01)
        error = await api.error("POST", f"/jobs/{job}/start")
        assert error["code"] == "conflict"
        go_on.set()
        assert (await loading).json()["data"]["loaded_rows"] == 20
    assert (await api.data("POST", f"/jobs/{job}/start"))["status"] == "pending"


async def _sending(
    client: httpx.AsyncClient, body: bytes, sent: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a body was promised, and some of it has been sent."""
    host, port = client.base_url.host, client.base_url.port
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST /jobs/county/items HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/x-ndjson\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + sent)
    await writer.drain()
    return reader, writer


@pytest.mark.req("Z1")
async def test_a_body_that_is_cut_off_leaves_whole_batches_and_goes_on_when_sent_again(api: Api, job: str) -> None:
    async with served(api) as client:
        body = ndjson(ROWS)
        reader, writer = await _sending(client, body, body[: len(body) // 2 + 3])
        async with asyncio.timeout(60):
            while len(await stored(api)) < 9:
                await asyncio.sleep(0.01)
        writer.close()
        await writer.wait_closed()
        answer = await client.post("/jobs/county/items", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert answer.json()["data"]["loaded_rows"] == 20
        assert await reader.read() is not None
    assert await stored(api) == [row["parcel_id"] for row in ROWS]


async def test_a_refusal_reaches_a_sender_that_has_much_more_to_say(api: Api, job: str) -> None:
    def endlessly() -> Iterator[bytes]:
        for _ in range(2_000):
            yield b"nonsense\n" * 1_000

    async with served(api) as client:
        answer = await asyncio.to_thread(
            lambda: httpx.post(
                f"{client.base_url}/jobs/county/items?bad_rows=refuse",
                content=endlessly(),
                headers={"Content-Type": "application/x-ndjson"},
                timeout=20,
            )
        )
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["errors"][0]["line"] == 1


async def test_a_sender_is_held_up_while_the_store_is_slow(api: Api, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory: what cannot be stored yet stays with whoever sends it."""
    monkeypatch.setattr(validate, "BATCH_ROWS", 1_000)
    store, may_go_on = api.services.store, asyncio.Event()
    whole = type(store).load

    async def slow(self: Any, job_id: str, batch: Any) -> Any:
        await may_go_on.wait()
        return await whole(self, job_id, batch)

    monkeypatch.setattr(type(store), "load", slow)
    line = json.dumps({"parcel_id": "001", "note": "x" * 1_000}).encode() + b"\n"
    sent = 0
    async with served(api) as client:
        host, port = client.base_url.host, client.base_url.port
        raw = socket.create_connection((host, port))
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        head = f"POST /jobs/county/items HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/x-ndjson\r\n"
        await loop.sock_sendall(raw, f"{head}Content-Length: {len(line) * 64_000}\r\n\r\n".encode())
        try:
            while sent < 64_000:
                await asyncio.wait_for(loop.sock_sendall(raw, line * 100), 1.0)
                sent += 100
        except TimeoutError:
            pass
        assert sent < 40_000  # of 64 MB; the rest is what sockets, queues and three batches hold
        raw.close()
        may_go_on.set()


async def test_a_sender_that_falls_silent_is_let_go(api: Api, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.3)

    async with served(api) as client:
        reader, writer = await _sending(client, ndjson(ROWS), ndjson(ROWS[:10]))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 422 " in head
    error = json.loads(body)["error"]
    assert "nothing came" in error["message"]
    assert error["details"]["loaded_rows"] == 9
    assert (await load(api, ndjson(ROWS)))["loaded_rows"] == 20


async def test_only_a_few_loads_are_read_at_once(api: Api) -> None:
    """Each holds some batches in memory."""
    go_on = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield ndjson(ROWS[:10])
        await go_on.wait()
        yield ndjson(ROWS[10:])

    for n in range(6):
        await api.data("POST", "/jobs", json={"job_id": f"j{n}", "scraper_id": "typed"})
    async with served(api) as client:
        loads = [asyncio.create_task(client.post(f"/jobs/j{n}/items", content=slowly())) for n in range(6)]
        async with asyncio.timeout(60):
            while sum(begun := [bool(await api.services.store.items(f"j{n}")) for n in range(6)]) < MAX_LOADS:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.5)  # in which the others would begin
        begun = [bool(await api.services.store.items(f"j{n}")) for n in range(6)]
        go_on.set()
        answers = await asyncio.gather(*loads)
    assert sum(begun) == MAX_LOADS
    assert [answer.json()["data"]["loaded_rows"] for answer in answers] == [20] * 6
