import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.failure import FailureKind
from swath.web.classify import classify_status, retry_after_seconds
from swath.web.transport import Headers, Response

NOW = 1_445_412_480.0  # 2015-10-21 07:28:00 GMT


def response(status: int, headers: Headers = ()) -> Response:
    return Response(url="https://me:secret@site.example/parcel?token=secret", status=status, headers=headers)


@pytest.mark.req("S6")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.HTTP_ERROR),
        (401, FailureKind.HTTP_ERROR),
        (403, FailureKind.BLOCKED),
        (404, FailureKind.NOT_FOUND_PAGE),
        (408, FailureKind.SERVER_ERROR),
        (410, FailureKind.NOT_FOUND_PAGE),
        (425, FailureKind.SERVER_ERROR),
        (429, FailureKind.RATE_LIMITED),
        (500, FailureKind.SERVER_ERROR),
        (502, FailureKind.SERVER_ERROR),
        (503, FailureKind.SERVER_ERROR),
        (599, FailureKind.SERVER_ERROR),
        (304, FailureKind.HTTP_ERROR),
        (999, FailureKind.BLOCKED),
    ],
)
def test_every_status_has_its_kind(status: int, kind: FailureKind) -> None:
    failure = classify_status(response(status), NOW)
    assert failure is not None
    assert failure.kind == kind
    assert str(status) in failure.message


@pytest.mark.parametrize("status", [200, 201, 204, 206])
def test_success_is_no_failure(status: int) -> None:
    assert classify_status(response(status), NOW) is None


@pytest.mark.req("S6")
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2015 07:30:00 GMT", 120.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("Wed Oct 21 07:30:00 2015", 120.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("99999999999999999999", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(status: int, asked: str, seconds: float | None) -> None:
    failure = classify_status(response(status, (("retry-after", asked),)), NOW)
    assert failure is not None
    assert failure.kind == FailureKind.RATE_LIMITED
    assert failure.retry_after_seconds == seconds


@given(st.text(max_size=60))
def test_no_retry_after_breaks_the_reading(text: str) -> None:
    seconds = retry_after_seconds(text, NOW)
    assert seconds is None or seconds >= 0


def test_messages_carry_neither_credentials_nor_query() -> None:
    failure = classify_status(response(500), NOW)
    assert failure is not None
    assert failure.message == "HTTP 500 at https://site.example/parcel"
