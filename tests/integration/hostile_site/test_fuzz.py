"""Any bytes that a server can send give a page or a failure of a known kind: never another exception, never a hang.

`SWATH_FUZZ_EXAMPLES=20000 pytest tests/integration/hostile_site/test_fuzz.py` searches for longer.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed, NotFound
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import FailureKind
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from tests.integration.hostile_site.meeting import read_all
from tests.unit.fetch.http.sites import WreqAlone

pytestmark = pytest.mark.req("Z6", "H2", "H3")

ASKED = int(os.environ.get("SWATH_FUZZ_EXAMPLES", "0"))
PATIENCE = Timeouts(connect_seconds=60, request_seconds=60)
HARD_SECONDS = 120.0
# Failures of ours: no answer of a site may end as one of them.
OURS = {FailureKind.INTERNAL, FailureKind.POISON, FailureKind.INVALID_INPUT, FailureKind.INVALID_OUTPUT}


class AnyAnswer:
    """A server that answers each connection with the bytes it was last given, and a session to it."""

    def __init__(self, way: type[DirectTransport]) -> None:
        self._runner = asyncio.Runner()
        self._raw = b""
        self._server = self._runner.run(self._open())
        self._url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"
        clock = SystemClock()
        guard = EgressGuard(SystemResolver(clock), clock, allow_private=[self._url[7:-1]])
        self._transport = way(guard, ResponseLimits(body_bytes=100_000))
        self._clock = clock

    async def _open(self) -> asyncio.Server:
        return await asyncio.start_server(self._answer, "127.0.0.1", 0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._raw)
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def fetch(self, raw: bytes) -> FailureKind | None:
        """The kind of the failure; None for a page, which is read, or for the site's word that there is no record."""
        self._raw = raw
        self._transport._odd.clear()  # or wreq would be asked from the first odd answer on
        try:
            self._runner.run(self._fetch())
        except Failed as failed:
            return FailureKind(failed.failure.kind)
        except NotFound:
            return None
        return None

    async def _fetch(self) -> None:
        async with asyncio.timeout(HARD_SECONDS):
            session = WebSession(self._transport, PATIENCE, self._clock)
            page = await session.get(self._url)
            read_all(page)
            await session.get(self._url)  # with the cookies that came

    def close(self) -> None:
        self._runner.run(self._transport.close())
        self._server.close()
        self._runner.close()


@pytest.fixture(scope="module", params=[DirectTransport, WreqAlone], ids=["in the loop", "by wreq"])
def answering(request: pytest.FixtureRequest) -> Iterator[AnyAnswer]:
    made = AnyAnswer(request.param)
    yield made
    made.close()


# -- answers that are nearly right -------------------------------------------------------------------------------------

