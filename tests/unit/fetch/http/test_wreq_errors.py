import pytest

from swath.domain.failure import FailureKind
from swath.fetch.http.client.wreq_client import failure_from_error

# What the pinned version says, for cases that cannot be provoked over loopback. Each is an exception of that name.
SAMPLES = [
    ("ConnectionError", 'ConnectError("dns error", NoRecords { response_code: NXDomain })', FailureKind.INTERNAL),
    ("ConnectionError", 'ConnectError("dns error", DnsError(Timeout))', FailureKind.INTERNAL),
    ("ConnectionError", 'ConnectError("tcp connect error", Os { kind: TimedOut })', FailureKind.TIMEOUT),
    ("ConnectionError", "source: Some(TimedOut)", FailureKind.TIMEOUT),
    ("TimeoutError", "operation timed out", FailureKind.TIMEOUT),
    ("ConnectionError", 'reason: "CERTIFICATE_VERIFY_FAILED"', FailureKind.TLS),
    ("TlsError", "handshake", FailureKind.TLS),
    ("ConnectionError", "source: Some(Error { code: SYSCALL (5), cause: None })", FailureKind.CONNECT),
    ("ConnectionError", 'Os { code: 113, kind: HostUnreachable, message: "No route to host" }', FailureKind.CONNECT),
    ("ConnectionResetError", "Os { kind: ConnectionReset }", FailureKind.CONNECT),
    ("DecodingError", "netty::Error(Body, Custom { kind: InvalidInput, error: ...", FailureKind.SERVER_ERROR),
    (
        "DecodingError",
        'Error(Body, Error { kind: GoAway(b"", FLOW_CONTROL_ERROR, Library) })',
        FailureKind.SERVER_ERROR,
    ),
    ("DecodingError", "Error(Body, Error { kind: Reset(StreamId(1), CANCEL, Remote) })", FailureKind.CONNECT),
    ("ConnectionError", 'ConnectError("tcp connect error", Os { kind: InvalidInput })', FailureKind.CONNECT),
    ("ProxyConnectionError", "TunnelUnsuccessful", FailureKind.PROXY),
    ("SomethingNew", "of a later version", FailureKind.INTERNAL),
]


@pytest.mark.parametrize(("name", "text", "kind"), SAMPLES)
def test_the_text_of_the_client_tells_the_kind(name: str, text: str, kind: FailureKind) -> None:
    error = type(name, (Exception,), {})(text)
    assert failure_from_error(error, "http://site/").kind == kind


@pytest.mark.parametrize("word", ["dns error", "TimedOut", "code: SSL", "CERTIFICATE_VERIFY_FAILED", "TooLarge"])
def test_words_in_the_address_say_nothing(word: str) -> None:
    address = f"http://site/{word.replace(' ', '%20')}"
    error = type("RequestError", (Exception,), {})(f"kind: Request, uri: {address}, source: IncompleteMessage")
    assert failure_from_error(error, "http://site/").kind == FailureKind.CONNECT
