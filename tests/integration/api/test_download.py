"""I2, Z7: one stored file over HTTP: whole, in ranges, and unable to do anything."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import StoreDamaged
from swath.domain.execution_policy import Keep
from swath.domain.result import Page, Result
from swath.entrypoints.api.artifacts import PIECE_BYTES, StoredFile
from swath.entrypoints.api.downloads import (
    ByteRange,
    RangeNotSatisfiable,
    requested_range,
    safe_content_type,
    safe_file_name,
)
from swath.pipeline.formats.artifacts import make_item_files
from tests.contract.suites.builders import new_job
from tests.integration.api.running import Api
from tests.integration.api.stored import with_files

pytestmark = pytest.mark.req("I2", "Z7")

INERT = {
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "private",
}
PLAIN = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
URL = "/jobs/job/items/item/download"
HTML = {"artifact": "html"}
HOSTILE = {
    "evil.html": b"<script>fetch('/jobs')</script>",
    "evil.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
    "evil.xml": b"<?xml version='1.0'?><x/>",
    "bill.pdf": b"%PDF-1.7 ...",
    "mixed.js": b"GIF8;alert(1)",
    "bom.html": b"\xef\xbb\xbf<html>",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_a_site_has_sent_is_saved_and_never_shown(api: Api, name: str) -> None:
    await with_files(api, {name: HOSTILE[name]})
    answer = await api.client.get(URL, params={"artifact": name})
    assert answer.status_code == 200
    assert answer.content == HOSTILE[name]
    assert {header: answer.headers.get(header) for header in INERT} == INERT
    assert answer.headers["content-type"] == PLAIN
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


async def test_images_are_told_by_how_they_begin_and_saved_like_all_others(api: Api) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    await with_files(api, {"screenshot.png": png, "no.png": b"<html>", "photo.bin": b"\xff\xd8\xff\xe0rest"})
    kinds = {"screenshot": "image/png", "no.png": PLAIN, "photo.bin": "image/jpeg"}
    for name, kind in kinds.items():
        answer = await api.client.get(URL, params={"artifact": name})
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-disposition"].startswith("attachment")
    assert safe_content_type(b"RIFF\x00\x00\x00\x00WEBPVP8 ", "*/*") == "image/webp"
    assert safe_content_type(b"RIFF\x00\x00\x00\x00WAVE", "") == PLAIN


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/octet-stream", BYTES),
        ("Application/Octet-Stream; q=0.9", BYTES),
        ("application/octet-stream, text/plain", PLAIN),
        ("application/octet-stream, */*;q=0.1", PLAIN),
        ("", PLAIN),
    ],
)
async def test_a_caller_that_accepts_bytes_only_gets_bytes(api: Api, accept: str, kind: str) -> None:
    await with_files(api, {"data.json": b"{}"})
    answer = await api.client.get(URL, params={"artifact": "data"}, headers={"Accept": accept})
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith("attachment")


def page(body: bytes) -> dict[str, bytes]:
    made = Page(name="html", url="https://demo.local/", status=200, body=body)
    listing = Page(name="list", url="https://demo.local/list", status=200, body=b"<ul></ul>")
    return make_item_files(new_job("job"), "item", Result(pages=(made, listing), data={"a": 1}), Keep.BOTH, {})


async def test_artifacts_have_words_and_names(api: Api) -> None:
    await with_files(api, page(b"<p>small</p>") | {"tax%20bill.pdf": b"%PDF"})
    found = {
        name: (await api.client.get(URL, params={"artifact": name})).content
        for name in ("html", "data", "list", "list.html", "tax bill.pdf", "tax%20bill.pdf")
    }
    assert found["html"] == b"<p>small</p>"
    assert found["data"] == b'{"a":1}'
    assert found["list"] == found["list.html"] == b"<ul></ul>"
    assert found["tax bill.pdf"] == found["tax%20bill.pdf"] == b"%PDF"
    assert (await api.client.get(URL)).content == b'{"a":1}'
    assert b'"scraper_id"' in (await api.client.get(URL, params={"artifact": "metadata"})).content


async def test_what_is_not_there_is_said_with_what_is(api: Api) -> None:
    await with_files(api, {"data.json": b"{}"})
    error = await api.error("GET", f"{URL}?artifact=screenshot")
    assert (error["code"], error["details"]) == ("artifact_not_found", {"artifacts": ["data.json"]})
    for name in ("../../swath.db", "..", "/etc/passwd", "data.json/..", "%2e%2e"):
        assert (await api.error("GET", URL, params={"artifact": name}))["code"] == "artifact_not_found"
    assert (await api.error("GET", "/jobs/job/items/nobody/download"))["code"] == "item_not_found"
    assert (await api.error("GET", "/jobs/nobody/items/item/download"))["code"] == "job_not_found"


async def test_a_packed_page_goes_packed_to_who_can_unpack_it_and_plain_to_others(api: Api) -> None:
    body = b"<p>a large page</p>" * 400
    await with_files(api, page(body))
    plain = await api.client.get(URL, params={"artifact": "html"}, headers={"Accept-Encoding": "identity"})
    assert (plain.content, plain.headers.get("content-encoding")) == (body, None)
    packed = await api.client.get(URL, params={"artifact": "html"}, headers={"Accept-Encoding": "gzip"})
    assert (packed.content, packed.headers["content-encoding"]) == (body, "gzip")  # the client unpacks
    assert int(packed.headers["content-length"]) < len(body)
    for answer in (plain, packed):
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["content-disposition"] == 'attachment; filename="html.html"'
        assert answer.headers["content-type"] == PLAIN
    assert plain.headers["etag"] != packed.headers["etag"]
    never = await api.client.get(URL, params={"artifact": "html"}, headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in never.headers


async def test_ranges_and_heads_of_a_packed_page_are_those_of_the_page(api: Api) -> None:
    """A download that broke off goes on, whether the caller unpacks or not."""
    body = b"".join(b"<p>%d</p>" % n for n in range(300_000))
    await with_files(api, page(body))
    plain = {"Accept-Encoding": "identity"}
    whole = await api.client.get(URL, headers=plain, params=HTML)
    assert (whole.content, whole.headers["accept-ranges"]) == (body, "bytes")
    assert whole.headers["content-length"] == str(len(body))
    head = await api.client.head(URL, headers=plain, params=HTML)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(body)))
    for start, end in (
        (0, 9),
        (PIECE_BYTES - 5, PIECE_BYTES + 5),
        (len(body) - 7, len(body) - 1),
        (5, 3 * PIECE_BYTES),
    ):
        some = await api.client.get(URL, headers={**plain, "Range": f"bytes={start}-{end}"}, params=HTML)
        last = min(end, len(body) - 1)
        assert (some.status_code, some.content) == (206, body[start : last + 1])
        assert some.headers["content-range"] == f"bytes {start}-{last}/{len(body)}"
        assert some.headers["content-length"] == str(len(some.content))
    beyond = await api.ask("GET", URL, headers={**plain, "Range": f"bytes={len(body)}-"}, params=HTML)
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(body)}")


async def test_a_range_of_a_packed_page_goes_on_only_with_the_same_representation(api: Api) -> None:
    body = b"<p>a large page</p>" * 400
    await with_files(api, page(body))
    plain = {"Accept-Encoding": "identity", "Range": "bytes=100-"}
    tags = [
        (await api.client.head(URL, headers={"Accept-Encoding": coding}, params=HTML)).headers["etag"]
        for coding in ("identity", "gzip")
    ]
    same = await api.client.get(URL, headers={**plain, "If-Range": tags[0]}, params=HTML)
    other = await api.client.get(URL, headers={**plain, "If-Range": tags[1]}, params=HTML)
    assert (same.status_code, same.content) == (206, body[100:])
    assert (other.status_code, other.content) == (200, body)


@pytest.mark.req("Z2")
async def test_no_end_is_handed_out_of_a_packed_page_that_somebody_has_changed(api: Api) -> None:
    body = b"<p>a large page</p>" * 400
    await with_files(api, page(body))
    file = stored_file(api, "html.html.gz")
    file.write_bytes(file.read_bytes()[:-9] + b"x" + file.read_bytes()[-8:])
    for headers in ({}, {"Range": "bytes=100-200"}):
        asked = {"Accept-Encoding": "identity", **headers}
        error = await api.error("GET", URL, params={"artifact": "html"}, headers=asked)
        assert error["code"] == "internal_error"


async def test_a_small_page_that_looks_packed_is_left_as_it_is(api: Api) -> None:
    body = gzip.compress(b"a site that sends gzip as a page")
    await with_files(api, page(body))
    answer = await api.client.get(URL, params={"artifact": "html"}, headers={"Accept-Encoding": "gzip"})
    assert (answer.content, answer.headers.get("content-encoding")) == (body, None)


async def test_ranges_etags_and_heads(api: Api) -> None:
    body = bytes(range(256)) * 10
    await with_files(api, {"data.json": body})
    whole = await api.client.get(URL)
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    assert (whole.status_code, whole.headers["etag"], whole.headers["accept-ranges"]) == (200, etag, "bytes")
    head = await api.client.head(URL)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(body))
    some = await api.client.get(URL, headers={"Range": "bytes=100-199"})
    assert (some.status_code, some.content) == (206, body[100:200])
    assert some.headers["content-range"] == f"bytes 100-199/{len(body)}"
    assert {header: some.headers.get(header) for header in INERT} == INERT
    part = await api.client.head(URL, headers={"Range": "bytes=-10"})
    assert (part.status_code, part.headers["content-length"]) == (206, "10")
    for asked in ("bytes=2560-", "bytes=9999-10000", "bytes=0-1,5-6", "bytes=-0"):
        answer = await api.ask("GET", URL, headers={"Range": asked})
        assert (answer.status_code, answer.json()["error"]["code"]) == (416, "range_not_satisfiable")
        assert answer.headers["content-range"] == f"bytes */{len(body)}"
    for asked in ("lines=1-2", "bytes=5-1", "bytes=", "bytes=a-b", "nonsense"):
        answer = await api.client.get(URL, headers={"Range": asked})
        assert (answer.status_code, answer.content) == (200, body), asked
    same = await api.client.get(URL, headers={"If-None-Match": f'"other", W/{etag}'})
    assert (same.status_code, same.content) == (304, b"")
    fresh = await api.client.get(URL, headers={"Range": "bytes=0-4", "If-Range": etag})
    stale = await api.client.get(URL, headers={"Range": "bytes=0-4", "If-Range": '"former"'})
    assert (fresh.status_code, stale.status_code, stale.content) == (206, 200, body)


@settings(deadline=None)
@given(
    size=st.integers(0, 40),
    first=st.none() | st.integers(0, 50),
    last=st.none() | st.integers(0, 50),
)
def test_a_range_is_the_slice_that_it_names(size: int, first: int | None, last: int | None) -> None:
    body = bytes(range(size))
    asked = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    if first is None and last is not None:
        expected = body[max(0, size - last) :] if last else b""
    else:
        expected = body[first or 0 : size if last is None else last + 1]
    try:
        span = requested_range(size, asked, None, '"x"')
    except RangeNotSatisfiable:
        assert expected == b""
        return
    nonsense = (first is None and last is None) or (first is not None and last is not None and last < first)
    assert span.ranged != nonsense
    assert body[span.start : span.end] == (body if nonsense else expected)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_names_to_save_under_are_ours(key: str) -> None:
    name = safe_file_name(key)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name)


async def test_large_files_come_in_pieces_and_whole(api: Api) -> None:
    body = b"0123456789abcdef" * (5 * PIECE_BYTES // 32) + b"end"
    await with_files(api, {"scan.pdf": body})
    whole = await api.client.get(URL, params={"artifact": "scan.pdf"})
    assert whole.headers["content-length"] == str(len(body))
    assert hashlib.sha256(whole.content).hexdigest() == hashlib.sha256(body).hexdigest()
    start = PIECE_BYTES - 5
    some = await api.client.get(
        URL, params={"artifact": "scan.pdf"}, headers={"Range": f"bytes={start}-{start + 2 * PIECE_BYTES}"}
    )
    assert some.content == body[start : start + 2 * PIECE_BYTES + 1]


def stored_file(api: Api, name: str) -> Path:
    return Path(api.services.storage.location("job")) / "items" / "item" / name


@pytest.mark.req("Z2")
async def test_a_file_that_is_not_what_was_stored_is_not_handed_out(api: Api) -> None:
    await with_files(api, {"data.json": b'{"right": 1}'})
    stored_file(api, "data.json").write_bytes(b'{"wrong": 1}')
    assert (await api.error("GET", URL))["code"] == "internal_error"
    stored_file(api, "data.json").unlink()
    assert (await api.error("GET", URL))["code"] == "internal_error"


@pytest.mark.req("Z2")
async def test_of_a_large_one_nobody_gets_the_end(api: Api) -> None:
    body = bytes(3 * PIECE_BYTES)
    await with_files(api, {"scan.pdf": body})
    stored_file(api, "scan.pdf").write_bytes(body[:-1] + b"x")
    record = await api.services.store.item("job", "item")
    stored = StoredFile(api.services.storage, "job", record, record.artifacts[0])
    got: list[bytes] = []

    async def take() -> None:
        async for piece in stored.pieces(ByteRange(0, len(body), len(body)), await stored.read(0, PIECE_BYTES)):
            got.append(piece)  # noqa: PERF401 what came before the error counts

    with pytest.raises(StoreDamaged, match="has other bytes than were stored"):
        await take()
    assert [len(piece) for piece in got] == [PIECE_BYTES, PIECE_BYTES]


async def test_ids_may_be_anything(api: Api) -> None:
    await with_files(api, {"data.json": b"{}"}, item_id="a/../b c%2F", job_id="j/1")
    url = f"/jobs/{quote('j/1', safe='')}/items/{quote('a/../b c%2F', safe='')}/download"
    assert (await api.client.get(url)).content == b"{}"


async def test_there_is_no_link_to_a_folder(api: Api) -> None:
    await with_files(api, {"data.json": b"{}"})
    found = await api.data("GET", f"{URL}?link=true")
    assert found == {"link": None, "seconds": 300, "size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_range_over_http_is_that_slice(shared_api: Api, loop_runner: asyncio.Runner, data: st.DataObject) -> None:
    body = bytes(range(200))

    async def ask() -> None:
        if not (await shared_api.client.get("/jobs/ranges")).is_success:
            await with_files(shared_api, {"data.json": body}, job_id="ranges")
        start = data.draw(st.integers(0, 199))
        end = data.draw(st.integers(start, 250))
        answer = await shared_api.client.get(
            "/jobs/ranges/items/item/download", headers={"Range": f"bytes={start}-{end}"}
        )
        assert (answer.status_code, answer.content) == (206, body[start : end + 1])
        assert answer.headers["content-length"] == str(len(answer.content))

    loop_runner.run(ask())
