import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.egress.resolver import SystemResolver
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Z4", "H2")

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.1.1.1", 0))]


class System:
    """Stands in for the system's resolver: no name is looked up for real."""

    def __init__(self, answer: Callable[[str], list[Any]]) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()

    def getaddrinfo(self, host: bytes, port: None, **options: Any) -> list[Any]:
        with self._lock:
            self.asked.append(host.decode())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self._answer(host.decode())
        finally:
            with self._lock:
                self.at_once -= 1


def system(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], list[Any]]) -> System:
    made = System(answer)
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    return made


def failing(error: Exception) -> Callable[[str], list[Any]]:
    def answer(host: str) -> list[Any]:
        raise error

    return answer


async def kind_of(resolver: SystemResolver, host: str = "site.example") -> FailureKind:
    with pytest.raises(Failed) as raised:
        await resolver.look_up(host)
    return raised.value.failure.kind


async def test_all_addresses_of_a_name_come_once_and_without_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    more = [FOUND[0], (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%lo", 0, 0, 1))]
    system(monkeypatch, lambda host: FOUND + more)
    answer = await SystemResolver(FakeClock()).look_up("site.example")
    assert [str(address) for address in answer.addresses] == ["1.1.1.1", "fe80::1"]


async def test_an_answer_is_kept_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, clock = system(monkeypatch, lambda host: FOUND).asked, FakeClock()
    resolver = SystemResolver(clock)
    answer = await resolver.look_up("site.example")
    assert answer.good_until == clock.boot() + 60
    clock._boot += 59
    await resolver.look_up("site.example")
    assert len(asked) == 1
    clock._boot += 2
    await resolver.look_up("site.example")
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), FailureKind.DNS_UNKNOWN),
        (socket.gaierror(socket.EAI_NODATA, "No address"), FailureKind.DNS_UNKNOWN),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), FailureKind.DNS_TEMPORARY),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure"), FailureKind.DNS_TEMPORARY),
        (socket.gaierror(socket.EAI_SYSTEM, "System error"), FailureKind.DNS_TEMPORARY),
        (OSError(24, "Too many open files"), FailureKind.DNS_TEMPORARY),
    ],
)
async def test_no_such_name_is_told_from_trouble_and_forgotten_soon(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: FailureKind
) -> None:
    asked, clock = system(monkeypatch, failing(error)).asked, FakeClock()
    resolver = SystemResolver(clock)
    assert await kind_of(resolver) == kind
    clock._boot += 4
    assert await kind_of(resolver) == kind
    assert len(asked) == 1
    clock._boot += 2
    await kind_of(resolver)
    assert len(asked) == 2


async def test_a_name_without_addresses_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    system(monkeypatch, lambda host: [])
    assert await kind_of(SystemResolver(FakeClock())) == FailureKind.DNS_UNKNOWN


async def test_many_who_ask_at_once_make_one_question_and_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(host: str) -> list[Any]:
        time.sleep(0.005)
        return FOUND

    made = system(monkeypatch, slowly)
    resolver = SystemResolver(FakeClock())
    await asyncio.gather(*(resolver.look_up("site.example") for _ in range(50)))
    assert len(made.asked) == 1
    await asyncio.gather(*(resolver.look_up(f"site{number}.example") for number in range(60)))
    assert made.most_at_once <= 16


async def test_one_who_stops_waiting_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def slowly(host: str) -> list[Any]:
        go.wait(5)
        return FOUND

    system(monkeypatch, slowly)
    resolver = SystemResolver(FakeClock())
    first, second = (asyncio.create_task(resolver.look_up("site.example")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert (await second).addresses
    assert first.cancelled()


async def test_a_resolver_that_hangs_is_trouble_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def hanging(host: str) -> list[Any]:
        go.wait(5)
        return FOUND

    system(monkeypatch, hanging)
    assert await kind_of(SystemResolver(FakeClock(), timeout_seconds=0.02)) == FailureKind.DNS_TEMPORARY
    go.set()
