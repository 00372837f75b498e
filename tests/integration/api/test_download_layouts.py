"""R2, I2, Z7: a stored file over HTTP is the same whatever layout it lies in, and so are its headers."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from swath.domain.result import Download
from swath.domain.storage_keys import Layout, PackLocation
from swath.entrypoints.api.artifacts import PIECE_BYTES
from tests.integration.api.pages import served
from tests.integration.api.running import Api
from tests.unit.pipeline.making import BOTH_LAYOUTS, Made, make_job, page

pytestmark = pytest.mark.req("R2", "I2", "Z7")

URL = "/jobs/job/items/a%2Fb%20c/download"
PLAIN = {"Accept-Encoding": "identity"}
LARGE = b"".join(b"<p>%d</p>" % n for n in range(100_000))
FILES = {
    "html": b"<p>\xff small</p>",
    "bill": LARGE,
    "tax bill.pdf": b"%PDF-1.7" + bytes(range(256)) * 3_000,
    "data": b'{"owner":"\xc3\x84","n":1}',
}
NAMES = {"html": "html.html", "bill": "bill.html", "tax bill.pdf": "tax_20bill.pdf", "data": "data.json"}
ITEM = Made(
    data={"owner": "Ä", "n": 1},
    pages=(page("html", FILES["html"]), page("bill", LARGE)),
    downloads=(Download("tax bill.pdf", page("tax", FILES["tax bill.pdf"])),),
)


async def stored(api: Api, layout: Layout, job_id: str = "job") -> None:
    await make_job(api.services.store, api.services.storage, api.services.clock, {"a/b c": ITEM}, job_id, layout)


async def test_layouts_differ_in_nothing_that_a_caller_sees(api: Api) -> None:
    await stored(api, Layout.FILES, "files")
    await stored(api, Layout.WARC, "packed")
    for name, body in FILES.items():
        urls = [URL.replace("/job/", f"/{job}/") for job in ("files", "packed")]
        answers = [await api.client.get(url, params={"artifact": name}, headers=PLAIN) for url in urls]
        seen = [{k: v for k, v in a.headers.items() if k not in ("x-request-id", "etag", "vary")} for a in answers]
        assert seen[0] == seen[1]
        assert seen[1]["content-disposition"] == f'attachment; filename="{NAMES[name]}"'
        assert seen[1]["content-security-policy"] == "sandbox; default-src 'none'"
        assert [answer.content for answer in answers] == [body, body]
        assert answers[1].headers["etag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    metadata = (await api.client.get(URL.replace("/job/", "/packed/"), params={"artifact": "metadata"})).json()
    assert (metadata["item_id"], [one["file"] for one in metadata["pages"]]) == ("a/b c", ["html.html", "bill.html"])
    assert "owner" not in metadata


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("layout", BOTH_LAYOUTS)
async def test_ranges_heads_and_tags_are_those_of_the_file(api: Api, layout: Layout, name: str) -> None:
    await stored(api, layout)
    body, asked = FILES[name], {"artifact": name}
    head = await api.client.head(URL, params=asked, headers=PLAIN)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(body)))
    for start, end in ((0, 3), (5, 9), (PIECE_BYTES - 5, PIECE_BYTES + 5), (3, 10**9), (2, 2 * PIECE_BYTES)):
        ranged = {**PLAIN, "Range": f"bytes={start}-{end}"}
        answer = await api.client.get(URL, params=asked, headers=ranged)
        if start >= len(body):
            assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(body)}")
            continue
        last = min(end, len(body) - 1)
        assert (answer.status_code, answer.content) == (206, body[start : last + 1])
        assert answer.headers["content-range"] == f"bytes {start}-{last}/{len(body)}"
    etag = head.headers["etag"]
    same = await api.client.get(URL, params=asked, headers={**PLAIN, "If-None-Match": etag})
    assert (same.status_code, same.content) == (304, b"")
    stale = await api.client.get(URL, params=asked, headers={**PLAIN, "Range": "bytes=1-2", "If-Range": '"other"'})
    assert (stale.status_code, stale.content) == (200, body)


async def test_there_is_no_link_to_a_part_of_a_pack(api: Api) -> None:
    await stored(api, Layout.WARC)
    for name, body in FILES.items():
        found = await api.data("GET", URL, params={"link": True, "artifact": name})
        told = {"link": None, "seconds": 300, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        assert found == told, "size and hash are those of the file, not of its record"


async def test_what_is_not_there_is_said_with_what_is(api: Api) -> None:
    await stored(api, Layout.WARC)
    error = await api.error("GET", f"{URL}?artifact=screenshot")
    expected = ["bill.html", "data.json", "html.html", "metadata.json", "tax%20bill.pdf"]
    assert (error["code"], sorted(error["details"]["artifacts"])) == ("artifact_not_found", expected)


@pytest.mark.req("Z2")
@pytest.mark.parametrize("name", ["html", "bill", "data"])
async def test_a_damaged_pack_is_not_handed_out(api: Api, name: str) -> None:
    await stored(api, Layout.WARC)
    record = await api.services.store.item("job", "a/b c")
    places = {at.name: at for artifact in record.artifacts if (at := PackLocation.of(artifact.key))}
    at = places[NAMES[name]]
    pack = Path(api.services.storage.location("job")) / at.pack
    content = bytearray(pack.read_bytes())
    content[at.start + at.length // 2] ^= 1
    pack.write_bytes(content)
    for method in ("GET", "HEAD"):
        answer = await api.client.request(method, URL, params={"artifact": name})
        assert answer.status_code == 500
    pack.unlink()
    assert (await api.error("GET", URL, params={"artifact": name}))["code"] == "internal_error"


async def test_many_callers_at_once_each_get_all_of_it(api: Api) -> None:
    await stored(api, Layout.WARC)
    async with served(api) as client:
        asked = [client.get(URL, params={"artifact": "bill"}) for _ in range(12)]
        assert [answer.content == LARGE for answer in await asyncio.gather(*asked)] == [True] * 12
