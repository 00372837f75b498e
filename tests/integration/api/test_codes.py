"""I1, I5: each endpoint answers with each error code that the OpenAPI document gives it, and no other. CASES and the
tests of what any endpoint may answer provoke every pair of endpoint and code; the table is compared with the document.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import httpx
import msgspec
import pytest

from swath.bootstrap.browsers import LazyBrowsers
from swath.domain.errors import Failed, StoreUnavailable
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret
from swath.domain.service_key import Scope
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.auth import Authenticator
from swath.entrypoints.api.errors import ErrorCode
from tests.integration.api.pages import with_pages
from tests.integration.api.running import HERE, Api, check_envelope, codes_of, until_ended
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("I1", "I5")

SCRAPE: Final = "/api/v1/scrape"
KEYLESS: Final = ("get /health", "get /readiness")
UNKNOWN: Final = "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01"
WISH: Final = {"target_type": "page", "target_url": "https://shop.example/one"}
ITEM: Final = {"item_id": "i", "input": {"a": "1"}}
BODIES: Final[dict[str, Any]] = {
    "post /jobs": {"job_id": "new", "scraper_id": "example-mock", "items": [ITEM]},
    "post /jobs/{job_id}/retry": {"failed": True},
    "patch /jobs/{job_id}/policy": {"keep": "data"},
    "post /jobs/{job_id}/items": [ITEM],
    "post /jobs/{job_id}/reextract": {"scraper_id": "example-mock"},
    "post /jobs/{job_id}/versions/current": {"version": 1},
    "post /jobs/{job_id}/webhooks/resend": {},
    f"post {SCRAPE}": WISH,
    f"post {SCRAPE}/sync": WISH,
    f"post {SCRAPE}/batch": {"targets": [WISH]},
}
QUERIES: Final[dict[str, dict[str, str]]] = {
    "get /jobs/{job_id}/export": {"format": "jsonl"},
    "get /jobs/{job_id}/compare": {"against": "done"},
}
# No endpoint looks up credentials yet; the others are of addresses and methods that none has.
UNUSED: Final = {"credential_not_found", "not_found", "method_not_allowed"}


class Case(NamedTuple):
    """One request that is answered with that code. `change` replaces parts of a request that would do."""

    operation: str
    code: ErrorCode
    job: str = "done"
    item: str = "i"
    change: Mapping[str, Any] = MappingProxyType({})


C = ErrorCode
ON_DEMAND: Final = (f"post {SCRAPE}", f"post {SCRAPE}/sync", f"post {SCRAPE}/batch")
ON_DEMAND_REFUSALS: Final = {C.QUEUE_FULL, C.CIRCUIT_OPEN, C.NO_HEALTHY_PROXIES, C.POOL_EXHAUSTED}
ANYWHERE: Final = {
    C.AUTHENTICATION_ERROR,
    C.FORBIDDEN,
    C.PAYLOAD_TOO_LARGE,
    C.VALIDATION_ERROR,
    C.RATE_LIMITED,
    C.STORE_UNAVAILABLE,
    C.INTERNAL_ERROR,
}
CANCEL: Final = f"post {SCRAPE}/jobs/{{job_id}}/cancel"
DOWNLOAD: Final = "get /jobs/{job_id}/items/{item_id}/download"
NO_SCRAPER: Final = {"json": {**WISH, "target_type": "nobody"}}

CASES: Final = [
    Case("post /jobs", C.CONFLICT, change={"json": {**BODIES["post /jobs"], "job_id": "done", "priority": 9}}),
    Case("post /jobs", C.SCRAPER_NOT_FOUND, change={"json": {"scraper_id": "nobody"}}),
    Case("delete /jobs/{job_id}", C.CONFLICT, "held"),
    Case("post /jobs/{job_id}/start", C.CONFLICT, "gone"),
    Case("post /jobs/{job_id}/start", C.SCRAPER_NOT_FOUND, "orphan"),
    Case("post /jobs/{job_id}/pause", C.CONFLICT),
    Case("post /jobs/{job_id}/resume", C.CONFLICT),
    Case("post /jobs/{job_id}/cancel", C.CONFLICT, "gone"),
    Case("post /jobs/{job_id}/retry", C.CONFLICT, "held"),
    Case("patch /jobs/{job_id}/policy", C.CONFLICT, "gone"),
    Case("post /jobs/{job_id}/items", C.CONFLICT, change={"json": [{"item_id": "other", "input": {"a": "2"}}]}),
    Case("post /jobs/{job_id}/items", C.SCRAPER_NOT_FOUND, "orphan"),
    Case("get /jobs/{job_id}/items/{item_id}", C.ITEM_NOT_FOUND, item="nobody"),
    Case("get /jobs/{job_id}/results", C.RESULTS_NOT_READY, "held"),
    Case("get /jobs/{job_id}/results", C.CONFLICT, "gone"),
    Case(DOWNLOAD, C.ITEM_NOT_FOUND, item="nobody"),
    Case(DOWNLOAD, C.ARTIFACT_NOT_FOUND, change={"params": {"artifact": "nothing"}}),
    Case(
        DOWNLOAD,
        C.RANGE_NOT_SATISFIABLE,
        change={"params": {"artifact": "html"}, "headers": {"Range": "bytes=9999999-"}},
    ),
    Case("get /jobs/{job_id}/export", C.RESULTS_NOT_READY, "held"),
    Case("get /jobs/{job_id}/export", C.CONFLICT, "gone"),
    Case("get /jobs/{job_id}/compare", C.CONFLICT, "gone"),
    Case("post /jobs/{job_id}/reextract", C.CONFLICT, "held"),
    Case("post /jobs/{job_id}/reextract", C.SCRAPER_NOT_FOUND, change={"json": {"scraper_id": "nobody"}}),
    Case("post /jobs/{job_id}/versions/current", C.CONFLICT, "gone"),
    Case("post /jobs/{job_id}/webhooks/resend", C.CONFLICT),
    Case(ON_DEMAND[0], C.SCRAPER_NOT_FOUND, change=NO_SCRAPER),
    Case(ON_DEMAND[1], C.SCRAPER_NOT_FOUND, change=NO_SCRAPER),
    Case(ON_DEMAND[2], C.SCRAPER_NOT_FOUND, change={"json": {"targets": [NO_SCRAPER["json"]]}}),
    Case(ON_DEMAND[1], C.TASK_TIMEOUT, change={"json": {**WISH, "timeout_seconds": 0.1, "options": {"gate": "/no"}}}),
    Case(ON_DEMAND[2], C.BATCH_TOO_LARGE, change={"json": {"targets": [WISH] * 101}}),
    Case(f"get {SCRAPE}/{{task_id}}", C.TASK_NOT_FOUND),
    Case(CANCEL, C.CONFLICT, "gone on demand"),
]


def _request(operation: str, job: str = "done", item: str = "i", **change: Any) -> dict[str, Any]:
    """A request of an operation that would do, but for what is changed."""
    method, _, path = operation.partition(" ")
    if path.startswith(SCRAPE) and job in ("done", "nobody"):
        job = UNKNOWN  # jobs of scrapes on demand are called by UUIDs
    ids = {"job_id": job, "item_id": item, "task_id": UNKNOWN}
    found: dict[str, Any] = {"method": method.upper(), "path": path.format(**ids)}
    for name, table in (("json", BODIES), ("params", QUERIES)):
        if operation in table:
            found[name] = table[operation]
    return {**found, **change}


ORPHAN: Final = """
from swath import HttpScraper, scraper


