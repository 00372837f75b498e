"""Property 45, and with it property 37, on the store in DynamoDB. SWATH_TEST_PROFILE=deep searches much longer."""

import asyncio
import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from harness.fakes.aws import Endpoints
from tests.contract.suites import LEASE_SECONDS, Kill, Store, StoreMachine, machine_settings
from tests.integration.aws.stores import Line, Stores, killer
from tests.support.clock import FakeClock

PARTS = 3  # which can run beside each other
EXAMPLES = 17  # in each part
STEPS = 30  # half as many as elsewhere: a step takes ten times as long

_numbers = itertools.count()


class AwsMachine(StoreMachine):
    line: Line  # set by the test

    def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
        self.folder = tempfile.TemporaryDirectory()
        self.stores = Stores(self.line, f"machine-{os.getpid()}-{next(_numbers)}")
        asyncio.run(self.stores.make())
        store = self.stores.open(Path(self.folder.name), clock, lease_seconds=LEASE_SECONDS)
        return store, killer(store)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            asyncio.run(self.stores.close())
            self.folder.cleanup()


@pytest.mark.long
@pytest.mark.req("Z1", "Q3", "J3", "J4", "J5", "S1", "S3", "S4", "S6", "W5")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_aws_store_driven_at_random_keeps_its_promises(aws: Endpoints, part: int) -> None:
    profile = os.environ.get("SWATH_TEST_PROFILE", "fast")
    machine = AwsMachine if profile == "deep" else seed(part)(AwsMachine)  # each part takes steps of its own
    machine.line = Line()
    try:
        run_state_machine_as_test(machine, settings=machine_settings(profile, examples=EXAMPLES, steps=STEPS))
    finally:
        machine.line.close()
