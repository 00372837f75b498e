"""O4: the doctor looks at the proxies: set up whole, certificates there, somebody answers; and shows no password."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckLevel, CheckResult
from swath.entrypoints.cli.doctor.services import check_proxies
from swath.settings import load

pytestmark = pytest.mark.req("O4", "P2")


@contextmanager
def listening() -> Iterator[int]:
    """Somebody who answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def finding(port: int = 9, **variables: str) -> CheckResult:
    reading = load({"SWATH_ALLOW_PRIVATE": f"127.0.0.1:{port}", **variables})
    found = check_proxies(CheckContext(settings=reading.settings, reading=reading, trouble="", clock=SystemClock()))
    assert "hunter2" not in f"{found}"
    return found


def zone(port: int, product: str = "DATACENTER") -> dict[str, str]:
    return {
        "SWATH_PROXY_URL": f"http://127.0.0.1:{port}",
        "SWATH_PROXY_CUSTOMER": "hl_1",
        f"SWATH_PROXY_{product}_ZONE": "z",
        f"SWATH_PROXY_{product}_PASSWORD": "hunter2",
    }


def test_without_proxies_all_is_well() -> None:
    assert finding().level is CheckLevel.OK


@pytest.mark.parametrize(
    "left_out", ["SWATH_PROXY_CUSTOMER", "SWATH_PROXY_DATACENTER_ZONE", "SWATH_PROXY_DATACENTER_PASSWORD"]
)
def test_a_zone_that_is_set_up_by_halves_is_told_with_what_to_set(left_out: str) -> None:
    found = finding(9, **{name: value for name, value in zone(9).items() if name != left_out})
    assert found.level is CheckLevel.FAIL
    assert left_out in found.advice


def test_a_proxy_that_answers_is_well_and_without_a_price_that_is_said() -> None:
    with listening() as port:
        found = finding(port, SWATH_PROXY_CUSTOM_URLS=f"http://u:hunter2@127.0.0.1:{port}")
        assert (found.level, "cost counts as 0" in found.message) == (CheckLevel.OK, True)
        found = finding(port, **zone(port), SWATH_PROXY_DATACENTER_PRICE_PER_GB="0.6")
        assert (found.level, "cost" in found.message) == (CheckLevel.OK, False)


def test_a_proxy_at_which_nobody_answers_is_told() -> None:
    with listening() as port:
        pass
    found = finding(port, SWATH_PROXY_CUSTOM_URLS=f"http://u:hunter2@127.0.0.1:{port}")
    assert found.level is CheckLevel.FAIL
    assert f"127.0.0.1:{port}" in found.message


def test_certificates_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "brd.crt"
    with listening() as port:
        residential = zone(port, "RESIDENTIAL")
        found = finding(port, **residential)
        assert (found.level, "SWATH_PROXY_CA_FILE" in found.message) == (CheckLevel.WARN, True)
        found = finding(port, **residential, SWATH_PROXY_CA_FILE=str(file))
        assert (found.level, "cannot be read" in found.message) == (CheckLevel.FAIL, True)
        file.write_text("nothing\n")
        found = finding(port, **residential, SWATH_PROXY_CA_FILE=str(file))
        assert (found.level, "no certificate" in found.message) == (CheckLevel.FAIL, True)
        file.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
        assert finding(port, **residential, SWATH_PROXY_CA_FILE=str(file)).level is CheckLevel.OK


def test_it_leaves_no_event_loop_behind() -> None:
    threads = threading.active_count()
    with listening() as port:
        finding(port, SWATH_PROXY_CUSTOM_URLS=f"http://u:hunter2@127.0.0.1:{port}")
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert threading.active_count() == threads
