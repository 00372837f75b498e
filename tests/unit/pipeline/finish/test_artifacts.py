"""Which files an item has, and that pages come back from them as they were."""

from __future__ import annotations

import gzip
import hashlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import BadInput
from swath.domain.execution_policy import Keep
from swath.domain.job import Job
from swath.domain.result import Artifact, Download, Page, Result
from swath.pipeline.formats.artifacts import make_item_files, read_pages
from swath.pipeline.formats.stored_files import decode_item_files

JOB = Job(job_id="job", scraper_id="demo-county")
SMALL, LARGE = b"<p>small</p>", b"<p>large</p>" * 200


def page(name: str = "html", body: bytes = LARGE) -> Page:
    return Page(name=name, url="https://demo.local/a?b=c", status=200, body=body, fetched_at=12.5)


def download(name: str, body: bytes = b"") -> Download:
    return Download(name, Page(name="html", url="https://demo.local/file", status=200, body=body))


@pytest.mark.req("R1")
def test_an_item_has_the_files_of_the_layout() -> None:
    result = Result(
        pages=(page("html", SMALL), page("detail", LARGE)),
        downloads=(download("bill.pdf", b"%PDF"),),
        data={"owner": "A"},
    )
    files = make_item_files(JOB, "100-01-001", result, Keep.BOTH, {"scraper_version": "3", "outcome": "found"})
    assert list(files) == ["html.html", "detail.html.gz", "bill.pdf", "data.json", "metadata.json"]
    assert files["html.html"] == SMALL
    assert gzip.decompress(files["detail.html.gz"]) == LARGE
    assert files["bill.pdf"] == b"%PDF"
    assert json.loads(files["data.json"]) == {"owner": "A"}
    metadata = json.loads(files["metadata.json"])
    assert metadata["pages"][1] == {
        "name": "detail",
        "file": "detail.html.gz",
        "url": "https://demo.local/a?b=c",
        "status": 200,
        "content_type": "text/html",
        "charset": "utf-8",
        "fetched_at": 12.5,
        "sha256": hashlib.sha256(LARGE).hexdigest(),
        "size": len(LARGE),
    }
    del metadata["pages"]
    (bill,) = metadata.pop("downloads")
    assert (bill["name"], bill["file"], bill["sha256"]) == (
        *("bill.pdf", "bill.pdf"),
        hashlib.sha256(b"%PDF").hexdigest(),
    )
    assert metadata == {
        "job_id": "job",
        "item_id": "100-01-001",
        "scraper_id": "demo-county",
        "scraper_version": "3",
        "outcome": "found",
    }


@pytest.mark.req("R1")
def test_pages_over_one_kibibyte_are_compressed() -> None:
    for size, file in ((0, "html.html"), (1_024, "html.html"), (1_025, "html.html.gz")):
        files = make_item_files(JOB, "a", Result(pages=(page(body=b"x" * size),)), Keep.PAGES, {})
        assert list(files) == [file, "metadata.json"]


def test_the_same_page_gives_the_same_bytes_without_a_time_in_them() -> None:
    once, again = (make_item_files(JOB, "a", Result(pages=(page(),)), Keep.BOTH, {}) for _ in range(2))
    assert once == again
    assert once["html.html.gz"][4:8] == bytes(4)  # the header's time


@pytest.mark.parametrize(
    ("keep", "names"),
    [
        (Keep.BOTH, {"html.html", "data.json", "metadata.json"}),
        (Keep.PAGES, {"html.html", "metadata.json"}),
        (Keep.DATA, {"data.json", "metadata.json"}),
    ],
)
def test_only_what_is_to_be_kept_is_stored(keep: Keep, names: set[str]) -> None:
    files = make_item_files(JOB, "a", Result(pages=(page(body=SMALL),), data=[1]), keep, {})
    assert set(files) == names
    (listed,) = json.loads(files["metadata.json"])["pages"]
    assert listed["file"] == ("html.html" if keep.pages else None)
    assert listed["sha256"] == hashlib.sha256(SMALL).hexdigest()
    assert len(read_pages(files)) == keep.pages


def test_an_item_without_a_result_still_has_its_metadata() -> None:
    files = make_item_files(JOB, "a", None, Keep.BOTH, {"failure": {"kind": "timeout"}})
    assert list(files) == ["metadata.json"]
    assert json.loads(files["metadata.json"])["failure"] == {"kind": "timeout"}
    assert read_pages(files) == ()


