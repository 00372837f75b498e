import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from h2.errors import ErrorCodes

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.egress.guard import EgressTarget
from swath.fetch.http.client.tls_errors import refusal_reason
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Request
from tests.unit.fetch.http.secure_site import Authority, SecureSite, secure_site
from tests.unit.fetch.http.sites import LoopbackGuard

pytestmark = pytest.mark.req("H1")

HOST = "county.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def transport(authority: Authority) -> AsyncIterator[DirectTransport]:
    made = trusting(authority.file)
    yield made
    await made.close()


def trusting(ca_file: Path | None) -> DirectTransport:
    return DirectTransport(LoopbackGuard({HOST: ["127.0.0.1"], "other.example": ["127.0.0.1"]}), ca_file=ca_file)


def to(site: SecureSite, host: str = HOST, impersonate: str | None = None, seconds: float = 30.0) -> Request:
    return Request(
        url=f"https://{host}:{site.port}/",
        headers=(("X-Ours", "1"),),
        impersonate=impersonate,
        request_timeout_seconds=seconds,
    )


async def kind_of(transport: DirectTransport, request: Request) -> FailureKind:
    with pytest.raises(Failed) as raised:
        await transport.send(request)
    return raised.value.failure.kind


async def test_a_pinned_name_is_checked_against_its_certificate(
    transport: DirectTransport, authority: Authority
) -> None:
    async with secure_site(authority.context(HOST, "http/1.1")) as site:
        assert (await transport.send(to(site))).body == b"<p>one</p>"
        assert await kind_of(transport, to(site, "other.example")) == FailureKind.TLS
    async with secure_site(authority.context(HOST, days=-1)) as site:
        assert await kind_of(transport, to(site)) == FailureKind.TLS


async def test_an_authority_that_nobody_trusts_is_a_tls_failure(authority: Authority) -> None:
    transport = trusting(None)
    async with secure_site(authority.context(HOST)) as site:
        assert await kind_of(transport, to(site)) == FailureKind.TLS
    await transport.close()


async def message_of(transport: DirectTransport, request: Request) -> str:
    with pytest.raises(Failed) as raised:
        await transport.send(request)
    assert raised.value.failure.kind == FailureKind.TLS
    return raised.value.failure.message


