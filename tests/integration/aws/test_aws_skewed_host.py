"""Z10: a real process whose clock is wrong by more than a lease keeps its leases for as long as it renews them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.domain.item import TryCounts
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import listing, ready
from tests.integration.aws.stores import Stores

LEASE_SECONDS = 60.0  # nothing ends by itself here, however busy the machine is
SKEW_SECONDS = 100.0
ROUNDS = 5

HOLDER = """
import asyncio, sys
from pathlib import Path
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.store.store import AwsStore
from swath.backends.clock import SystemClock
from swath.domain.lease import SlotReport
from tests.contract.suites.builders import success

class Shifted(SystemClock):
    def now(self):
        return super().now() + float(sys.argv[3])

async def main():
    bridge = EventLoopThread()
    clients = AwsClients(attempt_seconds=20.0, patience_seconds=60.0)
    lease_seconds = float(sys.argv[4])
    store = AwsStore.open(bridge, clients, sys.argv[1], Path(sys.argv[2]), Shifted(), lease_seconds)
    lease = await store.claim("holder")
    seqs = tuple(item.seq for item in lease.items)
    assert store.begin(lease, *seqs)
    await store.finish(lease, [], [], SlotReport(ceiling=len(seqs), demand=len(seqs), begun=seqs))
    print("begun", flush=True)
    while sys.stdin.readline() == "renew\\n":
        print((await store.renew("holder", [lease.fence]))[lease.fence], flush=True)
    grant = await store.finish(lease, [success(seq) for seq in seqs], [], SlotReport(ceiling=0, demand=0))
    print(grant.directive, len(grant.accepted), flush=True)
    await store.release("holder", lease.fence)
    await store.close()
    await bridge.run(clients.close)
    bridge.close()

asyncio.run(main())
"""


@pytest.mark.req("Z10", "Z1", "S6", "Q3")
@pytest.mark.parametrize("skew_seconds", [-SKEW_SECONDS, SKEW_SECONDS])
async def test_a_process_whose_clock_is_wrong_keeps_its_leases(
    stores: Stores, tmp_path: Path, skew_seconds: float
) -> None:
    here = stores.open(tmp_path / "here", SystemClock(), lease_seconds=LEASE_SECONDS)
    await ready(here, items=4)
    arguments = (stores.name, tmp_path / "there", str(skew_seconds), str(LEASE_SECONDS))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"begun\n"
            for _ in range(ROUNDS):
                assert await here.rescue("watcher") == []
                process.stdin.write(b"renew\n")
                assert await process.stdout.readline() == b"go_on\n"
            process.stdin.write(b"end\n")
            answer = (await process.stdout.readline()).split()
            await process.wait()
        assert answer[0] == b"go_on"
        records = await listing(here)
        assert sum(record.state is ItemState.SUCCESS for record in records.values()) == int(answer[1]) > 0
        assert {record.tries for record in records.values()} == {TryCounts()}
        assert not any(record.suspect for record in records.values())
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