def test_falsy_data_is_data() -> None:
    assert make_item_files(JOB, "a", Result(data=[]), Keep.BOTH, {})["data.json"] == b"[]"
    assert "data.json" not in make_item_files(JOB, "a", Result(data=None), Keep.BOTH, {})


def test_what_we_know_of_an_item_is_not_overwritten_by_what_is_told_about_it() -> None:
    files = make_item_files(JOB, "a", None, Keep.BOTH, {"item_id": "other", "pages": "none"})
    assert json.loads(files["metadata.json"])["item_id"] == "a"


def test_a_download_never_takes_the_place_of_a_file_of_ours() -> None:
    ours = ("html.html", "html.html.gz", "data.json", "metadata.json", "screenshot.png")
    result = Result(pages=(page(),), downloads=tuple(download(name, b"theirs") for name in ours), data={})
    files = make_item_files(JOB, "a", result, Keep.BOTH, {})
    assert len(files) == 3 + len(ours)
    assert sum(body == b"theirs" for body in files.values()) == len(ours)
    listed = json.loads(files["metadata.json"])["downloads"]
    assert [files[one["file"]] for one in listed] == [b"theirs"] * len(ours)


def test_half_characters_from_a_site_do_not_stop_an_item() -> None:
    odd = Page(name="html", url="https://demo.local/\ud800", status=200, body=b"x")
    result = Result(
        pages=(odd,), downloads=(download("\ud800.pdf"),), data={"a": ["\udce9t\u00e9", {"\ud83d\ude00": None}]}
    )
    files = make_item_files(JOB, "a", result, Keep.BOTH, {})
    assert json.loads(files["data.json"]) == {"a": ["\ufffdt\u00e9", {"\U0001f600": None}]}
    assert [page.url for page in read_pages(files)] == ["https://demo.local/\ufffd"]


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        make_item_files(JOB, "a", Result(pages=(page(body=SMALL), page(body=LARGE))), Keep.BOTH, {})
    with pytest.raises(ValueError, match="same name"):
        make_item_files(JOB, "a", Result(downloads=(download("x"), download("x"))), Keep.BOTH, {})


def test_stored_pages_that_were_damaged_are_told_in_one_line() -> None:
    files = make_item_files(JOB, "a", Result(pages=(page(),)), Keep.BOTH, {})
    damaged = [
        {**files, "html.html.gz": files["html.html.gz"][:-9]},
        {**files, "html.html.gz": gzip.compress(b"other")},
        {**files, "metadata.json": b"{"},
        {"metadata.json": files["metadata.json"]},
        {},
    ]
    for broken in damaged:
        with pytest.raises(BadInput, match="swath jobs verify") as raised:
            read_pages(broken)
        assert "\n" not in str(raised.value)


text = st.text(st.characters(codec="utf-8"), max_size=20)
pages = st.builds(
    Page,
    name=text,
    url=text,
    status=st.integers(100, 999),
    body=st.binary(max_size=3_000) | st.integers(0, 100_000).map(lambda n: b"<td>" * n),
    content_type=text,
    charset=text,
    fetched_at=st.floats(0, 4e9),
    from_cache=st.booleans(),
)


@pytest.mark.req("R1", "R6")
@settings(max_examples=100, deadline=None)
@given(
    kept=st.lists(pages, max_size=4, unique_by=lambda page: page.name),
    downloads=st.dictionaries(text, st.binary(max_size=9), max_size=3),
    data=st.none() | st.dictionaries(text, text, max_size=3),
)
def test_pages_come_back_as_they_were_fetched(kept: list[Page], downloads: dict[str, bytes], data: object) -> None:
    result = Result(pages=tuple(kept), downloads=tuple(download(*file) for file in downloads.items()), data=data)
    files = make_item_files(JOB, "a", result, Keep.BOTH, {"outcome": "found"})
    assert len(files) == len(kept) + len(downloads) + (data is not None) + 1
    artifacts = [Artifact(f"items/a/{name}", len(body), "") for name, body in files.items()]
    back = read_pages(decode_item_files("job", "a", artifacts, list(files.values())))
    assert [page.digest for page in back] == [page.sha256 for page in kept]
    assert [msgspec.structs.replace(page, digest="") for page in back] == kept