@pytest.mark.req("H2")
async def test_a_certificate_that_is_refused_says_why(
    transport: DirectTransport, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[EgressTarget] = []

    async def counted(target: EgressTarget, ca_file: Path | None) -> str | None:
        asked.append(target)
        return await refusal_reason(target, ca_file)

    monkeypatch.setattr("swath.fetch.http.client.transport.refusal_reason", counted)
    stranger = Authority(tmp_path)
    stranger.file = authority.file
    for context, reason in (
        (authority.context(HOST, days=-1), "certificate has expired"),
        (authority.context(HOST, days=9, begins_in_days=5), "certificate is not yet valid"),
        (authority.context("x.example"), "Hostname mismatch, certificate is not valid for 'county.example'"),
        (authority.self_signed(HOST), "self-signed certificate"),
        (stranger.context(HOST), "certificate signature failure"),
    ):
        async with secure_site(context) as site:
            told = await message_of(transport, to(site))
            assert told == f"the certificate is not trusted at https://{HOST}:{site.port}/: {reason}"
            known = len(asked)
            assert await message_of(transport, to(site)) == told
            assert len(asked) == known, "the site is not asked again"
    untrusting = trusting(None)
    async with secure_site(authority.context(HOST)) as site:
        assert (await message_of(untrusting, to(site))).endswith(": unable to get local issuer certificate")
    await untrusting.close()


ALERT = b"\x15\x03\x03\x00\x02\x02"


@pytest.mark.req("H2")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS at this port"),
        (ALERT + b"\x28", "supports none of our cipher suites, or asks for a client certificate"),
        (ALERT + b"\x46", "supports only versions of TLS that are no longer safe"),
        (ALERT + b"\x70", "does not know this host name"),
        (ALERT + b"\x74", "asks for a client certificate"),
        (ALERT + b"\x50", "refused the handshake"),
    ],
)
async def test_a_handshake_that_fails_says_why(transport: DirectTransport, answer: bytes, reason: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    told = await message_of(transport, Request(url=f"https://{HOST}:{port}/"))
    assert told == f"the server {reason} at https://{HOST}:{port}/"
    server.close()


@pytest.mark.parametrize("content", [None, b"", b"no certificates", b"\xff\xfe"])
async def test_a_file_without_certificates_is_told(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    transport = trusting(file)
    with pytest.raises(Failed, match=r"ca\.pem cannot be used") as raised:
        await transport.send(Request(url=f"https://{HOST}:1234/"))
    assert raised.value.failure.kind == FailureKind.INTERNAL
    await transport.close()


async def test_requests_share_one_connection_over_http_2(transport: DirectTransport, authority: Authority) -> None:
    async with secure_site(authority.context(HOST, "h2", "http/1.1")) as site:
        await transport.send(to(site))
        answers = await asyncio.gather(*(transport.send(to(site)) for _ in range(20)))
        assert {answer.body for answer in answers} == {b"<p>two</p>"}
        assert {how for how, _ in site.requests} == {"h2"}
        assert site.connections == 1


@pytest.mark.req("H3", "K7")
@pytest.mark.parametrize(
    ("code", "announced"),
    [
        *((code, size) for code in (ErrorCodes.NO_ERROR, ErrorCodes.CANCEL) for size in (1_000, 100_000)),
        (ErrorCodes.CANCEL, None),  # without a length the client cannot tell NO_ERROR from the end: assumptions.md
    ],
)
async def test_a_body_that_is_cut_off_over_http_2_is_no_page(
    transport: DirectTransport, authority: Authority, code: int, announced: int | None
) -> None:
    async with secure_site(authority.context(HOST, "h2")) as site:
        site.reset, site.announced = code, announced
        assert await kind_of(transport, to(site)) == FailureKind.CONNECT


@pytest.mark.req("W3", "Z6")
async def test_a_connection_that_hangs_costs_one_request_and_not_those_after_it(
    transport: DirectTransport, authority: Authority
) -> None:
    async with secure_site(authority.context(HOST, "h2")) as site:
        await transport.send(to(site, seconds=10))
        site.hung = {1}
        assert await kind_of(transport, to(site, seconds=0.1)) == FailureKind.TIMEOUT
        assert (await transport.send(to(site, seconds=10))).body == b"<p>two</p>"
        assert (await transport.send(to(site, seconds=10))).body == b"<p>two</p>"
        assert site.connections == 2


@pytest.mark.req("W3")
async def test_a_connection_is_not_used_again_after_somebody_lost_patience_with_it(
    transport: DirectTransport, authority: Authority
) -> None:
    async with secure_site(authority.context(HOST, "h2")) as site:
        await transport.send(to(site, seconds=10))
        site.hung = {1}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await transport.send(to(site))
        assert (await transport.send(to(site, seconds=10))).body == b"<p>two</p>"


@pytest.mark.req("Z6")
async def test_a_connection_is_not_used_again_after_a_failure_that_may_go_on_in_it(
    transport: DirectTransport, authority: Authority
) -> None:
    async with secure_site(authority.context(HOST, "h2")) as site:
        small = msgspec.structs.replace(to(site), largest_bytes=3)
        assert await kind_of(transport, small) == FailureKind.TOO_LARGE
        assert (await transport.send(to(site))).body == b"<p>two</p>"
        assert site.connections == 2


@pytest.mark.parametrize("browser", ["chrome_143", "Firefox-151", "safari_26_1"])
async def test_a_browser_is_imitated_below_http_only(
    transport: DirectTransport, authority: Authority, browser: str
) -> None:
    async with secure_site(authority.context(HOST, "h2", "http/1.1")) as site:
        assert (await transport.send(to(site, impersonate=browser))).body == b"<p>two</p>"
        assert (await transport.send(to(site))).body == b"<p>two</p>"
        assert site.connections == 2
        assert "x-ours" in site.requests[0][1].lower()
        assert "user-agent" not in site.requests[0][1].lower()
