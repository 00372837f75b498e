"""Z10, S6: a process that is frozen for longer than its lease is not dead, so its item is never taken for poison."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import TryCounts
from swath.domain.lease import POISON_CRASHES
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import ready

LEASE_SECONDS = 0.2
FREEZES = POISON_CRASHES + 1

HOLDER = f"""
import asyncio, sys
from pathlib import Path
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.lease import SlotReport
from tests.contract.suites.builders import success

async def main():
    store = SqliteStore.open(Path(sys.argv[1]), SystemClock(), {LEASE_SECONDS})
    while True:
        lease = await store.claim("holder")
        if lease is None:
            await asyncio.sleep(0.01)
            continue
        assert store.begin(lease, 1)
        await store.finish(lease, [], [], SlotReport(ceiling=1, demand=1, begun=(1,)))
        print("alone" if lease.alone else "not alone", flush=True)
        sys.stdin.readline()
        grant = await store.finish(lease, [success(1)], [], SlotReport(ceiling=1, demand=1))
        print(grant.directive, *grant.accepted, flush=True)

asyncio.run(main())
"""


@pytest.mark.req("Z10", "S6")
async def test_an_item_whose_worker_is_frozen_again_and_again_is_no_poison(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, SystemClock(), LEASE_SECONDS)
    await ready(store, items=1)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, tmp_path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(60):
            for freezes in range(1 + FREEZES):
                assert await process.stdout.readline() == (b"alone\n" if freezes else b"not alone\n")
                os.kill(process.pid, signal.SIGSTOP)
                while not (rescued := await store.rescue("watcher")):
                    await asyncio.sleep(0.01)
                assert [(lease.dead, lease.winners) for lease in rescued] == [(False, ())]
                await store.release("watcher", rescued[0].fence)
                os.kill(process.pid, signal.SIGCONT)
                process.stdin.write(b"go on\n")
                assert await process.stdout.readline() == b"lost\n"
                record = await store.item("job", "1")
                assert (record.tries, record.failure) == (TryCounts(), None)
            assert await process.stdout.readline() == b"alone\n"
            process.stdin.write(b"go on\n")
            assert await process.stdout.readline() == b"go_on 1\n"
        assert (await store.item("job", "1")).state is ItemState.SUCCESS
    finally:
        process.kill()
        await process.communicate()
        await store.close()
