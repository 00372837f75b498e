"""S3 on bad days: whatever it does, nothing torn can be read, every call ends, and the message says what to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.aws import Endpoints
from harness.fakes.s3_faults import S3Faults, S3Rates
from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results
from swath.domain.errors import StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.ports.result_storage import StagedItem
from tests.integration.aws.storages import all_files, objects, results
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock

BODY = bytes(range(256)) * 400
QUIET = S3Rates()


@pytest.fixture
async def proxy(aws: Endpoints, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Faults]:
    """Between every storage opened from now on and S3."""
    async with S3Faults(aws.s3_url, 5, QUIET) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        yield proxy


@pytest.fixture
async def behind(proxy: S3Faults, aws: Endpoints, aws_name: str) -> S3Results:
    """Has little patience, for tests."""
    return results(aws, aws_name, patience_seconds=0.6)


@pytest.fixture
async def witness(aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch) -> S3Results:
    """Looks at the same place without the proxy; opened at once, or it would be led to it."""
    storage = results(aws, aws_name)
    with monkeypatch.context() as direct:
        direct.setenv("AWS_ENDPOINT_URL_S3", aws.s3_url)
        assert await all_files(storage) == {}
    return storage


async def staged(storage: S3Results, *item_ids: str) -> list[tuple[Artifact, ...]]:
    return await storage.stage("job", 1, [StagedItem(one, {"scan.pdf": BODY}, first=True) for one in item_ids])


@pytest.mark.req("Z2", "Q3")
@pytest.mark.parametrize("fault", ["slow_down", "server_error", "cut_request", "withheld"])
async def test_while_a_fault_lasts_a_write_waits_and_nothing_torn_is_readable(
    witness: S3Results, behind: S3Results, proxy: S3Faults, fault: str
) -> None:
    await behind.open_lease("job", 1)
    await staged(behind, "before")
    proxy.rates = S3Rates(**{fault: 1.0})
    with pytest.raises(StoreUnavailable) as waiting:
        await asyncio.wait_for(staged(behind, "a", "b"), 60)
    assert waiting.value.waiting_for is WaitingFor.DISK
    assert "S3" in str(waiting.value)
    assert "\n" not in str(waiting.value)
    assert proxy.injected[fault] > 0
    with pytest.raises(StoreUnavailable):
        await behind.put("job", {"manifests/full/part-1.json": BODY})
    for key in ("items/a/scan.pdf", "items/b/scan.pdf", "manifests/full/part-1.json"):
        with contextlib.suppress(KeyError):
            assert await witness.get("job", key) == BODY
    proxy.rates = QUIET
    ((a,), (b,)) = await staged(behind, "a", "b")
    await behind.settle("job", 1, ["a"])
    await witness.remove("job", "manifests/")
    assert await all_files(witness) == {a.key: BODY}
    with pytest.raises(KeyError):
        await witness.get("job", b.key)


@pytest.mark.req("Z2")
@pytest.mark.parametrize("fault", ["slow_down", "server_error", "cut_answer", "withheld"])
async def test_a_read_is_whole_or_fails(witness: S3Results, behind: S3Results, proxy: S3Faults, fault: str) -> None:
    await witness.put("job", {"a.json": BODY})
    assert await behind.get("job", "a.json") == BODY
    proxy.rates = S3Rates(**{fault: 1.0})
    with pytest.raises(StoreUnavailable) as waiting:
        await asyncio.wait_for(behind.get("job", "a.json"), 60)
    assert waiting.value.waiting_for is WaitingFor.DISK
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(behind.open_leases("job"), 60)
    with pytest.raises(StoreUnavailable):
        [key async for key in behind.keys("job")]
    proxy.rates = QUIET
    assert await behind.get("job", "a.json") == BODY


@pytest.mark.req("Z2", "Z9")
@pytest.mark.parametrize("fault", ["cut_answer", "withheld", "server_error"])
async def test_a_listing_or_a_read_that_breaks_off_once_goes_on_by_itself(
    aws: Endpoints, aws_name: str, witness: S3Results, proxy: S3Faults, fault: str
) -> None:
    """Reproduced: one broken answer to a listing was told as trouble of the whole job."""
    await witness.put("job", {"a.json": BODY, "b.json": b"{}"})
    storage = results(aws, aws_name, patience_seconds=60)
    for ask in (lambda: _keys(storage), lambda: storage.get("job", "a.json")):
        proxy.injected.clear()
        proxy.rates = S3Rates(**{fault: 1.0})
        asking: asyncio.Future[object] = asyncio.ensure_future(ask())
        async with asyncio.timeout(HANGING_SECONDS):
            while not proxy.injected[fault]:
                await asyncio.sleep(0.001)
            proxy.rates = QUIET
            assert await asking in (["a.json", "b.json"], BODY)


async def _keys(storage: S3Results) -> list[str]:
    return [key async for key in storage.keys("job")]


@pytest.mark.req("Z2", "Z1")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_lease_goes_through_a_storm_with_nothing_lost_or_left(
    witness: S3Results, aws: Endpoints, aws_name: str, proxy: S3Faults, seed: int
) -> None:
    """Repeated as a worker does while the disk is away."""
    storm = S3Rates(slow_down=0.1, server_error=0.1, cut_request=0.1, cut_answer=0.1, withheld=0.1)
    behind, item_ids = results(aws, aws_name, patience_seconds=2.0), [f"i{n}" for n in range(12)]
    proxy.rates = storm

    async def patiently(call: object, *args: object) -> object:
        for _ in range(50):
            try:
                return await call(*args)  # type: ignore[operator]
            except StoreUnavailable:
                continue
        raise AssertionError("never answered")

    for fence in (seed, seed + 10):
        first = fence == seed
        leased = [LeasedItem(n, one, {}, first=first) for n, one in enumerate(item_ids)]
        await patiently(behind.open_lease, "job", fence, leased)
        group = [StagedItem(one, {"a.json": BODY, "b.json": f"{fence}".encode()}, first=first) for one in item_ids]
        await patiently(behind.stage, "job", fence, group)
        await patiently(behind.publish, "job", fence, item_ids[:6])
        await patiently(behind.settle, "job", fence, item_ids[:6])
    assert sum(proxy.injected.values()) > 10
    folder = f"~{seed + 10}/"
    expected = {f"items/{one}/{folder}a.json": BODY for one in item_ids[:6]}
    expected |= {f"items/{one}/{folder}b.json": f"{seed + 10}".encode() for one in item_ids[:6]}
    assert await all_files(witness) == expected
    assert await witness.open_leases("job") == []


class Deaf(Objects):
    """Never hears that an item's file was stored."""

    async def put(self, path: str, *args: Any, **kwargs: Any) -> bool:
        stored = await super().put(path, *args, **kwargs)
        if "/items/" in path:
            raise StoreUnavailable("no answer", WaitingFor.DISK)
        return stored


