"""The OpenAPI document is true: whatever it allows is answered as it says, and never with a 5xx."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from harness.api_fuzz.hooks import no_surprise
from swath.entrypoints.api.app import ROUTERS, make_app
from swath.entrypoints.api.routing import ApiRoute
from swath.entrypoints.api.server import ApiServer, bind_socket, url_of_socket
from tests.integration.api.running import Api, running

STREAMS = ("/events", "/jobs/{job_id}/events")  # they do not end
KEYLESS = ("/health", "/readiness")
CHECKS = [no_surprise, status_code_conformance, content_type_conformance, response_schema_conformance]


async def _document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = (await api.client.get("/openapi.json")).json()
    return found


@pytest.mark.req("I1", "I5")
async def test_names_are_such_that_tools_accept_them(api: Api) -> None:
    """Spectral and Redocly refuse documents without these."""
    document = await _document(api)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for kind in document["components"].values() for name in kind)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert all("security" in operation for operation in operations)
    assert {tag for operation in operations for tag in operation["tags"]} == {tag["name"] for tag in document["tags"]}
    assert document["servers"]
    assert document["info"]["license"]["identifier"] == "Apache-2.0"


@pytest.mark.req("I1")
async def test_no_schema_is_one_that_generators_of_clients_fail_at(api: Api) -> None:
    """OpenAPI Generator stops at the type null, and its Python client refuses a boolean that is constant. The client of
    openapi-python-client fails when it is called where the first type of a file is a text, or one of several bodies an
    array."""
    document = await _document(api)
    for schema in _schemas(document):
        assert schema.get("type") != "null"
        assert not isinstance(schema.get("const"), bool)
    for path in document["paths"].values():
        for operation in path.values():
            bodies = list(operation.get("requestBody", {}).get("content", {}).values())
            assert len(bodies) < 2 or all(body["schema"]["type"] == "string" for body in bodies)
            for answer in operation["responses"].values():
                kinds = [kind for kind, one in answer.get("content", {}).items() if _is_binary(one)]
                assert not kinds or kinds[0] == "application/octet-stream"


def _schemas(found: Any) -> Iterator[dict[str, Any]]:
    """All schemas but what is said beside null, which every generator knows."""
    if isinstance(found, dict):
        yield found
        for name, inner in found.items():
            yield from _schemas([one for one in inner if one != {"type": "null"}] if name == "anyOf" else inner)
    elif isinstance(found, list):
        for inner in found:
            yield from _schemas(inner)


def _is_binary(content: dict[str, Any]) -> bool:
    return bool(content.get("schema", {}).get("format") == "binary")


@pytest.mark.req("I1")
async def test_an_example_has_every_field_that_its_schema_wants(api: Api) -> None:
    schemas = (await _document(api))["components"]["schemas"]
    for name, schema in schemas.items():
        for example in schema.get("examples", ()):
            assert set(schema.get("required", ())) <= set(example), name


@pytest.mark.req("I1", "I2", "I3", "I4")
async def test_all_endpoints_are_there(api: Api) -> None:
    paths = (await _document(api))["paths"]
    expected = {
        "/jobs": {"get", "post"},
        "/jobs/{job_id}": {"get", "delete"},
        "/jobs/{job_id}/status": {"get"},
        "/jobs/{job_id}/items": {"get", "post"},
        "/jobs/{job_id}/items/{item_id}": {"get"},
        **{f"/jobs/{{job_id}}/{verb}": {"post"} for verb in ("start", "pause", "resume", "cancel", "retry")},
        "/jobs/{job_id}/policy": {"patch"},
        "/jobs/{job_id}/results": {"get"},
        "/jobs/{job_id}/export": {"get"},
        "/jobs/{job_id}/items/{item_id}/download": {"get"},
        "/jobs/{job_id}/events": {"get"},
        "/events": {"get"},
        "/jobs/{job_id}/webhooks": {"get"},
        "/jobs/{job_id}/webhooks/resend": {"post"},
        "/scrapers": {"get"},
        "/api/v1/scrape": {"post"},
        "/api/v1/scrape/sync": {"post"},
        "/api/v1/scrape/batch": {"post"},
        "/api/v1/scrape/{task_id}": {"get"},
        "/api/v1/scrape/jobs/{job_id}": {"get"},
        "/api/v1/scrape/jobs/{job_id}/results": {"get"},
        "/api/v1/scrape/jobs/{job_id}/cancel": {"post"},
        "/health": {"get"},
        "/readiness": {"get"},
        "/metrics": {"get"},
    }
    assert {path: methods for path, methods in expected.items() if methods <= set(paths.get(path, ()))} == expected


@pytest.mark.req("I1")
async def test_every_body_and_every_error_has_an_example(api: Api) -> None:
    document = await _document(api)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json", {})
                if int(status) >= 400:
                    assert content.get("examples"), (method, path, status)
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = json.dumps(content["schema"])
                models = [document["components"]["schemas"][name] for name in re.findall(r"schemas/(\w+)", schema)]
                shown = [content, content["schema"], *models]
                assert any({"example", "examples"} & set(one) for one in shown), (method, path)


@pytest.mark.req("I5", "I1")
async def test_every_endpoint_that_needs_a_key_asks_for_it_before_the_body(api: Api) -> None:
    routes = [route for module in ROUTERS for route in module.router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} >= set((await _document(api))["paths"])
    assert {route.path for route in routes if not isinstance(route, ApiRoute)} == set(KEYLESS)


async def test_no_page_loads_anything_from_elsewhere(api: Api) -> None:
    for path in ("/docs", "/redoc"):
        assert (await api.ask("GET", path)).status_code == 404


@pytest.fixture(scope="module")
def served_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API on a socket, in a thread with a loop of its own, with a few jobs to find."""
    folder, ready, stop = tmp_path_factory.mktemp("served"), threading.Event(), threading.Event()
    found: list[str] = []
    thread = threading.Thread(target=lambda: asyncio.run(_serve(folder, found, ready, stop)))
    thread.start()
    assert ready.wait(30)
    yield found[0]
    stop.set()
    thread.join(30)


async def _serve(folder: Path, found: list[str], ready: threading.Event, stop: threading.Event) -> None:
    async with running(folder, work=True) as api:
        for job_id, scraper_id in (("a", "example-mock"), ("b", "example-fail"), ("typed/1", "typed")):
            rows = [{"item_id": "i", "input": {"parcel_id": "001"}}]
            await api.data("POST", "/jobs", json={"job_id": job_id, "scraper_id": scraper_id, "items": rows})
        await api.data("POST", "/jobs", json={"job_id": "open", "scraper_id": "typed"})
        bound = bind_socket("127.0.0.1", 0)
        listener = ApiServer(make_app(api.controller), bound, 1.0)
        await listener.start()
        found.append(url_of_socket(bound))
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.05)
        listener.stop()
        await listener.ended()


@pytest.mark.req("I1", "Z5")
@pytest.mark.timeout(300)
# Hypothesis thinks that the strategies use `random`: it is the worker, in the thread beside them.
@pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")
def test_schemathesis_finds_nothing(served_url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{served_url}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok() if isinstance(found, Ok) else pytest.fail(str(found))
        if operation.path not in STREAMS and operation.path != "/api/v1/scrape/sync":
            _fuzz(operation)


def _fuzz(operation: Any) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    ask()
