"""What every back end must do, as tests to inherit: one suite per port, and one state machine for the whole store.

A back end's own test class inherits a suite and gives it its fixtures; each suite says which. Needs pytest, Hypothesis,
and `pytest.register_assert_rewrite("swath.testing.contracts")` in a conftest.py for readable failures.
"""

from swath.testing.contracts.clock import ClockContract
from swath.testing.contracts.durable_store import DurableStoreContract, Reopen
from swath.testing.contracts.endings import EndingsContract
from swath.testing.contracts.job_control import JobControlContract
from swath.testing.contracts.job_store import JobStoreContract
from swath.testing.contracts.key_ring import KeyRingContract
from swath.testing.contracts.leader import LEAD_SECONDS, Candidate, LeaderContract
from swath.testing.contracts.lease_book import LeaseBookContract
from swath.testing.contracts.machine_base import LEASE_SECONDS, machine_settings
from swath.testing.contracts.orders import Kill, Store
from swath.testing.contracts.result_storage import ResultStorageContract
from swath.testing.contracts.site_book import SiteBookContract
from swath.testing.contracts.store_machine import StoreMachine
from swath.testing.contracts.webhook_outbox import WebhookOutboxContract
from swath.testing.contracts.work_queue import HINT_LEASE_SECONDS, HintedQueueContract, OpenQueue, WorkQueueContract

__all__ = [
    "HINT_LEASE_SECONDS",
    "LEAD_SECONDS",
    "LEASE_SECONDS",
    "Candidate",
    "ClockContract",
    "DurableStoreContract",
    "EndingsContract",
    "HintedQueueContract",
    "JobControlContract",
    "JobStoreContract",
    "KeyRingContract",
    "Kill",
    "LeaderContract",
    "LeaseBookContract",
    "OpenQueue",
    "Reopen",
    "ResultStorageContract",
    "SiteBookContract",
    "Store",
    "StoreMachine",
    "WebhookOutboxContract",
    "WorkQueueContract",
    "machine_settings",
]
