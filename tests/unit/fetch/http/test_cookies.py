import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.fetch.http.client.cookies import CookieJar

NOW = 1_750_000_000.0
URL = "https://www.site.example/app/search"


def sent(set_cookie: str, to: str, *, origin: str = URL, later_seconds: float = 0.0) -> str | None:
    jar = CookieJar()
    jar.store(origin, [set_cookie], NOW)
    return jar.header(to, NOW + later_seconds)


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("set_cookie", "to", "header"),
    [
        ("a=1", URL, "a=1"),
        ("a=1", "https://www.site.example/app/other", "a=1"),
        ("a=1", "https://www.site.example/", None),
        ("a=1; Path=/", "https://www.site.example/", "a=1"),
        ("a=1; Path=/app", "https://www.site.example/app", "a=1"),
        ("a=1; Path=/app", "https://www.site.example/apple", None),
        ("a=1; Path=/app/", "https://www.site.example/app", None),
        ("a=1; Path=relative", "https://www.site.example/app/x", "a=1"),
        # host-only, and for a domain
        ("a=1; Path=/", "https://sub.www.site.example/", None),
        ("a=1; Path=/", "https://site.example/", None),
        ("a=1; Path=/; Domain=site.example", "https://api.site.example/", "a=1"),
        ("a=1; Path=/; Domain=.Site.Example", "https://site.example/", "a=1"),
        ("a=1; Path=/; Domain=site.example", "https://badsite.example/", None),
        ("a=1; Path=/; Domain=other.example", "https://other.example/", None),
        ("a=1; Path=/; Domain=sub.www.site.example", "https://sub.www.site.example/", None),
        ("a=1; Path=/; Domain=example", "https://www.site.example/", None),
        # Secure
        ("a=1; Path=/; Secure", "https://www.site.example/", "a=1"),
        ("a=1; Path=/; Secure", "http://www.site.example/", None),
        # odd ones
        ("a", URL, "a"),
        ("=", URL, None),
        ("a=b=c; HttpOnly; SameSite=Lax", URL, "a=b=c"),
        ('a="x y"', URL, 'a="x y"'),
        ("a=1\x00", URL, None),
        ("a=" + "x" * 5_000, URL, None),
    ],
)
def test_a_cookie_goes_where_it_belongs(set_cookie: str, to: str, header: str | None) -> None:
    assert sent(set_cookie, to) == header


def test_a_secure_cookie_cannot_be_set_in_the_clear() -> None:
    assert sent("a=1; Path=/; Secure", URL, origin="http://www.site.example/") is None


def test_domain_cookies_do_not_exist_for_addresses() -> None:
    assert sent("a=1; Path=/; Domain=0.0.1", "http://127.0.0.1/", origin="http://127.0.0.1/") is None
    assert sent("a=1; Path=/; Domain=127.0.0.1", "http://127.0.0.1/", origin="http://127.0.0.1/") == "a=1"


@pytest.mark.parametrize(
    "lifetime",
    [
        "Max-Age=60",
        "Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        f"Expires={time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime(NOW + 60))}",
        f"Expires={time.strftime('%a, %d-%b-%Y %H:%M:%S GMT', time.gmtime(NOW + 60))}",
    ],
)
def test_a_cookie_lives_as_long_as_it_says(lifetime: str) -> None:
    assert sent(f"a=1; {lifetime}", URL, later_seconds=59) == "a=1"
    assert sent(f"a=1; {lifetime}", URL, later_seconds=60) is None


@pytest.mark.parametrize(
    "lifetime",
    [
        "Max-Age=soon",
        "Expires=whenever",
        "Max-Age=99999999999999999999",
        "Expires=Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    ],
)
def test_a_lifetime_that_cannot_be_read_ends_with_the_session(lifetime: str) -> None:
    assert sent(f"a=1; {lifetime}", URL, later_seconds=86_400) == "a=1"


@pytest.mark.parametrize("gone", ["Max-Age=0", "Max-Age=-1", "Expires=Thu, 01-Jan-1970 00:00:00 GMT"])
def test_a_cookie_is_deleted_by_one_that_is_over(gone: str) -> None:
    jar = CookieJar()
    jar.store(URL, ["a=1; Path=/", "b=2; Path=/"], NOW)
    jar.store(URL, [f"a=; Path=/; {gone}"], NOW)
    assert jar.header(URL, NOW) == "b=2"


def test_a_cookie_of_the_same_name_domain_and_path_is_replaced_in_place() -> None:
    jar = CookieJar()
    jar.store(URL, ["a=1; Path=/", "b=2; Path=/", "a=3; Path=/"], NOW)
    assert jar.header(URL, NOW) == "a=3; b=2"


def test_longer_paths_go_first_and_then_the_older() -> None:
    jar = CookieJar()
    jar.store(URL, ["a=1; Path=/", "b=2; Path=/app", "c=3; Path=/"], NOW)
    assert jar.header(URL, NOW) == "b=2; a=1; c=3"


def test_a_site_cannot_fill_the_memory() -> None:
    jar = CookieJar()
    for host in range(20):
        jar.store(f"https://{host}.site.example/", [f"c{i}=1" for i in range(1_000)], NOW)
    assert len(jar) == 300


def test_a_domain_keeps_its_fifty_newest() -> None:
    jar = CookieJar()
    jar.store("https://site.example/", ["other=1"], NOW)
    jar.store(URL, [f"c{i}=1; Path=/" for i in range(60)], NOW)
    assert jar.header(URL, NOW) == "; ".join(f"c{i}=1" for i in range(10, 60))
    assert jar.header("https://site.example/", NOW) == "other=1"


@pytest.mark.parametrize(("character", "most"), [("x", 8), ("é", 4)])
def test_a_header_has_room_for_32_kb_and_leaves_the_oldest_out(character: str, most: int) -> None:
    jar = CookieJar()
    jar.store(URL, [f"c{i}={character * 4_000}; Path=/" for i in range(20)], NOW)
    jar.store(URL, ["deep=1; Path=/app"], NOW)
    header = jar.header(URL, NOW)
    assert header is not None
    assert len(header.encode()) <= 32 * 1024
    assert [pair.partition("=")[0] for pair in header.split("; ")] == ["deep", *(f"c{i}" for i in range(20 - most, 20))]


@given(st.text(max_size=40), st.sampled_from(["Expires", "Max-Age", "Domain", "Path", "x"]), st.text(max_size=60))
def test_no_set_cookie_breaks_the_jar(pair: str, attribute: str, setting: str) -> None:
    sent(f"{pair}; {attribute}={setting}", URL)