SNIPPETS = st.sampled_from(
    [
        b"",
        b"\0",
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b";",
        b"=",
        b",",
        b'"',
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"%00",
    ]
)
WORDS = st.one_of(st.binary(max_size=12), SNIPPETS, st.integers().map(lambda number: b"%d" % number))
PHRASES = st.lists(WORDS, max_size=4).map(b" ".join)
STATUS_LINES = st.one_of(
    st.integers(0, 1100).map(lambda status: b"HTTP/1.1 %d Odd" % status),
    st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK", b"HTTP/1.1 200", b"HTTP/2 200 OK", b"HTTP/1.1  200 OK", b"ICY 200 OK"]
    ),
    PHRASES.map(lambda words: b"HTTP/1.1 200 " + words),
    st.binary(max_size=30),
)
CHARSETS = st.sampled_from(
    [
        *(b"utf-8", b"utf-16", b"utf-7", b"utf-32", b"ascii", b"latin-1", b"cp1252", b"shift_jis", b"gb18030", b"big5"),
        *(
            b"hz",
            b"iso-2022-jp",
            b"punycode",
            b"idna",
            b"undefined",
            b"unicode_escape",
            b"raw_unicode_escape",
            b"base64",
        ),
        *(
            b"hex",
            b"zlib",
            b"bz2",
            b"rot13",
            b"uu",
            b"quopri",
            b"mbcs",
            b"oem",
            b"utf_8_sig",
            b"charmap",
            b"none",
            b"x" * 300,
        ),
    ]
)
ENCODINGS = st.sampled_from(
    [b"gzip", b"deflate", b"br", b"zstd", b"x-gzip", b"identity", b"gzip, gzip", b"gzip,,br", b"", b"odd"]
)
COOKIES = st.builds(
    lambda name, value, rest: b"Set-Cookie: " + name + b"=" + value + b"; " + b"; ".join(rest),
    st.binary(max_size=8),
    st.binary(max_size=8),
    st.lists(
        st.builds(
            lambda key, value: key + b"=" + value,
            st.sampled_from([b"Expires", b"Max-Age", b"Domain", b"Path", b"Secure", b"SameSite", b""]),
            st.one_of(
                WORDS,
                st.sampled_from(
                    [
                        *(
                            b"Thu, 01 Jan 1970 00:00:00 GMT",
                            b"Fri, 31 Dec 9999 23:59:59 -2359",
                            b"Mon, 01 Jan 0001 00:00:00 +2359",
                        ),
                        *(
                            b"99 Foo 99999",
                            b"-1",
                            b"9" * 500,
                            b"\xb2",
                            b"\xb9\xb2",
                            b"127.0.0.1",
                            b".",
                            b"..",
                            b"/",
                            b"//",
                        ),
                    ]
                ),
            ),
        ),
        max_size=4,
    ),
)
LENGTHS = st.one_of(
    st.integers(-2, 2**70).map(lambda number: b"%d" % number),
    st.sampled_from([b"", b"0x10", b"1e3", b"+5", b"5, 5", b"5, 6", b" 5", b"\xb2"]),
)
LOCATIONS = st.one_of(
    PHRASES,
    st.sampled_from(
        [b"/", b"?a", b"//", b"///", b"http://", b"http:/x", b"//[", b"http://a:b:c/", b"http://[::1", b"\\\\x"]
    ),
)
FIELDS = st.one_of(
    COOKIES,
    st.builds(lambda charset: b"Content-Type: text/html; charset=" + charset, CHARSETS),
    PHRASES.map(lambda words: b"Content-Type: " + words),
    ENCODINGS.map(lambda name: b"Content-Encoding: " + name),
    LENGTHS.map(lambda length: b"Content-Length: " + length),
    LOCATIONS.map(lambda location: b"Location: " + location),
    PHRASES.map(lambda words: b"Retry-After: " + words),
    st.sampled_from(
        [
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: x",
            b"Connection: close",
        ]
    ),
    st.builds(lambda name, value: name + b": " + value, st.binary(max_size=8), st.binary(max_size=20)),
    st.binary(max_size=20),
)
PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            *(
                b"<meta charset=",
                b"utf-16>",
                b"zlib>",
                b"<base href=",
                b"'http://['>",
                b"<h1>",
                b"</title>",
                b"<title>",
                b"&#xD800;",
            ),
            *(
                b"\xff\xfe",
                b"\xfe\xff",
                b"\xef\xbb\xbf",
                b"\0\0",
                b"<form action='//['><input name=a>",
                b"Access Denied",
            ),
        ]
    ),
)
BODIES = st.lists(PIECES, max_size=6).map(b"".join)
CHUNKS = st.lists(
    st.builds(
        lambda size, data: size + b"\r\n" + data + b"\r\n",
        st.one_of(LENGTHS, st.just(b"5"), st.binary(max_size=6)),
        BODIES,
    ),
    max_size=3,
).map(b"".join)
ENCODED = st.one_of(
    BODIES,
    BODIES.map(gzip.compress),
    BODIES.map(zlib.compress),
    CHUNKS,
    CHUNKS.map(lambda chunks: chunks + b"0\r\n\r\n"),
    st.builds(lambda body, at: gzip.compress(body)[:at], BODIES, st.integers(0, 40)),
)
ANSWERS = st.builds(
    lambda line, fields, body: line + b"\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body,
    STATUS_LINES,
    st.lists(FIELDS, max_size=5),
    ENCODED,
)


@settings(
    max_examples=ASKED or 400,
    deadline=None,
    derandomize=not ASKED,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(raw=st.one_of(ANSWERS, st.binary(max_size=200)))
def test_any_answer_is_a_page_or_a_failure_of_the_site(answering: AnyAnswer, raw: bytes) -> None:
    assert answering.fetch(raw) not in OURS
