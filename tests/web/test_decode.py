import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.web.decode import Body


@given(st.binary(max_size=5_000), st.lists(st.integers(1, 700), max_size=30))
def test_a_body_comes_out_the_same_however_it_is_cut(content: bytes, cuts: list[int]) -> None:
    encoded = gzip.compress(content)
    body = Body("gzip", 10_000)
    for size in [*cuts, len(encoded)]:
        if encoded:
            body.feed(encoded[:size])
            encoded = encoded[size:]
    assert body.whole() == content


def test_a_body_of_exactly_the_cap_passes_and_one_byte_more_does_not() -> None:
    fits = Body("gzip", 1_000)
    fits.feed(gzip.compress(b"x" * 1_000))
    assert len(fits.whole()) == 1_000
    with pytest.raises(Failed) as raised:
        Body("gzip", 1_000).feed(gzip.compress(b"x" * 1_001))
    assert raised.value.failure.kind == FailureKind.TOO_LARGE


def test_a_bomb_costs_no_more_memory_than_the_cap() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000)
    tracemalloc.start()
    body = Body("gzip", 1_000_000)
    with pytest.raises(Failed, match="larger than 1000000"):
        body.feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_padding_after_the_end_is_ignored() -> None:
    body = Body("gzip", 1_000)
    body.feed(gzip.compress(b"page") + b"\0\0\0\0")
    body.feed(b"more")
    assert body.whole() == b"page"


def test_an_empty_body_needs_no_frame() -> None:
    assert Body("gzip", 1_000).whole() == b""


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd", "nonsense"])
def test_an_encoding_that_nobody_asked_for_is_the_sites_failure(encoding: str) -> None:
    with pytest.raises(Failed) as raised:
        Body(encoding, 1_000)
    assert raised.value.failure.kind == FailureKind.SERVER_ERROR
