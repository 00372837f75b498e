"""What `make fuzz-api` adds to schemathesis: good rows, a check that can fail, and a controller that reaches nobody."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.api_fuzz.hooks import no_surprise, rows_of


@pytest.mark.req("Z5")
def test_some_of_the_bodies_are_good_rows() -> None:
    assert [json.loads(line)["item_id"] for line in rows_of("ab cde").splitlines()] == ["ab", "cde"]
    assert rows_of("odd") == b"odd"
    assert rows_of('{"x": 1}') == b'{"x": 1}', "an example stays as it is"


@pytest.mark.req("Z5", "I1")
@pytest.mark.parametrize(
    ("status", "headers", "fine"),
    [(500, {}, False), (503, {}, False), (503, {"retry-after": ["5"]}, True), (504, {}, True), (422, {}, True)],
)
def test_a_5xx_is_a_surprise_unless_it_says_when_to_come_again(status: int, headers: object, fine: bool) -> None:
    response = SimpleNamespace(status_code=status, headers=headers, text="")
    if fine:
        no_surprise(None, response, None)
    else:
        with pytest.raises(AssertionError):
            no_surprise(None, response, None)


OUTSIDE = """
import asyncio, sys
from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from harness.api_fuzz import offline
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver

offline.block_connections()
guard = EgressGuard(SystemResolver(SystemClock()), SystemClock(), allow_private=["127.0.0.1:8010"])
asyncio.run(guard.check("http://127.0.0.1:8010/"))
try:
    asyncio.run(guard.check("http://198.51.100.7/"))
except Failed as failed:
    sys.exit(failed.failure.kind != "dns_unknown")
sys.exit("it went out")
"""


@pytest.mark.req("Z4")
def test_the_controller_that_is_attacked_reaches_only_what_it_was_allowed() -> None:
    assert subprocess.run([sys.executable, "-c", OUTSIDE], check=False, timeout=60).returncode == 0