@pytest.mark.req("Z2")
async def test_what_a_failed_staging_left_behind_goes_with_its_lease(aws: Endpoints, aws_name: str) -> None:
    plain = objects(aws, aws_name)
    worker = S3Results(Deaf(plain.bucket, plain._chain))
    await worker.open_lease("job", 1)
    with pytest.raises(StoreUnavailable):
        await staged(worker, "a")
    assert await plain.get("job/items/a/scan.pdf") == BODY
    await worker.settle("job", 1, [])
    assert [path async for page in plain.pages("job/items") for path in page] == []


@pytest.mark.req("Z2")
async def test_a_lost_answer_to_the_opening_of_a_room_loses_nothing(
    witness: S3Results, behind: S3Results, proxy: S3Faults
) -> None:
    proxy.rates = S3Rates(withheld=1.0)
    leased = [LeasedItem(1, "a", {}, first=True)]
    with pytest.raises(StoreUnavailable):
        await behind.open_lease("job", 1, leased)
    proxy.rates = QUIET
    await behind.open_lease("job", 1, leased)
    ((artifact,),) = await staged(behind, "a")
    await witness.settle("job", 1, ["a"])
    assert await all_files(witness) == {artifact.key: BODY}


@pytest.mark.req("Q3", "Z2")
async def test_an_interrupted_upload_in_parts_is_not_readable(
    witness: S3Results, behind: S3Results, proxy: S3Faults
) -> None:
    large = BODY * 180
    await witness.put("job", {"scan.pdf": b"former"})
    await behind.get("job", "scan.pdf")
    proxy.rates = S3Rates(cut_request=0.7)
    failed = 0
    for _ in range(4):
        try:
            await behind.put("job", {"scan.pdf": large})
        except StoreUnavailable:
            failed += 1
            assert await witness.get("job", "scan.pdf") in (b"former", large)
    assert failed
    assert await witness.get("job", "scan.pdf") in (b"former", large)
    assert [key async for key in witness.keys("job")] == ["scan.pdf"]


@pytest.mark.req("W5")
async def test_nobody_at_the_endpoint_is_waited_for(aws: Endpoints, proxy: S3Faults, aws_name: str) -> None:
    storage = results(aws, aws_name, patience_seconds=0.5)
    await proxy.stop()
    with pytest.raises(StoreUnavailable, match="does not answer") as waiting:
        await asyncio.wait_for(storage.put("job", {"a": b""}), 60)
    assert waiting.value.waiting_for is WaitingFor.DISK
    await proxy.start()
    await storage.put("job", {"a": b""})


