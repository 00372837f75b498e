import json

import pytest

from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")


async def test_a_query_is_echoed_without_a_session(client: Client) -> None:
    answer = await client.get("/echo?test_param=hello%20w%C3%B6rld&empty=&twice=1&twice=2")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == {
        "method": "GET",
        "query": {"test_param": "hello wörld", "empty": "", "twice": ["1", "2"]},
        "headers": {"host": "demo"},
    }


async def test_a_form_is_echoed(client: Client) -> None:
    echoed = json.loads((await client.post("/echo", {"a": "1", "b": "ü&="})).body)
    assert (echoed["method"], echoed["form"]) == ("POST", {"a": "1", "b": "ü&="})


async def test_json_is_echoed(client: Client) -> None:
    sent = {"item": {"deep": [1, 2.5, None, "ü"]}}
    answer = await client.ask("POST", "/echo", json.dumps(sent).encode(), "application/json")
    assert json.loads(answer.body)["json"] == sent


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"1" * 10_000])
async def test_a_body_that_is_no_json_is_a_bad_request(client: Client, body: bytes) -> None:
    assert (await client.ask("POST", "/echo", body, "application/json")).status == 400
    assert (await client.get("/echo")).status == 200


async def test_more_fields_than_anybody_needs_are_a_bad_request(client: Client) -> None:
    assert (await client.get("/echo?" + "a=1&" * 5_000)).status == 400
