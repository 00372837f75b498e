import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.http.messages import Request, Response, next_request

URL = "https://site.example/app/search"


def hop(status: int, location: str | None, method: str = "GET", url: str = URL) -> Request | None:
    headers = (
        *(("Accept", "text/html"), ("Authorization", "Bearer x"), ("Content-Type", "text/plain")),
        *(("Referer", "https://site.example/"), ("Proxy-Authorization", "Basic x")),
    )
    request = Request(url=url, method=method, headers=headers, body=b"" if method in {"GET", "HEAD"} else b"body")
    pairs = () if location is None else (("location", location),)
    return next_request(request, Response(url=url, status=status, headers=pairs))


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        *((status, "GET", "GET") for status in (301, 302, 303, 307, 308)),
        *((status, "HEAD", "HEAD") for status in (301, 302, 303, 307, 308)),
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (302, "PUT", "PUT"),
        (303, "PUT", "GET"),
    ],
)
def test_the_method_changes_as_in_browsers(status: int, method: str, then: str) -> None:
    following = hop(status, "/next", method)
    assert following is not None
    assert following.method == then
    assert following.url == "https://site.example/next"
    kept = then == method
    assert (following.body == b"body") == (kept and method not in {"GET", "HEAD"})
    assert ("Content-Type" in dict(following.headers)) == kept


@pytest.mark.parametrize(("status", "location"), [(200, "/x"), (304, "/x"), (300, "/x"), (302, None), (404, "/x")])
def test_other_answers_lead_nowhere(status: int, location: str | None) -> None:
    assert hop(status, location) is None


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("next", "https://site.example/app/next"),
        ("?page=2", "https://site.example/app/search?page=2"),
        ("//cdn.example/x", "https://cdn.example/x"),
        ("http://site.example/x#part", "http://site.example/x"),
        ("/a b", "https://site.example/a%20b"),
        ("/caf\xc3\xa9", "https://site.example/caf%C3%A9"),
        ("/caf\xe9", "https://site.example/caf%E9"),
    ],
)
def test_targets_are_resolved_and_keep_their_bytes(location: str, url: str) -> None:
    following = hop(302, location)
    assert following is not None
    assert following.url == url


@pytest.mark.parametrize("location", ["ftp://site.example/x", "javascript:alert(1)", "http://[::1", "http://a:b/"])
def test_a_target_that_cannot_be_reached_is_a_navigation_failure(location: str) -> None:
    with pytest.raises(Failed) as raised:
        hop(302, location)
    assert raised.value.failure.kind == FailureKind.NAVIGATION


@pytest.mark.req("Z7", "property 39")
def test_credentials_in_a_target_are_not_told() -> None:
    with pytest.raises(Failed) as raised:
        hop(302, "https://me:hunter2@other.example/x?token=hunter3")
    assert raised.value.failure.kind == FailureKind.NAVIGATION
    assert "other.example" in raised.value.failure.message
    assert "hunter" not in raised.value.failure.message


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("/x", True),
        ("https://other.example/x", False),
        ("http://site.example/x", False),
        ("//site.example:444/", False),
    ],
)
def test_credentials_stay_with_their_origin(location: str, kept: bool) -> None:
    following = hop(302, location)
    assert following is not None
    assert ("Authorization" in dict(following.headers)) == kept
    assert ("Proxy-Authorization" in dict(following.headers)) == kept
    assert "Accept" in dict(following.headers)
