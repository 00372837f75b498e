import time

import pytest

from swath.web.cookies import CookieJar

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


@pytest.mark.parametrize("lifetime", ["Max-Age=soon", "Expires=whenever", "Max-Age=99999999999999999999"])
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
    jar.store(URL, [f"c{i}=1" for i in range(10_000)], NOW)
    assert len(jar) == 300
