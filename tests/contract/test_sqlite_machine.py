"""Property 45, and with it property 37, on the embedded store. SWATH_TEST_PROFILE=deep searches much longer."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from swath.backends.sqlite.store import control, loading, rescue
from swath.backends.sqlite.store.store import SqliteStore
from tests.contract.suites import LEASE_SECONDS, Kill, Store, StoreMachine, machine_settings
from tests.support.clock import FakeClock


class EmbeddedMachine(StoreMachine):
    def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
        self.folder = tempfile.TemporaryDirectory()
        store = SqliteStore.open(Path(self.folder.name), clock, LEASE_SECONDS)
        # As the system does when the worker's process dies.
        return store, lambda worker_id: os.close(store._presence._held.pop(worker_id)[0])

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


@pytest.mark.req("Z1", "Q2", "J3", "J4", "J5", "S1", "S3", "S4", "S6", "W5")
@pytest.mark.timeout(3600)
def test_the_embedded_store_driven_at_random_keeps_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that its small jobs too are loaded and retried in several transactions.
    monkeypatch.setattr(loading, "first_piece", lambda costs: min(3, len(list(costs))))
    monkeypatch.setattr(rescue, "first_piece", lambda costs: min(1, len(list(costs))))
    monkeypatch.setattr(control, "_LOOKED_AT", 3)
    profile = os.environ.get("SWATH_TEST_PROFILE", "fast")
    run_state_machine_as_test(EmbeddedMachine, settings=machine_settings(profile, examples=80))
