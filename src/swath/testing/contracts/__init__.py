"""What every back end must do, as tests to inherit: one suite per port, and one state machine for the whole store.

A back end's own test class inherits a suite and gives it its fixtures; each suite says which. Needs pytest, Hypothesis,
and `pytest.register_assert_rewrite("swath.testing.contracts")` in a conftest.py for readable failures.
"""

from swath.testing.contracts.clock import ClockContract
from swath.testing.contracts.durable_store import DurableStoreContract, Reopen
from swath.testing.contracts.endings import EndingsContract
from swath.testing.contracts.job_control import JobControlContract
from swath.testing.contracts.job_store import JobStoreContract
from swath.testing.contracts.lease_book import LeaseBookContract
from swath.testing.contracts.machine_base import LEASE_SECONDS, machine_settings
from swath.testing.contracts.orders import Kill, Store
from swath.testing.contracts.result_storage import ResultStorageContract
from swath.testing.contracts.site_book import SiteBookContract
from swath.testing.contracts.store_machine import StoreMachine

__all__ = [
    "LEASE_SECONDS",
    "ClockContract",
    "DurableStoreContract",
    "EndingsContract",
    "JobControlContract",
    "JobStoreContract",
    "Kill",
    "LeaseBookContract",
    "Reopen",
    "ResultStorageContract",
    "SiteBookContract",
    "Store",
    "StoreMachine",
    "machine_settings",
]
