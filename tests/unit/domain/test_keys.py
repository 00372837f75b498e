"""Names of stored files: safe, distinct and reversible for any id (property 47)."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from swath.domain.storage_keys import (
    RESERVED_FILES,
    SCREENSHOT_FILE,
    decode_key,
    download_file_name,
    encode_key,
    page_file_name,
)

# Any text at all, lone surrogates too, and text that comes near to what is dangerous.
anything = st.text(st.characters(exclude_categories=()), max_size=40)
dangerous = st.lists(
    st.sampled_from(
        [".", "..", "/", "\\", "%", "%2E", "~", "~/", "\0", " ", "con", "NUL", "com1", "a", "A" * 179, "é", "\udc80",
         ".html", ".html.gz", "data.json", "\n", ":", "*"]
    ),
    max_size=8,
).map("".join)  # fmt: skip
names = anything | dangerous

DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


def is_safe(key: str) -> bool:
    return all(is_safe_segment(segment) for segment in key.split("/"))


def is_safe_segment(segment: str) -> bool:
    return (
        0 < len(segment) <= 190  # room for a suffix below the 255 of file systems
        and segment.isascii()
        and all(c.isalnum() or c in "-_.%~" for c in segment)
        and not segment.startswith(".")
        and not segment.endswith(".")
        and segment.split(".", maxsplit=1)[0].lower() not in DEVICES
    )


@pytest.mark.req("R1")
@given(name=names)
@example(name="")
@example(name="con.\n")
@example(name="a" * 180 + "con")
@example(name="a" * 180 + "con.txt")
@example(name="a" * 180 + ".x")
@example(name="a" * 179 + "é")
@example(name="COM٣")
def test_property_47_a_key_is_safe_and_can_be_turned_back(name: str) -> None:
    key = encode_key(name)
    assert is_safe(key)
    assert decode_key(key) == name


@pytest.mark.req("R1")
@given(first=names, second=names)
def test_property_47_different_names_have_different_keys(first: str, second: str) -> None:
    assume(first != second)
    assert encode_key(first) != encode_key(second)
    assert page_file_name(first) != page_file_name(second)
    assert download_file_name(first) != download_file_name(second)


@pytest.mark.req("R1")
@given(first=names, second=names)
def test_no_key_is_the_folder_of_another(first: str, second: str) -> None:
    assert not encode_key(first).startswith(encode_key(second) + "/")


@pytest.mark.req("R1")
@given(page=names, download=names)
@example(page="html", download="html.html")
@example(page="a", download="a.html.gz")
@example(page="a", download="a%2Ehtml")
@example(page="", download=".html")
@example(page="", download="%.html")
def test_property_47_pages_downloads_and_our_own_files_never_meet(page: str, download: str) -> None:
    ours = {page_file_name(page), page_file_name(page) + ".gz"}
    assert download_file_name(download) not in ours | RESERVED_FILES
    assert not ours & RESERVED_FILES


@pytest.mark.req("R1")
@given(name=names)
@example(name="a" * 180 + "con")
def test_names_of_pages_and_downloads_are_safe_and_downloads_can_be_turned_back(name: str) -> None:
    assert is_safe(page_file_name(name))
    assert is_safe(page_file_name(name) + ".gz")
    assert is_safe(download_file_name(name))
    assert decode_key(download_file_name(name)) == name


@pytest.mark.req("R1")
@pytest.mark.parametrize("name", ["123-45-678", "Item_1", "a.b-c_d.pdf", "X", "-x", "console", "com10", "nullable.txt"])
def test_plain_names_stay_as_they_are(name: str) -> None:
    assert encode_key(name) == name


@pytest.mark.req("R1")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("", "%"),
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("end.", "end%2E"),
        ("50%", "50%25"),
        ("é", "%C3%A9"),
        ("~", "%7E"),
        ("CON", "%43ON"),
        ("nul.txt", "%6Eul.txt"),
    ],
)
def test_other_names_are_written_in_codes(name: str, key: str) -> None:
    assert encode_key(name) == key


@pytest.mark.req("R1")
def test_a_name_too_long_for_a_file_system_is_split_over_folders() -> None:
    name = "ü" * 1_000
    segments = encode_key(name).split("/")
    assert len(segments) > 1
    assert all(len(segment) <= 190 for segment in segments)
    assert decode_key(encode_key(name)) == name


@pytest.mark.req("R1")
def test_reserved_names_can_be_downloads_too() -> None:
    assert page_file_name("html") == "html.html"
    assert {download_file_name(name) for name in RESERVED_FILES} == {"data%2Ejson", "metadata%2Ejson"}
    assert download_file_name(SCREENSHOT_FILE) == "screenshot.png"
    assert download_file_name("bill.pdf") == "bill.pdf"
