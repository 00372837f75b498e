import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.fetch.http.header_values import parse_http_date

NUMBER = st.one_of(st.integers(-100, 10_000), st.integers(10**18, 10**60)).map(str)
MONTH = st.sampled_from(["Jan", "feb", "December", "x", ""])
ZONE = st.one_of(st.sampled_from(["GMT", "EST", "-0000", "+0000", "", "z"]), NUMBER.map(lambda n: f"+{n}"))


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Wednesday, 21-Oct-15 07:28:00 GMT",
        "Wed, 21-Oct-2015 07:28:00 GMT",
        "Wed Oct 21 07:28:00 2015",
        "Wed, 21 Oct 2015 09:28:00 +0200",
    ],
)
def test_dates_are_read_as_servers_write_them(text: str) -> None:
    assert parse_http_date(text) == 1_445_412_480


@given(
    st.one_of(
        st.text(max_size=150),
        st.builds("Mon, {} {} {} {}:{}:{} {}".format, NUMBER, MONTH, NUMBER, NUMBER, NUMBER, NUMBER, ZONE),
        st.builds("{}-{}-{} {}.{} {}".format, NUMBER, MONTH, NUMBER, NUMBER, NUMBER, ZONE),
        st.text("0123456789:,-+ .JanGMT()\\", max_size=60),
    )
)
@pytest.mark.req("H3")
def test_what_is_no_date_is_none(text: str) -> None:
    seconds = parse_http_date(text)
    assert seconds is None or -1e12 < seconds < 1e12