@scraper("orphan", version="1")
class Orphan(HttpScraper):
    async def fetch(self, item, web): ...
"""

SEEN: Final = """
from swath import BrowserScraper, Input, scraper


class Address(Input):
    url: str


@scraper("seen", version="1")
class Seen(BrowserScraper):
    Input = Address

    async def fetch(self, item, browser): ...
"""


class Stage(NamedTuple):
    """The API, and the jobs of on-demand scrapes that a name in CASES stands for."""

    api: Api
    jobs: dict[str, str]

    async def code(self, case: Case) -> str:
        """What the request of a case is answered with."""
        job = self.jobs.get(case.job, case.job)
        return await _code(self.api.client, _request(case.operation, job, case.item, **case.change))


async def _code(client: httpx.AsyncClient, request: dict[str, Any]) -> str:
    answer = await client.request(request.pop("method"), request.pop("path"), **request)
    if answer.is_success:
        return f"success {answer.status_code}"
    check_envelope(answer)
    found: str = answer.json()["error"]["code"]
    return found


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Jobs in all states that matter: done, held (nobody runs it), gone (on its way out), orphan (no scraper)."""
    async with with_pages(tmp_path, work=True) as api:
        (tmp_path / "scrapers/orphan.py").write_text(ORPHAN)
        jobs = [{"job_id": name, "scraper_id": "example-mock", "items": [ITEM]} for name in ("done", "gone")]
        for job in (*jobs, {"job_id": "orphan", "scraper_id": "orphan"}):
            await api.data("POST", "/jobs", json=job)
        await api.data("POST", "/jobs/orphan/items", json=[ITEM])
        task = await api.data("POST", f"{SCRAPE}/sync", json=WISH)
        for name in ("done", "gone", task["job_id"]):
            await until_ended(api, name)
    (tmp_path / "scrapers/orphan.py").unlink()
    async with with_pages(tmp_path, work=False) as api:
        await api.data("POST", "/jobs", json={"job_id": "held", "scraper_id": "example-mock", "items": [ITEM]})
        for name in ("gone", task["job_id"]):
            await api.data("DELETE", f"/jobs/{name}")
        yield Stage(api, {"gone on demand": task["job_id"]})


