"""Results in S3 keep the contract of the port, and what only a bucket promises. On bad days: the files beside."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import http.client
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3.results import S3Results
from swath.domain.errors import UserError
from swath.domain.execution_policy import Keep
from swath.domain.lease import LeasedItem
from swath.domain.result import Page, Result
from swath.domain.storage_keys import encode_key, page_file_name
from swath.pipeline.formats.artifacts import make_item_files, read_pages
from swath.pipeline.formats.stored_files import read_item_files
from swath.ports.result_storage import StagedItem
from tests.contract.suites import ResultStorageContract
from tests.contract.suites.builders import new_job
from tests.integration.aws.storages import all_files, item, results
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock

MIB = 1 << 20


@pytest.fixture
async def storage(aws: Endpoints, aws_name: str) -> AsyncIterator[S3Results]:
    storage = S3Results.open(f"s3://{aws.bucket}/{aws_name}", FakeClock())
    yield storage
    await storage.close()


@pytest.mark.req("Q1", "Q3", "R1", "Z2")
class TestS3Results(ResultStorageContract):
    """The same sentences as on a folder."""

    @pytest.fixture
    async def sleeper(self, aws: Endpoints, aws_name: str) -> S3Results:
        return results(aws, aws_name)


async def fetched(link: str) -> tuple[int, dict[str, str], bytes]:
    def ask() -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(link)
        with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=HANGING_SECONDS)) as connection:
            connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    return await asyncio.to_thread(ask)


@pytest.mark.req("R1", "Q3")
async def test_plain_keys_are_for_the_first_lease_and_others_carry_its_fence(storage: S3Results) -> None:
    await storage.open_lease("job", 7)
    ((plain,), (fenced,)) = await storage.stage("job", 7, [item("a"), item("b", first=False)])
    assert plain.key == "items/a/data.json"
    assert fenced.key == "items/b/~7/data.json"


@pytest.mark.req("Q3")
async def test_a_commit_costs_no_write_but_its_files_and_a_lease_costs_one(storage: S3Results) -> None:
    leased = [LeasedItem(n, f"i{n}", {}, first=True) for n in range(12)]
    await storage.open_lease("job", 1, leased)
    for start in range(0, 12, 3):
        group = [one.item_id for one in leased[start : start + 3]]
        files = {"html.html.gz": b"x", "data.json": b"{}", "metadata.json": b"{}"}
        await storage.stage("job", 1, [StagedItem(item_id, files, first=True) for item_id in group])
        await storage.publish("job", 1, group)
    await storage.settle("job", 1, [one.item_id for one in leased])
    assert storage.meter.requests == {
        "s3.put_object": 1 + 12 * 3,
        "s3.head_object": 4 + 1,
        "s3.delete_objects": 1,
    }


@pytest.mark.req("Q3")
async def test_an_item_of_a_later_lease_costs_one_listing_more(storage: S3Results) -> None:
    await storage.open_lease("job", 1, [LeasedItem(1, "a", {}), LeasedItem(2, "b", {})])
    await storage.stage("job", 1, [item("a", first=False), item("b", first=False)])
    await storage.publish("job", 1, ["a", "b"])
    await storage.settle("job", 1, ["a", "b"])
    assert storage.meter.requests["s3.list_objects_v2"] == 2
    assert storage.meter.requests["s3.put_object"] == 1 + 2


@pytest.mark.req("R1")
async def test_large_pages_are_gzip_by_their_header_and_read_back_as_pages(storage: S3Results) -> None:
    pages = tuple(
        Page(name=name, url="https://demo.local/", status=200, body=body)
        for name, body in (("html", b"<p>large</p>" * 500), ("small", b"<p>small</p>"))
    )
    files = make_item_files(new_job("job"), "a", Result(pages=pages, data={"x": 1}), Keep.BOTH, {})
    await storage.open_lease("job", 1)
    (artifacts,) = await storage.stage("job", 1, [StagedItem("a", files, first=True)])
    names = [artifact.key.removeprefix("items/a/") for artifact in artifacts]
    assert names == ["html.html", "small.html", "data.json", "metadata.json"]
    for artifact in artifacts:
        stored = await storage.get("job", artifact.key)
        assert (artifact.size, artifact.sha256) == (len(stored), hashlib.sha256(stored).hexdigest())
    read = await read_item_files(storage, "job", "a", artifacts)
    assert [page.body for page in read_pages(read)] == [page.body for page in pages]


@pytest.mark.req("R1", "Q3", "Z7")
async def test_a_link_lets_anybody_save_a_file_and_no_browser_show_it(storage: S3Results) -> None:
    page = b"<p>page</p>" * 500
    await storage.open_lease("job", 1)
    staged = [StagedItem("a b", {"html.html.gz": gzip.compress(page), "tax%20bill.pdf": b"%PDF"}, first=True)]
    ((html, bill),) = await storage.stage("job", 1, staged)
    status, headers, body = await fetched(await made(storage, html.key))
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["content-disposition"] == 'attachment; filename="html.html"'
    assert gzip.decompress(body) == page
    status, headers, body = await fetched(await made(storage, bill.key))
    assert (status, headers["content-type"], body) == (200, "text/plain; charset=utf-8", b"%PDF")
    assert headers["content-disposition"] == 'attachment; filename="tax_20bill.pdf"'
    assert "content-encoding" not in headers
    link = await made(storage, html.key)
    assert (await fetched(link.replace("html.html?", "tax%2520bill.pdf?")))[0] == 403
    assert (await fetched(link.replace("attachment", "inline")))[0] == 403
    with pytest.raises(ValueError, match="604800"):
        await storage.link("job", html.key, 700_000)


async def made(storage: S3Results, key: str) -> str:
    link = await storage.link("job", key, 60)
    assert link is not None
    return link


@pytest.mark.req("Q3", "Z2")
async def test_large_bodies_go_in_parts_and_come_back_whole(storage: S3Results) -> None:
    body = bytes(range(256)) * (18 * MIB // 256) + b"end"
    await storage.open_lease("job", 1)
    ((artifact,),) = await storage.stage("job", 1, [StagedItem("a", {"scan.pdf": body}, first=True)])
    assert storage.meter.requests["s3.upload_part"] == 3
    assert await storage.get("job", artifact.key) == body
    assert artifact.sha256 == hashlib.sha256(body).hexdigest()
    await storage.put("job", {"exactly.bin": body[: 16 * MIB]})
    assert storage.meter.requests["s3.upload_part"] == 3


@pytest.mark.req("R1")
async def test_ids_and_names_longer_than_s3_allows_are_kept_and_given_back(aws: Endpoints, aws_name: str) -> None:
    job_id, wide = "\N{SNOWMAN}" * 200, ["\N{PILE OF POO}" * 1_000, "\N{PILE OF POO}" * 999 + "x", "y" * 900]
    storage, other = results(aws, aws_name), results(aws, aws_name)
    await storage.open_lease(job_id, 1)
    names = [page_file_name("z" * 700), page_file_name("z" * 701)]
    staged = [
        StagedItem(one, {name: f"{one}{name}".encode() for name in names}, first=n > 0) for n, one in enumerate(wide)
    ]
    answers = await storage.stage(job_id, 1, staged)
    await storage.settle(job_id, 1, wide[:2])
    await storage.put(job_id, {f"manifests/items/{encode_key(one)}.json": b"{}" for one in wide})
    for reader in (storage, other):
        files = await all_files(reader, job_id)
        assert files.keys() == {a.key for artifacts in answers[:2] for a in artifacts} | {
            f"manifests/items/{encode_key(one)}.json" for one in wide
        }
        assert files[f"items/{encode_key(wide[1])}/{names[0]}"] == f"{wide[1]}{names[0]}".encode()
        under = [key async for key in reader.keys(job_id, f"items/{encode_key(wide[0])}/")]
        assert sorted(under) == sorted(artifact.key for artifact in answers[0])
    await other.clear(job_id)
    assert await all_files(storage, job_id) == {}


@pytest.mark.req("R1", "Z2")
async def test_a_late_publisher_takes_nothing_away_from_a_later_lease(aws: Endpoints, aws_name: str) -> None:
    """It won a generation ago, and slept between its commit and publishing."""
    sleeper, rescuer, worker = (results(aws, aws_name) for _ in range(3))
    await sleeper.open_lease("job", 2)
    await sleeper.stage("job", 2, [item("a", b"old", first=False)])
    await rescuer.settle("job", 2, ["a"])
    await worker.open_lease("job", 9)
    ((new,),) = await worker.stage("job", 9, [item("a", b"new", first=False)])
    await worker.publish("job", 9, ["a"])
    await sleeper.publish("job", 2, ["a"])
    await sleeper.settle("job", 2, ["a"])
    await worker.settle("job", 9, ["a"])
    assert await all_files(rescuer) == {new.key: b"new"}


@pytest.mark.req("R1")
async def test_other_processes_list_what_is_published_when_its_lease_is_settled(aws: Endpoints, aws_name: str) -> None:
    worker, reader = results(aws, aws_name), results(aws, aws_name)
    await worker.open_lease("job", 1)
    ((won,), _) = await worker.stage("job", 1, [item("won"), item("lost")])
    assert await all_files(reader) == {}
    await worker.publish("job", 1, ["won"])
    assert await reader.get("job", won.key) == b"1"
    assert await all_files(worker) == {won.key: b"1"}
    assert await reader.open_leases("job") == [1]
    await worker.settle("job", 1, ["won"])
    assert await all_files(reader) == {won.key: b"1"}
    assert await reader.open_leases("job") == []


def test_where_a_job_lies_is_told_as_a_url() -> None:
    storage = S3Results.open("s3://bucket/some/prefix/?region=eu-west-1", FakeClock())
    assert storage.location("a b") == "s3://bucket/some/prefix/a%20b"
    assert S3Results.open("s3://bucket", FakeClock()).location("job") == "s3://bucket/job"


@pytest.mark.parametrize("url", ["s3:///prefix", "http://bucket/prefix", "bucket", f"s3://bucket/{'x' * 300}"])
def test_what_is_no_place_in_s3_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(UserError, match="s3://BUCKET/PREFIX") as refusal:
        S3Results.open(url, FakeClock())
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["../x", "a/../x", "/etc/passwd", "", "a//b", "a/", ".", ".leases/1/a", "a\0b"])
async def test_keys_that_would_leave_the_job_are_refused(storage: S3Results, key: str) -> None:
    for call in (
        storage.put("job", {key: b""}),
        storage.get("job", key),
        storage.stage("job", 1, [StagedItem("a", {key: b""})]),
        storage.read("job", key, 0, 1),
        storage.link("job", key, 1),
    ):
        with pytest.raises(ValueError, match="is no key inside a job"):
            await call
    assert storage.meter.of("s3") == 0