class Silent(S3Faults):
    """Takes every request and never answers."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await asyncio.sleep(600)


@pytest.mark.req("W5")
async def test_a_call_that_gets_no_answer_ends_in_time(
    aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Silent(aws.s3_url, 1, QUIET) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", silent.url)
        calls: Objects = objects(aws, aws_name, patience_seconds=0.5, attempt_seconds=0.5)
        storage = S3Results(calls)
        for call in ways_in(storage):
            with pytest.raises(StoreUnavailable) as waiting:
                await asyncio.wait_for(call(), 60)
            assert waiting.value.waiting_for is WaitingFor.DISK


def ways_in(storage: S3Results) -> list[Callable[[], Awaitable[object]]]:
    """A call of each kind: put if absent, put, get, list."""
    return [
        lambda: storage.open_lease("job", 1),
        lambda: storage.put("job", {"a": b""}),
        lambda: storage.get("job", "a"),
        lambda: storage.open_leases("job"),
    ]


async def told(storage: S3Results, kind: type[SwathError]) -> list[str]:
    """What people read."""
    lines = []
    for call in ways_in(storage):
        with pytest.raises(kind) as refusal:
            await asyncio.wait_for(call(), 60)
        lines.append(str(refusal.value))
    assert all("\n" not in line for line in lines)
    return lines


class Refusing(S3Faults):
    """Answers every request in the same way."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__("http://127.0.0.1:9", 1, QUIET)
        body = f"<Error><Code>{code}</Code><Message>told so</Message></Error>".encode()
        head = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self._answer = head.encode() + body

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)


@pytest.mark.req("C2", "Q3")
@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (404, "NoSuchBucket", UserError, "`swath aws init --create-bucket` makes it"),
        (301, "PermanentRedirect", UserError, "another region"),
        (400, "AuthorizationHeaderMalformed", UserError, "another region"),
        (403, "AccessDenied", UserError, "refuses these credentials (AccessDenied: told so)"),
        (400, "ExpiredToken", UserError, "refuses these credentials"),
        (403, "RequestTimeTooSkewed", UserError, "set its clock right"),
        (400, "KeyTooLongError", SwathError, "KeyTooLongError: told so"),
        (503, "SlowDown", StoreUnavailable, "SlowDown"),
        (409, "OperationAborted", StoreUnavailable, "does not answer"),
        (429, "TooManyRequestsException", StoreUnavailable, "TooManyRequests"),
    ],
)
async def test_what_s3_refuses_is_told_in_a_line_that_says_what_to_do(
    aws: Endpoints, monkeypatch: pytest.MonkeyPatch, status: int, code: str, kind: type[SwathError], says: str
) -> None:
    async with Refusing(status, code) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        for line in await told(results(aws, "x", patience_seconds=0.3), kind):
            assert says in line


@pytest.mark.req("C2", "Q3")
async def test_reading_from_a_missing_bucket_names_the_command(aws: Endpoints, aws_name: str) -> None:
    """Writing would too, were it not that this server makes a bucket then."""
    storage = S3Results.open(f"s3://{aws_name}/x", FakeClock())
    for call in ways_in(storage)[2:]:
        with pytest.raises(UserError, match="`swath aws init"):
            await call()


@pytest.mark.req("C2", "Q3")
async def test_no_credentials_is_a_line_that_says_what_to_set(
    aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for line in await told(results(aws, aws_name), UserError):
        assert "AWS_ACCESS_KEY_ID" in line


@pytest.mark.req("C2", "Q3")
async def test_wrong_credentials_are_a_line(aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    for line in await told(results(aws, aws_name), UserError):
        assert "refuses these credentials" in line


@pytest.mark.req("Q3")
async def test_a_profile_counts_as_it_does_for_botocore(
    aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ENDPOINT_URL_S3",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name)
    config, secrets = tmp_path / "config", tmp_path / "credentials"
    services = f"[services local]\ns3 =\n  endpoint_url = {aws.s3_url}\n"
    config.write_text(f"[profile fleet]\nregion = {aws.region}\nservices = local\n{services}")
    secrets.write_text(f"[fleet]\naws_access_key_id = {aws.access_key}\naws_secret_access_key = {aws.secret_key}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(secrets))
    monkeypatch.setenv("AWS_PROFILE", "fleet")
    storage = results(aws, aws_name)
    await storage.put("job", {"a": b"1"})
    assert await storage.get("job", "a") == b"1"
