import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.client.robots import (
    KEEP_REFUSAL_SECONDS,
    KEEP_SECONDS,
    LARGEST_BYTES,
    LONGEST_DELAY_SECONDS,
    RobotsCache,
    RobotsRules,
)
from swath.fetch.http.messages import Response
from swath.ports.site_state import CachedRobots
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState

pytestmark = pytest.mark.req("H5")

SITE = "https://county.example"


def rules(text: str, status: int = 200, agent: str = "swath") -> RobotsRules:
    return RobotsRules(CachedRobots(status, text.encode()), agent)


class Site:
    """Answers with one robots.txt, and counts."""

    def __init__(self, text: str = "", status: int = 200) -> None:
        self.text, self.status = text, status
        self.fetched: list[str] = []
        self.failure: Failure | None = None

    async def fetch(self, url: str) -> Response:
        self.fetched.append(url)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise Failed(self.failure)
        return Response(url=url, status=self.status, body=self.text.encode())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ask(clock: FakeClock) -> Callable[[Site], Awaitable[RobotsRules]]:
    robots = RobotsCache(MemorySiteState(clock), clock)
    return lambda site: robots.rules(f"{SITE}/a?b=c", site.fetch)


async def test_it_is_fetched_once_from_the_root_of_the_origin(ask: Callable[[Site], Awaitable[RobotsRules]]) -> None:
    site = Site("User-agent: *\nDisallow: /private\n")
    first, *others = await asyncio.gather(*(ask(site) for _ in range(5)))
    assert site.fetched == [f"{SITE}/robots.txt"]
    assert all(other is first for other in others)
    assert first.allow(f"{SITE}/public")
    assert not first.allow(f"{SITE}/private/1")


async def test_other_processes_do_not_fetch_it_again(clock: FakeClock) -> None:
    book, site = MemorySiteState(clock), Site("User-agent: *\nDisallow: /private\n")
    for _ in range(3):
        found = await RobotsCache(book, clock).rules(f"{SITE}/", site.fetch)
        assert not found.allow(f"{SITE}/private")
    assert len(site.fetched) == 1


async def test_it_is_fetched_again_after_a_day(clock: FakeClock, ask: Callable[[Site], Awaitable[RobotsRules]]) -> None:
    site = Site()
    await ask(site)
    clock.advance(KEEP_SECONDS - 1)
    await ask(site)
    assert len(site.fetched) == 1
    clock.advance(2)
    await ask(site)
    assert len(site.fetched) == 2


@pytest.mark.parametrize("start", ["\ufeff", "\ufeff\r\n", "\ufeff# for robots\n"])
def test_a_byte_order_mark_does_not_hide_the_first_rule(start: str) -> None:
    assert not rules(f"{start}User-agent: *\nDisallow: /private\n").allow(f"{SITE}/private")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_may_say_utf_16(encoding: str) -> None:
    kept = CachedRobots(200, "\ufeffUser-agent: *\nDisallow: /private\n# end".encode(encoding), 0.0)
    assert not RobotsRules(kept, "swath").allow(f"{SITE}/private")
    cut = CachedRobots(200, kept.body[:-1], 0.0)
    assert not RobotsRules(cut, "swath").allow(f"{SITE}/private")


@pytest.mark.parametrize("key", ["User-agent", "Useragent", "user agent"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_our_product_token_is_ours_however_lines_end_and_are_spelt(key: str, end: str) -> None:
    lines = [f"{key}: *", "Disallow:", "", f"{key}: Swath/1.0 # ours", "Disallow: /private", ""]
    assert not rules(end.join(lines)).allow(f"{SITE}/private")


@pytest.mark.parametrize("name", ["Swath/1.0", "swath/2", "SWATH (bulk scraper)", "Swath/1.0 # ours", "  swath\t"])
def test_our_product_token_is_ours_whatever_follows_it(name: str) -> None:
    found = rules(f"User-agent: *\nDisallow:\n\nUser-agent: {name}\nDisallow: /private\nCrawl-delay: 7\n")
    assert not found.allow(f"{SITE}/private")
    assert found.allow(f"{SITE}/public")
    assert found.interval_seconds == 7


@pytest.mark.parametrize("name", ["Swathe/1.0", "Swath-News", "swath2", "Other/1.0 swath"])
def test_the_rules_of_another_product_are_not_ours(name: str) -> None:
    assert rules(f"User-agent: {name}\nDisallow: /\n\nUser-agent: *\nAllow: /\n").allow(f"{SITE}/x")


@pytest.mark.req("Z10")
@pytest.mark.parametrize("days", [-400, 400])
async def test_a_jump_of_the_wall_clock_neither_prolongs_nor_ends_the_day(
    days: float, clock: FakeClock, ask: Callable[[Site], Awaitable[RobotsRules]]
) -> None:
    site = Site()
    await ask(site)
    clock.jump_wall(days * 86_400)
    await ask(site)
    assert len(site.fetched) == 1
    clock.advance(KEEP_SECONDS + 1)
    await ask(site)
    assert len(site.fetched) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418])
