import pytest

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.egress.resolver import DnsAnswer
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import TableResolver

pytestmark = pytest.mark.req("Z4")

PUBLIC = "1.1.1.1"
NAMES: dict[str, list[str] | Failure] = {
    "site.example": [PUBLIC, "2606:4700:4700::1111"],
    "inside.example": ["10.0.0.7"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.7"],
    "down.example": Failure.of(FailureKind.DNS_TEMPORARY, "the resolver is down"),
}


def made(*allow_private: str, own_ports: tuple[int, ...] = ()) -> EgressGuard:
    return EgressGuard(TableResolver(dict(NAMES)), FakeClock(), allow_private=allow_private, own_ports=own_ports)


async def denied(guard: EgressGuard, url: str) -> FailureKind:
    with pytest.raises(Failed) as raised:
        await guard.check(url)
    return raised.value.failure.kind


async def test_a_public_target_comes_with_all_its_addresses() -> None:
    target = await made().check("https://SITE.example/x?y")
    assert (target.scheme, target.host, target.port) == ("https", "site.example", 443)
    assert [str(address) for address in target.addresses] == NAMES["site.example"]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://inside.example/", FailureKind.EGRESS_DENIED),
        ("http://mixed.example/", FailureKind.EGRESS_DENIED),
        ("http://mapped.example/", FailureKind.EGRESS_DENIED),
        ("http://10.0.0.7/", FailureKind.EGRESS_DENIED),
        ("http://[::1]/", FailureKind.EGRESS_DENIED),
        ("http://site.example:22/", FailureKind.EGRESS_DENIED),
        ("http://site.example:6379/", FailureKind.EGRESS_DENIED),
        ("http://site.example:6667/", FailureKind.EGRESS_DENIED),
        ("http://site.example:0/", FailureKind.EGRESS_DENIED),
        ("http://nowhere.example/", FailureKind.DNS_UNKNOWN),
        ("http://down.example/", FailureKind.DNS_TEMPORARY),
        ("ftp://site.example/", FailureKind.INVALID_INPUT),
        ("http://me@site.example/", FailureKind.INVALID_INPUT),
    ],
)
async def test_what_may_not_be_reached_is_refused_by_its_kind(url: str, kind: FailureKind) -> None:
    assert await denied(made(), url) == kind


@pytest.mark.parametrize("port", [80, 443, 1_024, 3_000, 8_080, 8_443, 65_535])
async def test_the_usual_ports_are_open(port: int) -> None:
    assert (await made().check(f"http://site.example:{port}/")).port == port


async def test_a_refusal_says_nothing_of_what_is_inside() -> None:
    messages = []
    for url in ("http://inside.example:8080/", "http://mixed.example:8080/", "http://inside.example:22/"):
        with pytest.raises(Failed) as raised:
            await made().check(url)
        messages.append(raised.value.failure.message.replace("mixed", "inside").replace(":22", ":8080"))
    assert set(messages) == {"inside.example:8080 is not to be reached from here"}


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("inside.example:80", "http://inside.example/"),
        ("Inside.Example.:8080", "http://inside.example:8080/"),
        ("10.0.0.7:443", "https://10.0.0.7/"),
        ("0x7f.1:3000", "http://127.0.0.1:3000/"),
        ("[::1]:3000", "http://[0::1]:3000/"),
        ("site.example:81", "http://site.example:81/"),
    ],
)
async def test_an_exact_host_and_port_can_be_allowed(entry: str, url: str) -> None:
    target = await made(entry).check(url)
    assert target.addresses


@pytest.mark.parametrize(
    "url",
    [
        "http://inside.example:81/",
        "https://inside.example/",
        "http://10.0.0.7/",
        "http://sub.inside.example/",
        "http://mapped.example/",
    ],
)
async def test_allowing_one_opens_no_other(url: str) -> None:
    guard = made("inside.example:80")
    assert isinstance(guard._resolver, TableResolver)
    guard._resolver.names["sub.inside.example"] = ["10.0.0.7"]
    assert await denied(guard, url) == FailureKind.EGRESS_DENIED


