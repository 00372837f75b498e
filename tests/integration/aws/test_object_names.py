"""Names of objects fit into S3 and stay distinct, whatever the ids are (property 47)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.backends.aws.s3.object_names import ItemPrefix, complete_part, job_folder, long_pieces, shorten
from swath.domain.storage_keys import download_file_name, encode_key, page_file_name

odd = st.sampled_from(["", ".", "..", "a/b", "con", "~", "~12", "%", "~=", "a b", "\n", ".git", "1", "x" * 180])
wide = st.integers(1, 1_000).map(lambda n: "\N{PILE OF POO}" * n)
names = st.text(max_size=30) | odd | wide | st.text("ab.~%", min_size=170, max_size=600)
fences = st.integers(1, 10**9)


def key_of(item_id: str, fence: int, first: bool, name: str) -> str:
    return ItemPrefix.of(item_id, fence, first=first).folder + name


@pytest.mark.req("R1")
@given(job_id=names.filter(lambda name: len(name) <= 200), item_id=names, name=names, fence=fences, first=st.booleans())
def test_every_name_fits_and_says_who_wrote_it(job_id: str, item_id: str, name: str, fence: int, first: bool) -> None:
    for file in (page_file_name(name), download_file_name(name)):
        key = key_of(item_id, fence, first, file)
        path = f"{'p' * 200}/{job_folder(job_id)}/{shorten(key)}"
        assert len(path.encode()) <= 1_024
        assert all(0 < len(segment) <= 255 for segment in path.split("/"))
        assert ItemPrefix.of_key(key) == ItemPrefix(encode_key(item_id), 0 if first else fence)
        assert ItemPrefix.of_key(key) == ItemPrefix.of(item_id, fence, first=first)
        assert all(len(cut) < len(piece) for cut, piece in long_pieces(key).items())
        prefix = f"items/{encode_key(item_id)}/"
        assert complete_part(prefix) == prefix
        assert shorten(key).startswith(shorten(prefix))


@pytest.mark.req("R1")
@given(one=st.tuples(names, fences, st.booleans(), names), other=st.tuples(names, fences, st.booleans(), names))
def test_distinct_files_have_distinct_paths(one: tuple[str, int, bool, str], other: tuple[str, int, bool, str]) -> None:
    keys = [key_of(item_id, fence, first, download_file_name(name)) for item_id, fence, first, name in (one, other)]
    same_file = (one[0], one[3], 0 if one[2] else one[1]) == (other[0], other[3], 0 if other[2] else other[1])
    assert (keys[0] == keys[1]) == same_file
    assert (shorten(keys[0]) == shorten(keys[1])) == same_file
    assert (job_folder(one[0]) == job_folder(other[0])) == (one[0] == other[0])


@pytest.mark.req("R1")
@given(key=names.map(encode_key), cut=st.integers(0, 700))
def test_what_is_listed_for_a_prefix_has_every_key_that_begins_so(key: str, cut: int) -> None:
    whole = f"items/{key}/data.json"
    prefix = whole[:cut]
    assert prefix.startswith(complete_part(prefix))
    assert f"{shorten(whole)}/".startswith(shorten(complete_part(prefix)))
