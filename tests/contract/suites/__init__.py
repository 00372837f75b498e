"""What every back end must do, as tests to inherit: one suite per port, and one state machine for the whole store.

A back end's own test class inherits a suite and provides its fixtures; each suite names them.
"""

from tests.contract.suites.builders import Kill, Store
from tests.contract.suites.clock import ClockContract
from tests.contract.suites.durable_store import DurableStoreContract, Reopen
from tests.contract.suites.endings import EndingsContract
from tests.contract.suites.job_control import JobControlContract
from tests.contract.suites.job_store import JobStoreContract
from tests.contract.suites.key_ring import KeyRingContract
from tests.contract.suites.leader import LEAD_SECONDS, Candidate, LeaderContract
from tests.contract.suites.lease_store import LeaseStoreContract
from tests.contract.suites.machine_base import LEASE_SECONDS, machine_settings
from tests.contract.suites.result_storage import ResultStorageContract
from tests.contract.suites.site_state import SiteStateContract
from tests.contract.suites.store_machine import StoreMachine
from tests.contract.suites.webhook_outbox import WebhookOutboxContract
from tests.contract.suites.work_queue import HINT_LEASE_SECONDS, HintedQueueContract, OpenQueue, WorkQueueContract

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
    "LeaseStoreContract",
    "OpenQueue",
    "Reopen",
    "ResultStorageContract",
    "SiteStateContract",
    "Store",
    "StoreMachine",
    "WebhookOutboxContract",
    "WorkQueueContract",
    "machine_settings",
]
