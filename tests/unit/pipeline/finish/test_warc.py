"""WARC records as others read them: with warcio, which knows nothing of us, and with our own reader."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]
from warcio.checker import Checker  # type: ignore[import-untyped]

from swath.domain.result import Exchange, Page, Result
from swath.domain.storage_keys import WARC_SUFFIX, Layout
from swath.pipeline.formats.packs import Packer
from swath.pipeline.formats.warc import GzipError, RecordIds, info_record, locate_body, page_records, read_body
from swath.ports.result_storage import PackAppend
from tests.contract.suites.builders import new_job

pytestmark = pytest.mark.req("R2")

EXCHANGE = Exchange(
    method="POST",
    request_headers=(
        *(("User-Agent", "swath"), ("Cookie", "session=1234"), ("Authorization", "Bearer abcd")),
        *(("X-Api-Key", "k3y"), ("X-Anything", "may be a key"), ("Sec-Fetch-Mode", "navigate")),
    ),
    response_headers=(
        ("content-type", "text/html; charset=utf-8"),
        ("content-encoding", "gzip"),
        ("content-length", "17"),
        ("set-cookie", "session=1234; Path=/"),
        ("x-csrf-token", "t0ken"),
        ("server", "nginx"),
    ),
)


def page(body: bytes = b"<p>Ann</p>", exchange: Exchange | None = EXCHANGE, url: str = "https://a.test/x?y=1") -> Page:
    return Page(name="html", url=url, status=200, body=body, fetched_at=1_700_000_000.25, exchange=exchange)


def records(*members: bytes) -> list[tuple[str, str | None, dict[str, str], bytes]]:
    """Kind, address, HTTP headers and content, by warcio, which checks digests too."""
    found = []
    for record in ArchiveIterator(io.BytesIO(b"".join(members)), check_digests="raise"):
        content = record.content_stream().read()
        headers = {} if record.http_headers is None else dict(record.http_headers.headers)
        found.append((record.rec_type, record.rec_headers.get_header("WARC-Target-URI"), headers, content))
    return found


def test_a_page_is_a_request_and_a_response_with_their_headers() -> None:
    one = page()
    (_, _, _, told), request, response = records(
        info_record("swath/1", "job", RecordIds()), *page_records(one, one.sha256, "a/x", RecordIds())
    )
    assert b"isPartOf: job" in told
    assert request[:2] == ("request", "https://a.test/x?y=1")
    assert request[2] == {
        "Host": "a.test",
        "User-Agent": "swath",
        **dict.fromkeys(("Cookie", "Authorization", "X-Api-Key", "X-Anything"), "masked"),
        "Sec-Fetch-Mode": "navigate",
    }
    assert response[:2] == ("response", "https://a.test/x?y=1")
    assert response[2] == {
        "content-type": "text/html; charset=utf-8",
        "X-Crawler-content-encoding": "gzip",
        "X-Crawler-content-length": "17",
        "set-cookie": "masked",
        "x-csrf-token": "masked",
        "server": "nginx",
        "Content-Length": "10",
    }
    assert response[3] == b"<p>Ann</p>"


def test_a_page_nobody_knows_the_exchange_of_is_a_resource() -> None:
    one = page(exchange=None, url="")
    before, record = page_records(one, one.sha256, "a/x", RecordIds())
    assert before == b""
    assert [(kind, url, content) for kind, url, _, content in records(record)] == [
        ("resource", "urn:swath:none", one.body)
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
headers = st.lists(st.tuples(st.text(st.characters(codec="ascii"), min_size=1, max_size=10), texts), max_size=4).map(
    tuple
)


@settings(max_examples=60)
@given(
    body=st.binary(max_size=300),
    url=texts | texts.map(lambda text: f"http://a.test/{text}"),
    exchange=st.none()
    | st.builds(Exchange, method=st.sampled_from(["GET", "POST"]), request_headers=headers, response_headers=headers),
)
def test_whatever_a_site_says_the_body_comes_back_and_the_records_stay_apart(
    body: bytes, url: str, exchange: Exchange | None
) -> None:
    one = page(body, exchange, url)
    before, record = page_records(one, one.sha256, "a/x", RecordIds())
    assert read_body(record) == body
    found = records(before, record)
    assert [kind for kind, *_ in found] == (
        ["resource"] if exchange is None or not url.startswith("http://") else ["request", "response"]
    )
    assert found[-1][3] == body


@settings(max_examples=30)
@given(body=st.binary(max_size=60) | st.just(b"\r\n\r\n" * 3), exchange=st.sampled_from([None, EXCHANGE]))
def test_the_beginning_of_a_record_tells_where_the_page_is(body: bytes, exchange: Exchange | None) -> None:
    one = page(body, exchange)
    record = zlib.decompress(page_records(one, one.sha256, "a/x", RecordIds())[1], 31)
    place = locate_body(record)
    assert place is not None
    assert (record[place.start : place.end], place.size, place.sha256) == (body, len(body), one.sha256)
    told = [locate_body(record[:cut]) for cut in range(len(record))]
    assert told == [None if cut < place.start else place for cut in range(len(record))]


INJECTED = (
    "x\r\nWARC-Type: metadata\r\n\r\nWARC/1.1\r\n\n\x0b\x0c\x1c\x85\u2028\u2029\0:\ud800\N{RIGHT-TO-LEFT OVERRIDE}"
)
NAMES_OF_HEADERS = {
    "WARC-Type", "WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Payload-Digest", "WARC-Concurrent-To",
    "Swath-File", "Content-Type", "Content-Length",
}  # fmt: skip
HEADERS = ((INJECTED, "v"), ("", "v"), (":", "v"))
LENGTHS = (("Content-Length", "0"), ("content-length ", "0"), ("Transfer-Encoding", "chunked"))
ATTACKS: dict[str, dict[str, Any]] = {
    "url": {"url": f"https://a.test/{INJECTED}"},
    "host": {"url": f"https://{INJECTED}/"},
    "no web address": {"url": INJECTED},
    "half a character": {"url": "https://a.test/\ud800"},
    "content type": {"content_type": INJECTED, "charset": INJECTED, "exchange": None},
    "status": {"status": -1},
    "method": {"exchange": Exchange(method=INJECTED)},
    "header names": {"exchange": Exchange(method="GET", request_headers=HEADERS, response_headers=HEADERS)},
    "header values": {
        "exchange": Exchange(
            method="GET", request_headers=(("Accept", INJECTED),), response_headers=(("Server", INJECTED), ("X", ""))
        )
    },
    "lengths": {"exchange": Exchange(method="GET", response_headers=LENGTHS)},
    "name": {"name": INJECTED},
}


@pytest.mark.req("Z5", "Z7")
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_site_or_an_author_says_begins_a_header_or_a_record(attack: str) -> None:
    packer = Packer(msgspec.structs.replace(new_job("job"), layout=Layout.WARC))
    hostile = msgspec.structs.replace(page(), **ATTACKS[attack])
    packer.add(INJECTED, Result(pages=(hostile,)), {})
    packer.add("next", Result(pages=(page(b"next"),)), {})
    records, kinds, bodies = list(_all_in(packer.additions()[WARC_SUFFIX])), [], []
    for record_headers, http_headers, content in records:
        assert {name for name, _ in record_headers} <= NAMES_OF_HEADERS
        kinds.append(dict(record_headers)["WARC-Type"])
        if kinds[-1] == "response":
            assert [value for name, value in http_headers if name.lower() == "content-length"] == [str(len(content))]
        told = [*record_headers, *http_headers]
        assert all(name and name.isprintable() for name, _ in told)
        assert all(len(value.splitlines()) <= 1 and "\0" not in value for _, value in told)
        bodies.append(content)
    first = ["resource"] if dict(records[1][0])["WARC-Type"] == "resource" else ["request", "response"]
    assert kinds == ["warcinfo", *first, "request", "response"]
    assert bodies[len(first)] == hostile.body
    assert bodies[-1] == b"next"


def _all_in(added: PackAppend) -> Iterator[tuple[list[tuple[str, str]], list[tuple[str, str]], bytes]]:
    for record in ArchiveIterator(io.BytesIO(added.head + added.data), check_digests="raise"):
        content = record.content_stream().read()
        yield record.rec_headers.headers, [] if record.http_headers is None else record.http_headers.headers, content


def test_the_name_of_a_job_begins_no_header_of_a_file() -> None:
    ((_, _, _, told),) = records(info_record("swath/1", INJECTED, RecordIds()))
    assert [line.partition(b":")[0] for line in told.split(b"\r\n")] == [b"software", b"format", b"isPartOf", b""]


@pytest.mark.parametrize("kind", ["request", "warcinfo"])
def test_a_record_of_something_else_is_no_page(kind: str) -> None:
    ids = RecordIds()
    member = info_record("swath/1", "job", ids)
    if kind == "request":
        member, _ = page_records(page(), page().sha256, "a/x", ids)
    with pytest.raises(ValueError, match="no WARC record of a page"):
        read_body(member)


def test_an_answer_without_an_end_of_its_head_is_no_page() -> None:
    one = page(b"", None)
    resource = zlib.decompress(page_records(one, one.sha256, "a/x", RecordIds())[1], 31)
    with pytest.raises(ValueError, match="no whole answer"):
        read_body(_member(resource.replace(b"WARC-Type: resource", b"WARC-Type: response")))


@pytest.mark.parametrize("damage", ["short", "garbled", "no record"])
def test_what_is_no_record_is_told(damage: str) -> None:
    one = page()
    _, record = page_records(one, one.sha256, "a/x", RecordIds())
    member = {"short": record[:-9], "garbled": b"x" + record[1:], "no record": _member(b"WARC/1.1\r\n")}[damage]
    with pytest.raises((ValueError, GzipError)):
        read_body(member)


def _member(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=31)
    return packing.compress(data) + packing.flush()


def test_the_checker_of_warcio_has_nothing_to_say(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    pages = [page(), page(b"", EXCHANGE), page(b"%PDF" * 1_000, None, "https://a.test/b.pdf")]
    whole = info_record("swath/1", "job", RecordIds()) + b"".join(
        part for one in pages for part in page_records(one, one.sha256, "a/x", RecordIds())
    )
    with open(f"{folder}/x.warc.gz", "wb") as file:  # noqa: PTH123 a plain file for a plain tool
        file.write(whole)
    checker = Checker(_Options(f"{folder}/x.warc.gz"))
    checker.process_all()
    assert checker.exit_value == 0
    assert "fail" not in capsys.readouterr().out


class _Options:
    """The command line of `warcio check`."""

    def __init__(self, file: str) -> None:
        self.inputs = [file]
        self.verbose = True
