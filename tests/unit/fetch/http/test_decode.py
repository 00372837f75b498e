import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.http.client.content_decoding import ACCEPTED_ENCODINGS, ResponseBody
from tests.support.bounds import RUNAWAY_CPU_SECONDS, cpu_seconds

pytestmark = pytest.mark.req("H3", "Z6")

ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda content: bytes(brotli.compress(content, quality=5)),
    "zstd": zstandard.ZstdCompressor().compress,
}
NAMES = sorted(ENCODE)


def decoded(encodings: list[str], encoded: bytes, cap_bytes: int = 100_000) -> bytes:
    body = ResponseBody(encodings, cap_bytes)
    body.feed(encoded)
    return body.whole()


def test_what_is_announced_is_what_can_be_decoded() -> None:
    assert sorted(ACCEPTED_ENCODINGS.split(", ")) == NAMES


@given(st.sampled_from(NAMES), st.binary(max_size=5_000), st.lists(st.integers(1, 700), max_size=30))
def test_a_body_comes_out_the_same_however_it_is_cut(name: str, content: bytes, cuts: list[int]) -> None:
    encoded = ENCODE[name](content)
    body = ResponseBody([name], 10_000)
    for size in [*cuts, len(encoded)]:
        if encoded:
            body.feed(encoded[:size])
            encoded = encoded[size:]
    assert body.whole() == content


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 5_000_000])
def test_a_body_of_many_pieces_comes_out_whole(name: str, size: int) -> None:
    content = bytes(size - 3) + b"end"
    assert decoded([name], ENCODE[name](content), 6_000_000) == content


@pytest.mark.parametrize("name", NAMES)
def test_a_body_of_exactly_the_cap_passes_and_one_byte_more_does_not(name: str) -> None:
    assert len(decoded([name], ENCODE[name](b"x" * 1_000), 1_000)) == 1_000
    with pytest.raises(Failed) as raised:
        decoded([name], ENCODE[name](b"x" * 1_001), 1_000)
    assert raised.value.failure.kind == FailureKind.TOO_LARGE


@pytest.mark.parametrize("name", NAMES)
def test_a_bomb_costs_no_more_memory_than_the_cap_and_some(name: str) -> None:
    bomb = ENCODE[name](bytes(100_000_000))
    tracemalloc.start()
    body = ResponseBody([name], 1_000_000)
    with pytest.raises(Failed, match="larger than 1000000"):
        body.feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_a_bomb_inside_a_bomb_is_stopped_between_the_two() -> None:
    inner = gzip.compress(bytes(50_000_000))
    assert len(inner) > 10_000
    with pytest.raises(Failed) as raised:
        decoded(["gzip, gzip"], gzip.compress(inner * 10), 10_000)
    assert raised.value.failure.kind == FailureKind.TOO_LARGE


@pytest.mark.parametrize("outer", NAMES)
@pytest.mark.parametrize("inner", NAMES)
def test_two_encodings_are_taken_off_in_turn(inner: str, outer: str) -> None:
    encoded = ENCODE[outer](ENCODE[inner](b"page" * 100))
    assert decoded([f"{inner}, {outer}"], encoded) == b"page" * 100
    assert decoded([inner, outer.upper()], encoded) == b"page" * 100