async def test_each_endpoint_answers_with_the_codes_that_are_its_own(stage: Stage) -> None:
    found = {case[:3]: await stage.code(case) for case in CASES}
    assert found == {case[:3]: case.code.value for case in CASES}
    for operation in (one for one in _documented(stage.api) if "{job_id}" in one):
        assert await _code(stage.api.client, _request(operation, "nobody")) == "job_not_found", operation


class NoBrowser(LazyBrowsers):
    """None can be started."""

    async def check(self) -> None:
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "pool_exhausted: it exits"))


async def test_each_scrape_on_demand_is_refused_with_the_codes_that_say_why(tmp_path: Path) -> None:
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites:\n  shop.example:\n    proxy_ladder: [custom]\n")
    chosen: dict[str, Any] = {"sites": sites, "proxy_custom_urls": (Secret("http://127.0.0.1:9"),), "queue_depth": 1}
    (tmp_path / "scrapers").mkdir()
    (tmp_path / "scrapers/seen.py").write_text(SEEN)
    other = "https://other.example/"
    async with with_pages(tmp_path, work=False, **chosen) as api:
        await api.data("POST", SCRAPE, json=WISH)  # the queue is full now
        assert await _on_demand(api, WISH) == {"queue_full"}
        site = api.services.directory.of(other)
        await api.services.sites.record(site.name, site.policy.breaker, [False] * site.policy.breaker.failures, 0)
        assert await _on_demand(api, {**WISH, "target_url": other}) == {"circuit_open"}
        _without_proxies(api)
        assert await _on_demand(api, WISH) == {"no_healthy_proxies"}
        outside = msgspec.structs.replace(api.controller.outside, browsers=NoBrowser.__new__(NoBrowser))
        made = msgspec.structs.replace(api.controller, outside=outside, worker=object())
        async with _client(made) as client:
            seen = {"target_type": "seen", "target_url": "https://third.example/"}
            assert await _on_demand(Api(made, client), seen) == {"pool_exhausted"}


async def _on_demand(api: Api, wish: dict[str, Any]) -> set[str]:
    bodies = {one: {"targets": [wish]} if one.endswith("batch") else wish for one in ON_DEMAND}
    return {await _code(api.client, _request(one, json=body)) for one, body in bodies.items()}


