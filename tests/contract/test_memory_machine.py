"""Property 45, and with it property 37, on the memory store. SWATH_TEST_PROFILE=deep searches much longer."""

import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.contract.suites import LEASE_SECONDS, Kill, Store, StoreMachine, machine_settings
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore


class MemoryMachine(StoreMachine):
    def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
        store = MemoryStore(clock, LEASE_SECONDS)
        return store, store.kill


@pytest.mark.req("Z1", "J3", "J4", "J5", "S1", "S3", "S4", "S6", "W5")
@pytest.mark.timeout(3600)
def test_the_memory_store_driven_at_random_keeps_its_promises() -> None:
    profile = os.environ.get("SWATH_TEST_PROFILE", "fast")
    run_state_machine_as_test(MemoryMachine, settings=machine_settings(profile, examples=200))
