"""What is refused before any endpoint sees it: foreign hosts and origins, keys in addresses, endless heads."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.service_key import Scope
from tests.integration.api.running import HERE, Api, running


@pytest.mark.req("I5")
async def test_only_its_own_hosts_are_served(tmp_path: Path) -> None:
    """A name that somebody points at this machine must not bring a page of theirs to us (DNS rebinding)."""
    cases = [
        ("127.0.0.1:8000", True),
        ("localhost", True),
        ("LOCALHOST.:8000", True),
        ("[::1]:8000", True),
        ("10.1.2.3", True),
        ("swath.test:80", True),
        ("evil.test", False),
        ("localhost.evil.test", False),
        ("127.0.0.1.evil.test", False),
        ("127.0.0.1@evil.test", False),
        ("evil.test/127.0.0.1", False),
        ("localhost:99999", False),
        ("", False),
    ]
    async with running(tmp_path, allowed_hosts=("swath.test",)) as api:
        shown = (await api.key(Scope.READ)).reveal()
        for host, served in cases:
            answer = await api.ask("GET", "/scrapers", headers={"Host": host, "X-Service-Key": shown})
            assert answer.status_code == (200 if served else 403), host


@pytest.mark.req("I5")
async def test_pages_of_other_origins_are_refused(api: Api) -> None:
    for origin, served in (
        (None, True),
        (HERE, True),
        ("http://127.0.0.1:3000", False),
        ("https://127.0.0.1:8000", False),
        ("http://evil.test", False),
        ("null", False),
        ("", False),
    ):
        answer = await api.ask("GET", "/scrapers", headers={} if origin is None else {"Origin": origin})
        assert answer.status_code == (200 if served else 403), origin
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.req("I5")
async def test_a_name_that_was_allowed_may_have_tls_in_front(tmp_path: Path) -> None:
    async with running(tmp_path, allowed_hosts=("Swath.test",)) as api:
        shown = (await api.key(Scope.READ)).reveal()
        for host, origin, served in (
            ("swath.test", "https://swath.test", True),
            ("swath.test:8443", "https://swath.test:8443", True),
            ("swath.test", "http://swath.test", True),
            ("swath.test", "https://swath.test:8443", False),
            ("swath.test", "https://evil.test", False),
            ("127.0.0.1", "https://127.0.0.1", False),
            ("localhost", "https://localhost", False),
        ):
            headers = {"Host": host, "Origin": origin, "X-Service-Key": shown}
            answer = await api.ask("GET", "/scrapers", headers=headers)
            assert answer.status_code == (200 if served else 403), (host, origin)


@pytest.mark.req("I5")
async def test_blanks_around_a_key_are_no_part_of_it(api: Api) -> None:
    key = await api.key(Scope.READ)
    for shown in (f"{key.reveal()} ", f"{key.reveal()}\t ", f" {key.reveal()}"):
        assert (await api.ask("GET", "/scrapers", headers={"X-Service-Key": shown})).status_code == 200


@pytest.mark.req("I5", "Z7")
async def test_a_key_in_the_address_is_refused_and_not_repeated(api: Api) -> None:
    key = await api.key(Scope.ADMIN)
    for query in ("service_key={}", "X-Service-Key={}", "limit=1&a={}", "service%5Fkey={}", "a=sk%5F{}"):
        text = key.reveal().removeprefix("sk_") if "sk%5F" in query else key.reveal()
        answer = await api.ask("GET", f"/jobs?{query.format(text)}", headers={"X-Service-Key": key.reveal()})
        assert answer.status_code == 401
        assert key.reveal() not in answer.text


@pytest.mark.req("I5", "Z5")
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/jobs?cursor=" + "x" * 9_000, {}),
        ("/jobs/" + "x" * 20_000, {}),
        ("/jobs", {f"X-{n}": "y" for n in range(120)}),
        ("/jobs", {"X-Long": "y" * 40_000}),
    ],
)
async def test_endless_headers_and_addresses_are_refused(api: Api, path: str, headers: dict[str, str]) -> None:
    assert (await api.error("GET", path, headers=headers))["code"] == "payload_too_large"
