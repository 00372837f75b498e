"""C2, I5, Z5: what goes wrong between a command and a controller is one line and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fakes.proxies.certificates import Authority
from swath.domain.errors import BadInput, StoreUnavailable, SwathError, UnknownName, UserError
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret
from swath.entrypoints.cli.remote.client import ControllerBusy, ControllerClient
from swath.entrypoints.cli.remote.http import ControllerAddress, check_key_is_safe
from swath.entrypoints.cli.remote.jobs import RemoteJobs
from tests.integration.api.serving import Place, free_port
from tests.integration.cli.faulty import answering, envelope

pytestmark = pytest.mark.req("C2", "Z5")


OTHER_SHAPE = (
    b'HTTP/1.1 200 OK\r\nContent-Length: 63\r\n\r\n{"success": true, "data": {}, "error": null, "request_id": "r"}'
)


def one_line(err: str) -> str:
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("swath: ")
    return lines[0]


async def test_nobody_is_there(place: Place) -> None:
    code, out, err = await place.run("jobs", "list", SWATH_SERVER=f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (1, "")
    assert "cannot be reached" in one_line(err)
    assert "swath serve" in err
    code, _, err = await place.run("jobs", "list", "--server", "http://nobody.invalid:8000")
    assert code == 1
    assert "cannot be reached" in one_line(err)


@pytest.mark.req("I5", "Z7")
async def test_keys_decide_who_may_do_what(place: Place) -> None:
    async with place.serving("--no-worker") as served:
        at = ("--server", served.url)
        code, key, err = await place.run("keys", "create", "reader", "--scope", "read")
        assert code == 0, err
        told = {}
        for name, sent in (("none", ""), ("wrong", "sk_000000000000_wrong"), ("right", key.strip())):
            code, _, err = await place.run("jobs", "list", *at, SWATH_SERVICE_KEY=sent)
            told[name] = (code, err)
        assert told["right"] == (0, "")
        assert told["none"][0] == told["wrong"][0] == 2
        assert "set SWATH_SERVICE_KEY" in one_line(told["none"][1])
        assert "wrong, expired or revoked" in one_line(told["wrong"][1])
        assert "sk_0" not in told["wrong"][1]
        code, _, err = await place.run("jobs", "cancel", "job", *at, SWATH_SERVICE_KEY=key.strip())
        assert code == 2
        assert "needs the scope submit" in one_line(err)


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", UserError, "is no Swath controller.*text/html"),
        (b"HTTP/1.1 302 Found\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n", UserError, "points to https://x/"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", UserError, "is no Swath controller"),
        (b"SSH-2.0-OpenSSH_9\r\n", SwathError, "does not speak HTTP"),
        (b"", StoreUnavailable, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", StoreUnavailable, "broke off"),
        (envelope(404, "not_found", "nothing"), UserError, "another version"),
        (envelope(500, "internal_error", "oops", X_Request_ID="r-7"), SwathError, "oops.*request r-7"),
        (
            envelope(503, "store_unavailable", "no room", {"waiting_for": "disk"}),
            StoreUnavailable,
            "waits for the disk",
        ),
        (envelope(503, "store_unavailable", "no", {"waiting_for": "moon"}), SwathError, "does not understand"),
        (envelope(429, "rate_limited", "slowly", Retry_After="7"), ControllerBusy, "slowly"),
        (OTHER_SHAPE, SwathError, "another version"),
    ],
)
async def test_answers_that_are_none(answer: bytes, kind: type[SwathError], told: str) -> None:
    async with answering(answer) as faulty:
        with pytest.raises(kind, match=told) as raised:
            await RemoteJobs(ControllerClient(ControllerAddress.of(faulty.url), None)).status("job")
        assert "\n" not in str(raised.value)
    if isinstance(raised.value, StoreUnavailable) and "disk" in told:
        assert raised.value.waiting_for is WaitingFor.DISK
    if isinstance(raised.value, ControllerBusy):
        assert raised.value.wait_seconds == 7


@pytest.mark.req("Z7")
@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost", True),
        ("http://[::1]:8000", True),
        ("http://[::ffff:127.0.0.1]:8000", True),
        ("https://swath.example", True),
        ("http://swath.example", False),
        ("http://10.0.0.7:8000", False),
        ("http://localhost.example", False),
        ("http://127.0.0.1.example", False),
        ("http://0.0.0.0:8000", False),
    ],
)
def test_a_key_goes_unencrypted_only_to_this_machine(url: str, safe: bool) -> None:
    check_key_is_safe(ControllerAddress.of(url), None)
    if safe:
        check_key_is_safe(ControllerAddress.of(url), Secret("sk"))
    else:
        with pytest.raises(BadInput, match="--insecure"):
            check_key_is_safe(ControllerAddress.of(url), Secret("sk"))


@pytest.mark.req("Z7")
async def test_nothing_is_sent_to_a_plain_address_elsewhere_unless_that_is_wanted(place: Place) -> None:
    words = ("jobs", "list", "--server", "http://nobody.invalid:8000")
    code, _, err = await place.run(*words, SWATH_SERVICE_KEY="sk_1")
    assert code == 2
    assert "not encrypted" in one_line(err)
    assert "sk_1" not in err
    code, _, err = await place.run(*words, "--insecure", SWATH_SERVICE_KEY="sk_1")
    assert code == 1
    assert "cannot be reached" in err


@pytest.mark.req("Z7")
async def test_a_redirect_is_not_followed_and_the_key_is_sent_as_a_header_only() -> None:
    async with answering(b"") as other:
        moved = f"HTTP/1.1 307 X\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with answering(moved) as faulty:
            with pytest.raises(UserError, match="points to"):
                await ControllerClient(ControllerAddress.of(faulty.url), Secret("sk_secret")).ask("GET", "jobs")
        assert other.requests == []
        assert faulty.requests[0].splitlines()[0] == "GET /jobs HTTP/1.1"
        assert faulty.requests[0].count("sk_secret") == 1


@pytest.mark.req("Z7")
async def test_a_key_is_shown_only_to_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority("A test")
    async with answering(
        envelope(404, "job_not_found", "there is no job 'job'"), authority.context("localhost")
    ) as there:
        jobs = RemoteJobs(ControllerClient(ControllerAddress.of(there.url), Secret("sk_secret")))
        with pytest.raises(SwathError, match="certificate is not trusted"):
            await jobs.status("job")
        assert there.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path / "authority.pem")))
        with pytest.raises(UnknownName):
            await jobs.status("job")
        assert "sk_secret" in there.requests[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "typed", "--items", "x.csv"), "jobs create"),
        (("worker",), "SWATH_STORE"),
        (("jobs", "create", "typed", "--items", "x.csv", "--dry-run"), "leave out --server"),
        (("jobs", "create", "typed", "--items", "x.csv", "--limit", "3"), "--limit"),
        (("jobs", "create", "./typed.py", "--items", "x.csv"), "SWATH_SCRAPERS there"),
        (("jobs", "retry", "job", "--failed", "--run"), "leave it out"),
    ],
)
async def test_what_cannot_go_over_the_wire_says_what_to_do(place: Place, words: tuple[str, ...], told: str) -> None:
    code, _, err = await place.run(*words, "--server", "http://127.0.0.1:1")
    assert code == 2
    assert told in one_line(err)


async def test_verify_does_not_check_another_store_than_the_one_that_is_meant(place: Place) -> None:
    code, _, err = await place.run("jobs", "verify", "job", SWATH_SERVER="http://127.0.0.1:1")
    assert code == 1
    assert "http://127.0.0.1:1 cannot be reached" in one_line(err)


@pytest.mark.parametrize(
    "url", ["swath.example", "ftp://x", "http://user:pass@x", "http://x:99999", "http://[::1", "http://zürich.example"]
)
async def test_an_address_that_is_none_is_refused(place: Place, url: str) -> None:
    code, _, err = await place.run("jobs", "list", "--server", url)
    assert code == 2
    assert "--server" in one_line(err)
    assert "pass@" not in err