@pytest.mark.parametrize("name", NAMES)
def test_a_body_that_is_cut_short_is_no_page(name: str) -> None:
    encoded = ENCODE[name](bytes(range(256)) * 20)
    with pytest.raises(Failed, match="ends too early") as raised:
        decoded([name], encoded[: len(encoded) // 2])
    assert raised.value.failure.kind == FailureKind.CONNECT


@pytest.mark.parametrize("name", NAMES)
def test_a_body_that_is_something_else_is_the_sites_failure(name: str) -> None:
    with pytest.raises(Failed, match=f"is no {name}") as raised:
        decoded([name], b"\xff\xfe<html>no such thing</html>" * 10)
    assert raised.value.failure.kind == FailureKind.SERVER_ERROR


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_several_frames_are_one_body(name: str) -> None:
    assert decoded([name], ENCODE[name](b"one") + ENCODE[name](b"two")) == b"onetwo"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("size", range(1, 40))
def test_several_frames_are_one_body_wherever_they_are_cut(name: str, size: int) -> None:
    encoded = ENCODE[name](b"one") + ENCODE[name](b"two") + ENCODE[name](b"three")
    body = ResponseBody([name], 1_000)
    for start in range(0, len(encoded), size):
        body.feed(encoded[start : start + size])
    assert body.whole() == b"onetwothree"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_body_of_many_frames_with_something_in_them_is_a_body(name: str) -> None:
    assert decoded([name], ENCODE[name](b"page" * 256) * 1_000, 2_000_000) == b"page" * 256_000
    assert decoded([name], ENCODE[name](b"x") * 101) == b"x" * 101


@pytest.mark.timeout(60)
@pytest.mark.parametrize("outer", [None, *NAMES])
@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("content", [b"", b"x"])
def test_a_body_of_tiny_frames_is_refused_before_it_costs_anything(
    name: str, outer: str | None, content: bytes
) -> None:
    frames = ENCODE[name](content) * 100_000
    body = ResponseBody([name] if outer is None else [name, outer], 10_000_000)
    began = time.process_time()
    with pytest.raises(Failed, match="frames") as raised:
        body.feed(frames if outer is None else ENCODE[outer](frames))
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS
    assert raised.value.failure.kind == FailureKind.SERVER_ERROR


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_the_cost_of_frames_grows_with_their_number_alone(name: str) -> None:
    """Frames that may pass, with much behind them in one chunk: what is left is not copied for each."""
    small = ENCODE[name](bytes(1_024)) * 10_000
    large = ENCODE[name](random.Random(1).randbytes(60_000)) * 100

    def fed(frames: bytes) -> int:
        body = ResponseBody([name], 100_000_000)
        body.feed(frames)
        return len(body.whole())

    assert fed(small + large) == 10_000 * 1_024 + 100 * 60_000
    apart = cpu_seconds(lambda: fed(small)) + cpu_seconds(lambda: fed(large))
    assert cpu_seconds(lambda: fed(small + large)) < 5 * apart


@pytest.mark.parametrize("name", NAMES)
def test_padding_after_the_end_is_ignored(name: str) -> None:
    body = ResponseBody([name], 1_000)
    body.feed(ENCODE[name](b"page"))
    body.feed(b"\0\0\0\0")
    body.feed(b"more")
    assert body.whole() == b"page"


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_body_needs_no_frame(name: str) -> None:
    assert ResponseBody([name], 1_000).whole() == b""


def test_a_bare_deflate_stream_is_understood_too() -> None:
    assert decoded(["deflate"], zlib.compress(b"page", wbits=-15)) == b"page"


def test_what_is_not_encoded_is_capped_too() -> None:
    assert decoded(["identity", ""], b"x" * 1_000, 1_000) == b"x" * 1_000
    with pytest.raises(Failed, match="larger"):
        decoded([], b"x" * 1_001, 1_000)


@pytest.mark.parametrize("encoding", ["compress", "nonsense", "gzip, nonsense", "gzip, gzip, gzip", "br, zstd, gzip"])
def test_an_encoding_that_nobody_asked_for_is_the_sites_failure(encoding: str) -> None:
    with pytest.raises(Failed) as raised:
        ResponseBody([encoding], 1_000)
    assert raised.value.failure.kind == FailureKind.SERVER_ERROR


def fed(body: ResponseBody, chunk: bytes, times: int) -> None:
    for _ in range(times):
        body.feed(chunk)


@pytest.mark.parametrize(("crumb", "times"), [(b"", 17), (b"x", 700)])
def test_a_body_in_crumbs_is_the_sites_failure(crumb: bytes, times: int) -> None:
    with pytest.raises(Failed, match="comes in crumbs") as raised:
        fed(ResponseBody([], 100_000), crumb, times)
    assert raised.value.failure.kind == FailureKind.SERVER_ERROR


def test_a_body_in_small_pieces_or_with_a_few_empty_ones_is_a_body() -> None:
    large, small = ResponseBody([], 1_000_000), ResponseBody([], 1_000)
    fed(large, b"<td>", 100_000)
    fed(large, b"", 16)
    fed(small, b"x", 500)
    assert (len(large.whole()), len(small.whole())) == (400_000, 500)


@pytest.mark.req("Z6", "Z8")
def test_a_body_in_many_small_pieces_is_not_kept_as_many_small_pieces() -> None:
    body = ResponseBody([], 10_000_000)
    for number in range(100_000):
        body.feed(b"%05d" % number)
        assert len(body._small) + len(body._parts) < 2_000
    assert body.whole() == b"".join(b"%05d" % number for number in range(100_000))
