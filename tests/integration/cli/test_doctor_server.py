"""O4: what the API needs is looked at: its address, its keys, the secrets of webhooks."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.bootstrap.network import listening_ports
from swath.bootstrap.services import open_services
from swath.domain.service_key import Scope, new_key
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckLevel
from swath.entrypoints.cli.doctor.services import check_keys, check_server, check_webhooks
from swath.settings import Settings, load

pytestmark = pytest.mark.req("O4")


def _subject(folder: Path, **variables: str) -> CheckContext:
    reading = load({"SWATH_DATA": str(folder), **variables})
    return CheckContext(settings=reading.settings, reading=reading, trouble="", clock=SystemClock())


def test_a_port_that_is_taken_by_another_program_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        subject = _subject(tmp_path, SWATH_PORT=str(port))
        found = check_server(subject)
        assert (found.level, str(port) in found.message, "SWATH_PORT" in found.advice) == (CheckLevel.WARN, True, True)
        with listening_ports(subject.settings).listening(port):
            assert "a controller listens" in check_server(subject).message
    assert check_server(subject).level is CheckLevel.OK


def test_an_address_that_is_not_ours_is_a_failure(tmp_path: Path) -> None:
    found = check_server(_subject(tmp_path, SWATH_HOST="192.0.2.7", SWATH_PORT="0"))
    assert (found.level, "SWATH_HOST" in found.advice) == (CheckLevel.FAIL, True)


async def _add_key(folder: Path, seconds: float | None) -> str:
    async with open_services(Settings(data=folder)) as services:
        now = services.clock.now()
        key, _ = new_key("reporter", (Scope.READ,), now, None if seconds is None else now + seconds)
        await services.store.add_key(key)
        return key.key_id


@pytest.mark.req("I5")
def test_keys_that_expire_soon_are_told(tmp_path: Path) -> None:
    assert "this machine only" in check_keys(_subject(tmp_path)).message
    assert list(tmp_path.iterdir()) == []
    asyncio.run(_add_key(tmp_path, 90 * 86_400))
    assert (check_keys(_subject(tmp_path)).level, check_keys(_subject(tmp_path)).message) == (
        CheckLevel.OK,
        "1 key alive",
    )
    key_id = asyncio.run(_add_key(tmp_path, 86_400))
    found = check_keys(_subject(tmp_path))
    assert (found.level, key_id in found.message) == (CheckLevel.WARN, True)


@pytest.mark.req("I5", "O4")
def test_when_no_key_is_alive_it_says_what_the_controller_does(tmp_path: Path) -> None:
    asyncio.run(_add_key(tmp_path, -1))
    found = check_keys(_subject(tmp_path))
    assert (found.level, "refuses all requests" in found.message) == (CheckLevel.WARN, True)
    assert "swath keys create" in found.advice


@pytest.mark.req("N1", "Z7")
def test_a_secret_that_can_be_guessed_is_a_failure_and_is_not_told(tmp_path: Path) -> None:
    found = check_webhooks(_subject(tmp_path, SWATH_WEBHOOK_SECRET="abracadabra"))
    assert found.level is CheckLevel.FAIL
    assert "abracadabra" not in found.message + found.advice
    unsigned = check_webhooks(_subject(tmp_path, SWATH_WEBHOOK_URL="https://x.example/t0ken"))
    assert (unsigned.level, "t0ken" in unsigned.message) == (CheckLevel.WARN, False)
    signed = {"SWATH_WEBHOOK_URL": "https://x.example/", "SWATH_WEBHOOK_SECRET": f"{'a' * 24} {'b' * 24}"}
    assert check_webhooks(_subject(tmp_path, **signed)).message == "signed with 2 secrets"
    assert check_webhooks(_subject(tmp_path)).level is CheckLevel.OK