@pytest.mark.parametrize(
    "entry", ["localhost", "localhost:", "10.0.0.0/8", "*:80", "http://a:80", "a:80/x", "::1", "a:b", ""]
)
def test_an_entry_that_is_no_host_and_port_is_told(entry: str) -> None:
    with pytest.raises(BadInput, match="localhost:3000"):
        made(entry)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "me.example"]
)
async def test_our_own_ports_are_refused_even_if_allowed(host: str) -> None:
    guard = made(f"{host}:8080", f"{host}:8081", own_ports=(8080,))
    assert isinstance(guard._resolver, TableResolver)
    guard._resolver.names["me.example"] = ["127.0.0.1"]
    assert await denied(guard, f"http://{host}:8080/") == FailureKind.EGRESS_DENIED
    assert (await guard.check(f"http://{host}:8081/")).port == 8081


async def test_the_same_port_elsewhere_is_not_ours() -> None:
    assert (await made(own_ports=(8080,)).check("http://site.example:8080/")).port == 8080


async def test_a_name_is_looked_up_again_when_its_answer_is_too_old() -> None:
    clock, asked = FakeClock(), 0

    class Rebinding:
        async def look_up(self, host: str) -> DnsAnswer:
            nonlocal asked
            asked += 1
            found = await TableResolver({host: [PUBLIC] if asked == 1 else ["127.0.0.1"]}).look_up(host)
            return DnsAnswer(found.addresses, clock.boot() + 60)

    guard = EgressGuard(Rebinding(), clock)
    first = await guard.check("http://site.example/a")
    clock._boot += 59
    assert await guard.check("http://site.example/b") is first
    clock._boot += 2
    assert await denied(guard, "http://site.example/c") == FailureKind.EGRESS_DENIED
    assert asked == 2


async def test_a_name_that_only_the_proxy_knows_passes_through_it() -> None:
    guard = made()
    for name in ("nowhere.example", "down.example"):
        assert await guard.check_proxied(f"https://{name}/") == EgressTarget("https", name, 443, ())
    assert (await guard.check_proxied("https://site.example/")).addresses


@pytest.mark.parametrize(
    "url", ["http://10.0.0.7/", "http://inside.example/", "http://mixed.example/", "http://site.example:25/"]
)
async def test_what_is_private_here_is_not_asked_of_a_proxy(url: str) -> None:
    with pytest.raises(Failed, match="not to be reached"):
        await made().check_proxied(url)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "me.localhost", "printer.local", "metadata.google.internal", "a.localdomain", "nas.home.arpa"),
        *("box.lan", "db.corp", "wiki.intranet", "a.private", "a.home", "ip6-localhost", "metadata", "LOCALHOST."),
    ],
)
@pytest.mark.parametrize("answer", [None, [PUBLIC], Failure.of(FailureKind.DNS_TEMPORARY, "the resolver is down")])
async def test_a_name_that_is_local_to_the_proxy_is_not_asked_of_it(
    host: str, answer: list[str] | Failure | None
) -> None:
    guard = made(f"{host}:8081")
    assert isinstance(guard._resolver, TableResolver)
    if answer is not None:
        guard._resolver.names[host.lower().removesuffix(".")] = answer
    for _ in range(2):
        with pytest.raises(Failed, match="not to be reached"):
            await guard.check_proxied(f"http://{host}:8080/")
    assert (await guard.check_proxied(f"http://{host}:8081/")).port == 8081


@pytest.mark.parametrize("host", ["local.example", "mylocalhost.example", "a.notlocal", "lan.example", "1.1.1.1"])
async def test_a_name_that_only_looks_local_passes_through_a_proxy(host: str) -> None:
    assert (await made().check_proxied(f"http://{host}/")).port == 80


async def test_a_proxys_own_address_is_checked_like_any_other() -> None:
    guard = made("127.0.0.1:3128", "[::1]:3128")
    assert (await guard.check_proxy("127.0.0.1", 3128)).port == 3128
    assert (await guard.check_proxy("::1", 3128)).host == "[::1]"
    assert (await guard.check_proxy("site.example", 22225)).port == 22225
    for host, port in (("127.0.0.1", 3129), ("inside.example", 3128), ("0x7f.1", 80)):
        with pytest.raises(Failed, match="not to be reached"):
            await guard.check_proxy(host, port)