async def test_a_file_that_is_not_there_denies_nothing(
    status: int, ask: Callable[[Site], Awaitable[RobotsRules]]
) -> None:
    assert (await ask(Site("User-agent: *\nDisallow: /", status))).allow(f"{SITE}/x")


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_site_that_cannot_tell_denies_everything_for_a_while(
    status: int, clock: FakeClock, ask: Callable[[Site], Awaitable[RobotsRules]]
) -> None:
    site = Site("User-agent: *\nAllow: /", status)
    assert not (await ask(site)).allow(f"{SITE}/x")
    site.status = 200
    clock.advance(KEEP_REFUSAL_SECONDS + 1)
    assert (await ask(site)).allow(f"{SITE}/x")


async def test_a_site_that_cannot_be_reached_has_denied_nothing(ask: Callable[[Site], Awaitable[RobotsRules]]) -> None:
    site = Site()
    site.failure = Failure.of(FailureKind.CONNECT, "refused")
    with pytest.raises(Failed, match="connect: refused"):
        await ask(site)
    site.failure = None
    assert (await ask(site)).allow(f"{SITE}/x"), "nobody has to wait for the fetch that came to nothing"


async def test_a_site_that_is_too_busy_says_so(ask: Callable[[Site], Awaitable[RobotsRules]]) -> None:
    with pytest.raises(Failed) as failed:
        await ask(Site("slow down", 429))
    assert failed.value.failure.kind is FailureKind.RATE_LIMITED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("User-agent: *\nCrawl-delay: 2.5", 2.5),
        ("User-agent: *\nRequest-rate: 1/10", 10.0),
        ("User-agent: *\nCrawl-delay: 1\nRequest-rate: 1/10", 10.0),
        ("User-agent: other\nCrawl-delay: 7\n\nUser-agent: *\nDisallow:", 0.0),
        ("User-agent: swath\nCrawl-delay: 7", 7.0),
        ("User-agent: *\nCrawl-delay: 1000000", LONGEST_DELAY_SECONDS),
        ("User-agent: *\nCrawl-delay: nonsense", 0.0),
        ("", 0.0),
    ],
)
def test_the_delay_that_the_file_asks_for_is_kept(text: str, seconds: float) -> None:
    assert rules(text).interval_seconds == seconds


def test_our_own_name_counts_before_everybodys() -> None:
    told = "User-agent: swath\nDisallow: /ours\n\nUser-agent: *\nDisallow: /all\n"
    assert not rules(told).allow(f"{SITE}/ours")
    assert rules(told).allow(f"{SITE}/all")
    assert not rules(told, agent="somebody").allow(f"{SITE}/all")


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    filler = "# filler\n" * (LARGEST_BYTES // 9 + 1)
    assert rules(filler + "User-agent: *\nDisallow: /\n").allow(f"{SITE}/x")
    assert not rules("User-agent: *\nDisallow: /\n" + filler).allow(f"{SITE}/x")


def test_bytes_that_are_no_text_deny_nothing() -> None:
    assert RobotsRules(CachedRobots(200, bytes(range(256)) * 10), "swath").allow(f"{SITE}/x")


SEGMENTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@pytest.mark.req("property 25")
@given(
    said=st.lists(st.tuples(st.booleans(), SEGMENTS), max_size=6, unique_by=lambda rule: rule[1]),
    path=SEGMENTS,
)
def test_decisions_agree_with_the_rules_given(said: list[tuple[bool, str]], path: str) -> None:
    """The longest rule that the path begins with decides; with none it is allowed."""
    lines = [f"{'Allow' if allowed else 'Disallow'}: {prefix}" for allowed, prefix in said]
    fitting = [(len(prefix), allowed) for allowed, prefix in said if path.startswith(prefix)]
    expected = max(fitting)[1] if fitting else True
    assert rules("\n".join(["User-agent: *", *lines])).allow(SITE + path) is expected
