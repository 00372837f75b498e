"""The controller as people start it: `swath serve`, asked over real sockets."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from swath.entrypoints.cli.runtime import SAME_SIGNAL_SECONDS
from tests.integration.api.serving import Place, free_port
from tests.support.bounds import HANGING_SECONDS
from tests.support.freezing import frozen_in
from tests.unit.integrations.webhooks.receiver import receiving, saying

if TYPE_CHECKING:
    import httpx

SLOW = """
import asyncio
from swath import HttpScraper, Input, Page, WebPage, scraper

class In(Input):
    seconds: float = 0.0

@scraper("slow", version="1")
class Slow(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        await asyncio.sleep(item.seconds)
        return WebPage(Page(name="html", url="mock:slow", status=200, body=b"<h1>ok</h1>"))
"""
REACHES = """
from swath import HttpScraper, Input, scraper

class In(Input):
    url: str

@scraper("reaches", version="1")
class Reaches(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        return await web.get(item.url)
"""
ECHO: dict[str, Any] = {
    "job_id": "test-001",
    "scraper_id": "example-http",
    "items": [
        {"item_id": "item-1", "input": {"test_param": "hello"}},
        {"item_id": "item-2", "input": {"test_param": "world"}},
    ],
}
CIRCUIT: dict[str, Any] = {
    "job_id": "circuit-test",
    "scraper_id": "example-fail",
    "execution_policy": {
        "throttling": {"max_concurrent_workers": 3},
        "circuit_breaker": {"min_requests": 5, "failure_threshold_percentage": 0.8},
        "retries": {"max_retries": 1},
    },
    "items": [{"item_id": f"item-{n:02}", "input": {"test": "value"}} for n in range(1, 11)],
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "scrapers").mkdir()
    (tmp_path / "scrapers" / "slow.py").write_text(SLOW)
    (tmp_path / "scrapers" / "reaches.py").write_text(REACHES)
    made = Place(tmp_path)
    made.environment["SWATH_SCRAPERS"] = str(tmp_path / "scrapers")
    return made


@pytest.mark.req("I2", "K5")
async def test_the_two_bodies_of_the_appendix_work_on_a_fresh_machine(place: Place) -> None:
    async with place.serving() as served:
        await served.ask("POST", "/jobs", json=ECHO)
        await served.ask("POST", "/jobs", json=CIRCUIT)
        status = await served.until("test-001", "completed")
        assert (status["counts"]["success"], status["counts"]["total"]) == (2, 2)
        answer = await served.client.get("/jobs/test-001/items/item-2/download", params={"artifact": "data"})
        assert json.loads(answer.content)["echo"] == {"test_param": "world"}
        failed = await served.until("circuit-test", "failed")
        assert failed["circuit"]["state"] == "open"
        assert failed["counts"]["failed"] + failed["counts"]["cancelled"] == 10
        assert failed["counts"]["cancelled"] >= 1
        assert await served.stopped() == 0


@pytest.mark.req("I5")
async def test_without_a_key_it_serves_this_machine_only_and_says_so(place: Place) -> None:
    process = await place.start("serve", "--port", "0", "--host", "0.0.0.0", "--no-worker")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        assert "http://127.0.0.1:" in line
        port = int(line.partition("127.0.0.1:")[2].split(";")[0])
        assert b"there is no service key" in await process.stderr.readline()
        listeners = Path("/proc/net/tcp").read_text().splitlines()[1:]
        bound = [row.split()[1] for row in listeners if row.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in bound
        assert f"00000000:{port:04X}" not in bound
    finally:
        process.kill()
        await process.wait()


@pytest.mark.req("I5", "Z5")
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
async def test_when_the_last_key_is_revoked_nobody_is_let_in_and_both_commands_say_so(place: Place, host: str) -> None:
    _, out, _ = await place.run("keys", "create", "only")
    code, _, err = await place.run("keys", "revoke", out.split("_")[1])
    assert code == 0
    assert "nobody is let in" in err
    assert "keys create NAME" in err
    async with place.serving("--host", host, "--no-worker") as served:
        assert served.url.startswith("http://127.0.0.1:")
        assert served.process.stderr is not None
        assert b"nobody is let in" in await served.process.stderr.readline()
        assert (await served.client.get("/jobs")).status_code == 401


@pytest.mark.req("I5", "Z7")
async def test_keys_are_made_shown_once_and_revoked(place: Place) -> None:
    code, out, err = await place.run("keys", "create", "reporter", "--scope", "read", "--expires", "90d")
    key = out.strip()
    assert (code, out.count("\n")) == (0, 1), err
    assert key.startswith("sk_")
    assert "read" in err
    assert "not shown again" in err
    async with place.serving("--host", "0.0.0.0", "--no-worker") as served:
        assert (await served.client.get("/jobs")).status_code == 401
        headers = {"X-Service-Key": key}
        assert (await served.client.get("/jobs", headers=headers)).status_code == 200
        assert (await served.client.post("/jobs", headers=headers, json=ECHO)).status_code == 403
        code, listed, _ = await place.run("keys", "list", "--json")
        (entry,) = json.loads(listed)
        assert (code, entry["name"], entry["scopes"], entry["alive"]) == (0, "reporter", ["read"], True)
        assert key[-20:] not in listed
        assert "digest" not in entry
        code, _, err = await place.run("keys", "revoke", entry["key_id"])
        assert code == 0, err
        async with asyncio.timeout(60):
            while (await served.client.get("/jobs", headers=headers)).status_code != 401:
                await asyncio.sleep(0.1)
    stored = b"".join(path.read_bytes() for path in (place.folder / "data").rglob("*") if path.is_file())
    assert key[-20:].encode() not in stored


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["keys", "create", "x", "--expires", "soon"], "90d"),
        (["keys", "create", "\x07"], "printable"),
        (["serve", "--host", "no such host"], "--host"),
    ],
)
async def test_mistakes_are_one_line(place: Place, arguments: list[str], told: str) -> None:
    code, _, err = await place.run(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    assert told in err


@pytest.mark.req("C2", "I5")
async def test_an_unknown_key_is_a_name_that_is_not_there(place: Place) -> None:
    code, _, err = await place.run("keys", "revoke", "0123456789ab")
    assert code == 7, err


async def test_a_port_that_is_taken_is_one_line(place: Place) -> None:
    async with place.serving("--no-worker") as served:
        port = served.url.rpartition(":")[2]
        code, _, err = await place.run("serve", "--port", port)
        assert (code, err.count("\n")) == (2, 1), err
        assert port in err
        assert "--port" in err


@pytest.mark.req("I2")
async def test_a_stranger_at_the_port_of_the_echo_is_told_and_another_controller_is_not(place: Place) -> None:
    async with (
        receiving(saying(404)) as stranger,
        place.serving("--no-worker", SWATH_DEMO_URL=f"http://{stranger.address}") as served,
    ):
        assert await served.stopped() == 0
        assert served.process.stderr is not None
        said = (await served.process.stderr.read()).decode()
    assert f"WARNING swath.api: nobody serves the echo that example-http needs, at http://{stranger.address}" in said
    async with place.serving("--no-worker"), place.serving("--no-worker", SWATH_DATA=str(place.folder / "b")) as second:
        assert await second.stopped() == 0
        assert second.process.stderr is not None
        assert b"WARNING" not in await second.process.stderr.read()


@pytest.mark.req("W2", "I2")
async def test_it_drains_when_told_to_stop(place: Place) -> None:
    """Requests are answered, event streams end, items finish, what has not begun goes back."""
    async with place.serving() as served:
        items = [{"item_id": str(n), "input": {"seconds": 1.0}} for n in range(60)]
        body = {"job_id": "slow", "scraper_id": "slow", "items": items}
        await served.ask(
            "POST", "/jobs", json=body | {"execution_policy": {"throttling": {"max_concurrent_workers": 2}}}
        )
        begun = asyncio.Event()
        streams = asyncio.create_task(_read_events(served.client, "/jobs/slow/events", begun))
        sync = asyncio.create_task(
            served.client.post(
                "/api/v1/scrape/sync",
                json={"target_type": "reaches", "target_url": "http://127.0.0.1:9/", "timeout_seconds": 20},
            )
        )
        async with asyncio.timeout(HANGING_SECONDS):
            await begun.wait()
            while len((await served.ask("GET", "/jobs?on_demand=true"))["jobs"]) < 2:
                await asyncio.sleep(0.02)
            while (known := (await served.ask("GET", "/jobs/slow/status"))["counts"])["success"] < 2:
                await asyncio.sleep(0.02)
        assert await served.stopped() == 0
        assert b"event: status" in await streams
        assert (await sync).status_code < 600
    code, out, err = await place.run("jobs", "status", "slow", "--json")
    assert code == 0, err
    counts = json.loads(out)["counts"]
    assert counts["success"] > known["success"], "its place was taken at once, and what took it was finished"
    assert counts["pending"] > 0
    assert (counts["in_progress"], counts["queued"], counts["failed"]) == (0, 0, 0)


async def _read_events(client: httpx.AsyncClient, path: str, begun: asyncio.Event) -> bytes:
    seen = b""
    async with client.stream("GET", path, timeout=HANGING_SECONDS) as answer:
        async for chunk in answer.aiter_bytes():
            seen += chunk
            begun.set()
    return seen


@pytest.mark.req("W2", "Z5")
async def test_a_request_that_does_not_end_is_broken_off_with_an_answer(place: Place) -> None:
    async with place.serving("--no-worker", SWATH_GRACE_SECONDS="1") as served:
        await served.ask("POST", "/jobs", json={"job_id": "big", "scraper_id": "example-mock"})
        host, _, port = served.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = "POST /jobs/big/items HTTP/1.1\r\nHost: here.localhost\r\nContent-Type: application/x-ndjson\r\n"
        writer.write(f'{head}Transfer-Encoding: chunked\r\n\r\n8\r\n{{"n":1}}\n\r\n'.encode())
        await asyncio.sleep(0.5)
        assert await served.stopped() == 0
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"request_id"' in answer
        assert served.process.stderr is not None
        assert b"Traceback" not in await served.process.stderr.read()


@pytest.mark.req("W2")
async def test_a_second_signal_leaves_at_once(place: Place) -> None:
    async with place.serving() as served:
        body = {"job_id": "slow", "scraper_id": "slow", "items": [{"item_id": "1", "input": {"seconds": 30}}]}
        await served.ask("POST", "/jobs", json=body)
        await served.until("slow", "running")
        served.process.send_signal(signal.SIGINT)
        assert served.process.stderr is not None
        async with asyncio.timeout(HANGING_SECONDS):
            while b"swath: " not in await served.process.stderr.readline():  # it has heard the first
                pass
        await asyncio.sleep(2 * SAME_SIGNAL_SECONDS)
        assert served.process.returncode is None
        assert await served.stopped(signal.SIGINT) == 130


@pytest.mark.req("W1", "J5")
async def test_without_a_worker_jobs_wait_but_can_be_ended(place: Place) -> None:
    async with place.serving("--no-worker") as served:
        await served.ask("POST", "/jobs", json=ECHO)
        await served.ask("POST", "/jobs", json=ECHO | {"job_id": "other"})
        await served.ask("POST", "/jobs/other/cancel")
        assert (await served.until("other", "cancelled"))["counts"]["cancelled"] == 2
        assert (await served.ask("GET", "/jobs/test-001/status"))["counts"]["pending"] == 2
        worker = await place.start("worker")
        try:
            assert (await served.until("test-001", "completed"))["counts"]["success"] == 2
        finally:
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(worker.wait(), 60) == 0
        assert await served.stopped() == 0


@pytest.mark.req("W4")
async def test_workers_may_have_processes_of_their_own(place: Place) -> None:
    async with place.serving("--workers", "2") as served:
        await served.ask("POST", "/jobs", json=ECHO)
        await served.until("test-001", "completed")
        health = await served.ask("GET", "/health")
        assert health["workers"]["embedded"] is False
        assert await served.stopped() == 0


@pytest.mark.req("Z4")
@pytest.mark.parametrize("apart", [False, True])
async def test_nothing_scraped_reaches_the_api(place: Place, apart: bool) -> None:
    """Even where the operator has allowed the address, and in a worker that was there before."""
    port = free_port()
    place.environment["SWATH_ALLOW_PRIVATE"] = f"127.0.0.1:{port} localhost:{port}"
    worker = await place.start("worker") if apart else None
    try:
        async with place.serving("--port", str(port), *(["--no-worker"] if apart else [])) as served:
            urls = [f"http://127.0.0.1:{port}/health", f"http://localhost:{port}/health"]
            items = [{"item_id": str(n), "input": {"url": url}} for n, url in enumerate(urls)]
            await served.ask("POST", "/jobs", json={"job_id": "in", "scraper_id": "reaches", "items": items})
            status = await served.until("in", "failed", "completed", "partially_completed")
            assert status["failures"] == {"egress_denied": 2}
    finally:
        if worker is not None:
            worker.kill()
            await worker.wait()


@pytest.mark.req("N1")
async def test_the_end_of_a_job_is_told_and_can_be_told_again(place: Place) -> None:
    async with receiving(saying(500), saying(200)) as receiver:
        place.environment |= {
            "SWATH_ALLOW_PRIVATE": receiver.address,
            "SWATH_WEBHOOK_RETRY_SECONDS": "0.1",
        }
        place.environment["SWATH_WEBHOOK_SECRET"] = "a-secret-of-more-than-enough-bytes"
        async with place.serving() as served:
            await served.ask("POST", "/jobs", json=ECHO | {"callback_url": receiver.url})
            first, second = await receiver.until(2)
            assert first.headers["webhook-id"] == second.headers["webhook-id"]
            assert [result["data"]["echo"]["test_param"] for result in second.told["results"]] == ["hello", "world"]
            (entry,) = await _log(served.client, "delivered")
            assert [delivery["status"] for delivery in entry["deliveries"]] == [500, 200]
            again = await served.client.post("/jobs/test-001/webhooks/resend")
            assert again.status_code == 202
            third = (await receiver.until(3))[2]
            assert third.headers["webhook-id"] == first.headers["webhook-id"]
            assert (await served.client.post("/jobs/none/webhooks/resend")).status_code == 404
            code, out, err = await place.run("jobs", "webhooks", "test-001", "--resend")
            assert code == 0, err
            assert "was delivered" in out
            assert len(receiver.received) == 4


async def _log(client: httpx.AsyncClient, state: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            found: list[dict[str, Any]] = (await client.get("/jobs/test-001/webhooks")).json()["data"]
            if found and found[-1]["state"] == state:
                return found
            await asyncio.sleep(0.02)


@pytest.mark.req("N1", "C1")
async def test_run_makes_the_first_try_by_itself(place: Place) -> None:
    async with receiving(saying(503)) as receiver:
        place.environment["SWATH_ALLOW_PRIVATE"] = receiver.address
        (place.folder / "items.csv").write_text("n\n1\n2\n")
        words = ("run", "example-mock", "--items", "items.csv", "--job-id", "mine", "--callback-url", receiver.url)
        code, _, err = await place.run(*words, "--quiet")
        assert code == 0, err
        assert len(receiver.received) == 1
        assert "was not taken: it was answered 503" in err
        code, out, _ = await place.run("jobs", "webhooks", "mine", "--json")
        assert [one["status"] for one in json.loads(out)[0]["deliveries"]] == [503]
        code, _, err = await place.run(*words[:-1], "ftp://x.example/")
        assert (code, err.count("\n")) == (2, 1)


@pytest.mark.req("N1", "J5")
async def test_whoever_cancels_a_job_makes_the_first_try(place: Place) -> None:
    """Property 43: there may be no worker to do it."""
    async with receiving() as receiver:
        place.environment |= {"SWATH_ALLOW_PRIVATE": receiver.address, "SWATH_WEBHOOK_URL": receiver.url}
        (place.folder / "items.csv").write_text("n\n1\n2\n")
        code, _, err = await place.run("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "mine")
        assert code == 0, err
        code, _, err = await place.run("jobs", "cancel", "mine")
        assert code == 0, err
        assert [came.told["status"] for came in receiver.received] == ["cancelled"]
        code, out, _ = await place.run("jobs", "webhooks", "mine")
        assert (code, "delivered" in out, "t0ken" in out) == (0, True, False)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock")
@pytest.mark.req("Z9", "Z10", "I4")
async def test_orders_at_a_store_that_a_frozen_process_holds_are_refused_after_one_wait_and_name_it(
    place: Place,
) -> None:
    """One wait after the other would take minutes: the orders, and what the worker of the controller writes."""
    async with place.serving() as served:
        with frozen_in(place.folder / "data") as frozen:
            orders = [{**ECHO, "job_id": f"order-{n}"} for n in range(32)]
            async with asyncio.timeout(HANGING_SECONDS):
                answers = await asyncio.gather(*(served.client.post("/jobs", json=order) for order in orders))
            assert {answer.status_code for answer in answers} == {503}
            for answer in answers:
                error = answer.json()["error"]
                assert (error["code"], error["details"]) == ("store_unavailable", {"waiting_for": "store"})
                assert f"locked by pid {frozen.pid} " in error["message"]
                assert "stopped (T)" in error["message"]
                assert str(place.folder) not in answer.text
                assert int(answer.headers["retry-after"]) > 0
        assert (await served.client.post("/jobs", json=orders[0])).is_success
        await served.until("order-0", "completed")