def _without_proxies(api: Api) -> None:
    ways, site = api.controller.outside.network.ways, api.services.directory.of("shop.example")
    route = ways.choose("j", ExecutionPolicy().proxy, site.name, site.policy)
    assert route is not None
    ways.tried("j", site.name, route, FailureKind.PROXY)


def _client(controller: Any, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(make_app(controller), **options), base_url=HERE)


def _documented(api: Api) -> dict[str, set[str]]:
    document = codes_of(make_app(api.controller).openapi())
    return {f"{method.lower()} {path}": codes for (method, path), codes in document.items()}


class Broken:
    """A controller that knows who asks, and fails at whatever is asked of it."""

    def __init__(self, api: Api, error: Exception) -> None:
        self.doorkeeper = api.controller.doorkeeper
        self.settings = api.controller.settings
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


async def test_each_endpoint_answers_with_what_any_may_answer(api: Api) -> None:
    """Who asks, how, how often; a store that is away, and what nobody foresaw."""
    keys = {scope: (await api.key(scope)).reveal() for scope in (Scope.READ, Scope.ADMIN)}
    allowed = {"X-Service-Key": keys[Scope.ADMIN]}
    many = {f"X-{number}": "x" for number in range(101)}
    ways: dict[ErrorCode, dict[str, Any]] = {
        C.AUTHENTICATION_ERROR: {"params": {"service_key": "x"}},
        C.FORBIDDEN: {"headers": {**allowed, "Host": "elsewhere.example"}},
        C.PAYLOAD_TOO_LARGE: {"headers": {**allowed, **many}},
        C.VALIDATION_ERROR: {"headers": [*allowed.items(), *[("Idempotency-Key", "x")] * 2]},
    }
    paces = Authenticator(api.services.store, FakeClock(api.services.clock.now()), 1)
    away, bug = StoreUnavailable("the store is locked", WaitingFor.STORE), RuntimeError("nobody foresaw it")
    controllers: dict[ErrorCode, Any] = {
        C.RATE_LIMITED: msgspec.structs.replace(api.controller, doorkeeper=paces),
        C.STORE_UNAVAILABLE: Broken(api, away),
        C.INTERNAL_ERROR: Broken(api, bug),
    }
    async with AsyncExitStack() as stack:
        clients = {code: await stack.enter_async_context(_client(made)) for code, made in controllers.items()}
        await clients[C.RATE_LIMITED].get("/scrapers", headers=allowed)  # all that may be asked in this minute
        for operation, declared in _documented(api).items():
            for code, change in ways.items():
                assert await _code(api.client, _request(operation, **change)) == code, operation
            for code, client in clients.items():
                found = await _code(client, _request(operation, headers=allowed))
                assert found == code or code not in declared, (operation, code, found)
            if operation not in KEYLESS:
                assert await _code(api.client, _request(operation)) == C.AUTHENTICATION_ERROR, operation


async def test_every_code_of_every_endpoint_is_provoked_here_and_no_other_is_in_the_document(api: Api) -> None:
    """332 pairs. Readiness has its own from the test of property 2, in test_health.py."""
    documented = _documented(api)
    provoked = {operation: ANYWHERE | _own(operation) for operation in documented}
    provoked["get /health"] -= {C.RATE_LIMITED, C.STORE_UNAVAILABLE}
    provoked["get /readiness"] = provoked["get /readiness"] - {C.RATE_LIMITED} | {
        C.NO_HEALTHY_PROXIES,
        C.POOL_EXHAUSTED,
    }
    assert documented == {operation: {code.value for code in codes} for operation, codes in provoked.items()}
    used = {code for codes in documented.values() for code in codes}
    assert {code.value for code in ErrorCode} - used == UNUSED


def _own(operation: str) -> set[ErrorCode]:
    own = {case.code for case in CASES if case.operation == operation}
    own |= {C.JOB_NOT_FOUND} if "{job_id}" in operation else set()
    return own | (ON_DEMAND_REFUSALS if operation in ON_DEMAND else set())
